package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// csig runs a command line in this process and returns what it prints.
func csig(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func mustCSIG(t *rapid.T, args ...string) string {
	out, err := csig(args...)
	if err != nil {
		t.Fatalf("csig %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// holds checks a property with a hundred draws, or with 25 where a test named TestLong… has the others.
func holds(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if checks := flag.Lookup("rapid.checks").Value; !vendorstest.Long(t) && checks.String() == "100" { // nobody has asked for others
		_ = checks.Set("25")
		defer checks.Set("100") //nolint:errcheck // it was that
	}
	rapid.Check(t, property)
}

// drawTag draws the parts of any tag that fits its format.
func drawTag(t *rapid.T) tagResult {
	layout := rapid.SampledFrom([]string{"draft-00", "uec"}).Draw(t, "layout")
	x := tagResult{Layout: layout, Wide: rapid.Bool().Draw(t, "wide"), TPID: rapid.Uint16().Filter(func(v uint16) bool { return quantize.TPIDs{Compact: v}.Validate() == nil }).Draw(t, "tpid")}
	maxT, maxR, maxS, maxLM := 7, 1, 31, 127
	if x.Wide {
		maxT, maxR, maxS, maxLM = 15, 255, 1<<20-1, 1<<16-1
	}
	if layout == "uec" {
		maxLM /= 2
		x.D = uint8(rapid.IntRange(0, 1).Draw(t, "d"))
	}
	x.T = uint8(rapid.IntRange(0, maxT).Draw(t, "t"))
	x.R = uint8(rapid.IntRange(0, maxR).Draw(t, "r"))
	x.S = uint32(rapid.IntRange(0, maxS).Draw(t, "s"))
	x.LM = uint16(rapid.IntRange(0, maxLM).Draw(t, "lm"))
	return x
}

// encodeArgs is the command line that makes a tag.
func encodeArgs(t *rapid.T, x *tagResult) []string {
	signal := []string{"--t", fmt.Sprint(x.T)}
	if rapid.Bool().Draw(t, "by name") {
		signal = []string{"--signal", quantize.Signal(x.T).String()}
	}
	args := append([]string{"tag", "encode", "--layout", x.Layout, fmt.Sprintf("--wide=%v", x.Wide), "--tpid", fmt.Sprint(x.TPID),
		"--r", fmt.Sprint(x.R), "--s", fmt.Sprint(x.S), "--lm", fmt.Sprint(x.LM), "--d", fmt.Sprint(x.D)}, signal...)
	if rapid.Bool().Draw(t, "json") {
		args = append(args, "--json")
	}
	return args
}

// encode runs csig tag encode, in either form of output, and returns the hex.
func encode(t *rapid.T, x *tagResult) string {
	args := encodeArgs(t, x)
	out := mustCSIG(t, args...)
	if args[len(args)-1] != "--json" {
		return strings.TrimSpace(out)
	}
	return parseTag(t, out).Hex
}

func parseTag(t *rapid.T, out string) tagResult {
	var got tagResult
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// Every tag comes back from decode as it was given to encode, and decode's JSON is
// enough to encode it again.
func TestDecodeIsTheInverseOfEncode(t *testing.T) { decodeIsTheInverseOfEncode(t) }

func TestLongDecodeIsTheInverseOfEncode(t *testing.T) { decodeIsTheInverseOfEncode(t) }

func decodeIsTheInverseOfEncode(t *testing.T) {
	holds(t, func(t *rapid.T) {
		x := drawTag(t)
		text := encode(t, &x)
		args := []string{"tag", "decode", "--json", "--layout", x.Layout, fmt.Sprintf("--wide=%v", x.Wide), text}
		got := parseTag(t, mustCSIG(t, args...))
		want := x
		want.Format, want.Hex, want.Signal = "csig.tag/v1", text, quantize.Signal(x.T).String()
		if got != want {
			t.Fatalf("%+v was encoded, %s was decoded as %+v", want, text, got)
		}
		if again := encode(t, &got); again != text {
			t.Fatalf("%s decoded and encoded is %s", text, again)
		}
	})
}

// lastTag is the independent model of a frame: the list of its L2 tags, cut
// from the outside in. It returns the offset of the last, or -1 where that is
// not CSIG's, or not the only one that is.
func lastTag(words []uint16, tpids []uint16, size int) (at, vlans int) {
	type tag struct {
		off  int
		csig bool
	}
	var tags []tag
	i, all := 6, 0
	for i < len(words) {
		csig := slices.Contains(tpids, words[i])
		if !csig && words[i] != 0x8100 && words[i] != 0x88a8 {
			break
		}
		tags = append(tags, tag{2 * i, csig})
		if csig {
			all++
			i += size / 2
		} else {
			vlans++
			i += 2
		}
	}
	if i >= len(words) || len(tags) == 0 || !tags[len(tags)-1].csig || all > 1 || vlans > 4 {
		return -1, vlans
	}
	return tags[len(tags)-1].off, vlans
}

// In a frame the tag is the last L2 tag, behind any mix of VLAN tags; a frame
// with two CSIG tags, or that ends with another tag, or too early, is an error.
func TestDecodeFindsTheLastTagOfAFrame(t *testing.T) { decodeFindsTheLastTagOfAFrame(t) }

func TestLongDecodeFindsTheLastTagOfAFrame(t *testing.T) { decodeFindsTheLastTagOfAFrame(t) }

func decodeFindsTheLastTagOfAFrame(t *testing.T) {
	holds(t, func(t *rapid.T) {
		wide := rapid.Bool().Draw(t, "wide")
		size := quantize.Tag{Wide: wide}.Size()
		all := []uint16{0x9900, 0x9901, 0x88a8}
		tpids := all[:rapid.IntRange(1, len(all)).Draw(t, "tpids")]
		names := make([]string, 0, len(tpids))
		for _, tpid := range tpids {
			names = append(names, fmt.Sprintf("0x%04x", tpid))
		}
		words := []uint16{0x0200, 0, 2, 0x0200, 0, 1}
		for range rapid.IntRange(0, 6).Draw(t, "tags") {
			words = append(words, rapid.SampledFrom([]uint16{0x8100, 0x88a8, 0x9900, 0x9901}).Draw(t, "tpid"))
			n := 1
			if slices.Contains(tpids, words[len(words)-1]) {
				n = size/2 - 1
			}
			for range n {
				words = append(words, rapid.Uint16().Draw(t, "data"))
			}
		}
		words = append(words, 0x0800, 0x4500, 0x0054)
		words = words[:rapid.IntRange(7, len(words)).Draw(t, "length")]
		var raw []byte
		for _, w := range words {
			raw = binary.BigEndian.AppendUint16(raw, w)
		}
		at, vlans := lastTag(words, tpids, size)
		out, err := csig("tag", "decode", "--json", "--tpid", strings.Join(names, ","), fmt.Sprintf("--wide=%v", wide), hex.EncodeToString(raw))
		if at < 0 {
			if err == nil {
				t.Fatalf("% x: decoded as %s, want an error", raw, out)
			}
			return
		}
		if err != nil {
			t.Fatalf("% x: %v", raw, err)
		}
		got := parseTag(t, out)
		if got.Hex != hex.EncodeToString(raw[at:at+size]) || got.VLANs == nil || *got.VLANs != vlans {
			t.Fatalf("% x: decoded %+v, want the tag at byte %d behind %d VLAN tags", raw, got, at, vlans)
		}
	})
}

// csig tag decode, csig probe and quantize, which the data planes' tests use, report
// the same of every row of tags.
func TestTagDecodeAndProbeAgree(t *testing.T) { tagDecodeAndProbeAgree(t) }

func TestLongTagDecodeAndProbeAgree(t *testing.T) { tagDecodeAndProbeAgree(t) }

func tagDecodeAndProbeAgree(t *testing.T) {
	holds(t, func(t *rapid.T) {
		frame := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
		for range rapid.IntRange(0, 5).Draw(t, "tags") {
			tpid := rapid.SampledFrom([]uint16{0x8100, 0x88a8, 0x9900, 0x9900, 0x9901}).Draw(t, "tpid")
			frame = append(binary.BigEndian.AppendUint16(frame, tpid), 0x0f, 0x7e)
			if tpid == 0x9901 {
				frame = append(frame, 0x10, 0, 4, 0)
			}
		}
		frame = append(frame, 0x08, 0, 0x45, 0)
		pos, err := quantize.FindTag(frame, defaultTPIDs)
		parsed, probeErr := probe.Parse(frame, defaultTPIDs, quantize.Draft00)
		if errors.Is(probeErr, probe.ErrNotProbe) != (err == nil || errors.Is(err, quantize.ErrNoTag)) || parsed.Tagged != (err == nil) {
			t.Fatalf("% x: quantize returns %v, probe %v", frame, err, probeErr)
		}
		for _, wide := range []bool{false, true} {
			out, decodeErr := csig("tag", "decode", "--json", fmt.Sprintf("--wide=%v", wide), hex.EncodeToString(frame))
			if want := err == nil && pos.Wide == wide; (decodeErr == nil) != want {
				t.Fatalf("% x, wide %v: decode returns %v, quantize %v", frame, wide, decodeErr, err)
			}
			if decodeErr == nil && parseTag(t, out).Hex != hex.EncodeToString(frame[pos.Offset:pos.EtherType]) {
				t.Fatalf("% x: %s", frame, out)
			}
		}
	})
}

// What csig tag encode makes without flags is what csig probe send sends without
// flags.
func TestTagAndProbeHaveTheSameDefaults(t *testing.T) {
	cmd := newProbeSend()
	var o probeOptions
	o.tpid, o.wideTPID, o.layout = cmd.Flag("tpid").DefValue, cmd.Flag("wide-tpid").DefValue, cmd.Flag("layout").DefValue
	f, err := o.domain(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for _, wide := range []bool{false, true} {
		for _, name := range strings.Split(defaultSignals, ",") {
			sig, err := parseSignalOrT(name)
			if err != nil {
				t.Fatal(err)
			}
			tag := probe.InitialTag(&f.Profile, wide, sig)
			raw, err := tag.Encode(f.Profile.Layout)
			if err != nil {
				t.Fatal(err)
			}
			out, err := csig("tag", "encode", "--signal", name, fmt.Sprintf("--wide=%v", wide))
			if want := hex.EncodeToString(raw) + "\n"; err != nil || out != want {
				t.Errorf("%s, wide %v: encode %q, %v; probe sends %q", name, wide, out, err, want)
			}
		}
	}
}

// No command takes a TPID that no profile may have.
func TestTPIDsThatAreRefused(t *testing.T) {
	for v := range 0x10000 {
		if v > 0x0700 && v < 0x0800 || v > 0x8930 && v < 0xfff0 || v > 0x0810 && v < 0x80f0 {
			continue // quick
		}
		want := quantize.TPIDs{Compact: uint16(v)}.Validate()
		if got, err := parseTPIDs("tpid", fmt.Sprint(v)); (err == nil) != (want == nil) || err == nil && got[0] != uint16(v) {
			t.Fatalf("%#04x: %v, %v; a profile has %v", v, got, err, want)
		}
	}
	for _, args := range [][]string{
		{"tag", "encode", "--tpid", "0x8100"}, {"tag", "encode", "--tpid", "0x0800"}, {"tag", "encode", "--tpid", "5"}, {"tag", "encode", "--wide", "--tpid", "0x86dd"},
		{"tag", "decode", "--tpid", "0x9900,0x8100", "99002385"}, {"tag", "encode", "-i", "../../examples/lab.yaml", "--tpid", "0x88a8"},
	} {
		if out, err := csig(args...); err == nil || !strings.Contains(err.Error(), "--tpid") {
			t.Errorf("%s: %q, %v", strings.Join(args, " "), out, err)
		}
	}
}

func TestLengthsThatAreNeitherTagNorFrame(t *testing.T) {
	for n := 1; n < shortestFrame; n++ {
		for _, wide := range []bool{false, true} {
			_, err := csig("tag", "decode", fmt.Sprintf("--wide=%v", wide), strings.Repeat("99", n))
			if want := (n == 4 && !wide) || (n == 8 && wide); (err == nil) != want {
				t.Errorf("%d bytes, wide %v: %v", n, wide, err)
			}
		}
	}
}

func TestCheckedWriter(t *testing.T) {
	full := errors.New("full")
	w := &checkedWriter{w: writerFunc(func([]byte) (int, error) { return 0, full })}
	fmt.Fprint(w, "x")
	if !errors.Is(w.err, full) {
		t.Errorf("the error of a write is lost: %v", w.err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
