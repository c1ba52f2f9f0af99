package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 0xa}
	macB = net.HardwareAddr{2, 0, 0, 0, 0, 0xb}
)

func TestFrameBytes(t *testing.T) {
	f := Frame{
		Dst: macB, Src: macA,
		VLANs:  []VLAN{{0x88a8, 0x0064}, {0x8100, 0xe00a}},
		Tagged: true,
		Tag:    quantize.Tag{TPID: 0x9900, T: quantize.MinABWC, S: 31, LM: 126},
		Payload: Payload{
			Signal: quantize.MinABWC, Run: 0x1122334455667788, Seq: 258,
			Sent: time.Unix(1, 2),
		},
	}
	got, err := f.AppendTo(nil, quantize.Draft00, 64)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("\x02\x00\x00\x00\x00\x0b" + "\x02\x00\x00\x00\x00\x0a" +
		"\x88\xa8\x00\x64" + "\x81\x00\xe0\x0a" + "\x99\x00\x2f\xfe" + "\x88\xb5" +
		"CSGP" + "\x01" + "\x01" + "\x00\x00" + "\x11\x22\x33\x44\x55\x66\x77\x88" +
		"\x00\x00\x00\x00\x00\x00\x01\x02" + "\x00\x00\x00\x00\x3b\x9a\xca\x02" +
		"\x00\x00\x00\x00\x00\x00")
	if !bytes.Equal(got, want) {
		t.Fatalf("got\n% x, want\n% x", got, want)
	}
	back, err := Parse(got, quantize.TPIDs{Compact: 0x9900}, quantize.Draft00)
	if err != nil || !reflect.DeepEqual(back, f) {
		t.Fatalf("read back\n%+v, want\n%+v: %v", back, f, err)
	}
}

func TestFrameRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Frame
		size int
	}{
		{"short address", Frame{Dst: macA[:5], Src: macB}, 60},
		{"too small", Frame{Dst: macA, Src: macB}, 45},
		{"too small for the tag", Frame{Dst: macA, Src: macB, Tagged: true, Tag: quantize.Tag{TPID: 0x9900}}, 46},
		{"S of 32", Frame{Dst: macA, Src: macB, Tagged: true, Tag: quantize.Tag{TPID: 0x9900, S: 32}}, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := []byte("kept")
			if b, err := c.f.AppendTo(before, quantize.Draft00, c.size); err == nil || string(b) != "kept" {
				t.Errorf("got %q, %v", b, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	frame := func(inner string) []byte {
		return append(append(append([]byte{}, macA...), macB...), inner...)
	}
	good := string(Payload{}.AppendTo(nil))
	for _, c := range []struct {
		name  string
		frame []byte
		want  error
	}{
		{"another ethertype", frame("\x08\x00" + good), ErrNotProbe},
		{"no payload", frame("\x88\xb5"), ErrNotProbe},
		{"short payload", frame("\x88\xb5" + good[:PayloadSize-1]), ErrNotProbe},
		{"another magic", frame("\x88\xb5" + "CSGQ" + good[4:]), ErrNotProbe},
		{"another version", frame("\x88\xb5" + "CSGP\x02" + good[5:]), ErrNotProbe},
		{"a VLAN tag behind the CSIG tag", frame("\x99\x00\x00\x01\x81\x00\x00\x01\x88\xb5" + good), quantize.ErrNotLast},
		{"cut in the addresses", macA[:5], quantize.ErrTruncated},
		{"good", frame("\x88\xb5" + good), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse(c.frame, quantize.TPIDs{Compact: 0x9900}, quantize.Draft00); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	tpids := quantize.TPIDs{Compact: 0x9900, Wide: 0x9901}
	for _, tag := range []quantize.Tag{{TPID: 0x9900, S: 31, LM: 126}, {TPID: 0x9901, Wide: true, S: 1, LM: 2, R: 255}} {
		seed := Frame{Dst: macA, Src: macB, VLANs: []VLAN{{0x8100, 1}}, Tagged: true, Tag: tag}
		b, err := seed.AppendTo(nil, quantize.Draft00, 100)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:50], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, uec bool) {
		layout := quantize.Draft00
		if uec {
			layout = quantize.UEC
		}
		got, err := Parse(b, tpids, layout)
		if err != nil {
			return
		}
		again, err := got.AppendTo(nil, layout, len(b))
		if err != nil {
			t.Fatalf("read %+v, and it cannot be written: %v", got, err)
		}
		if n := got.size(); !bytes.Equal(again[:n-PayloadSize+6], b[:n-PayloadSize+6]) || !bytes.Equal(again[n-24:n], b[n-24:n]) {
			t.Fatalf("read\n% x, wrote\n% x", b, again)
		}
	})
}

func TestTracker(t *testing.T) {
	for _, c := range []struct {
		name                                  string
		seqs                                  []uint64
		received, lost, duplicates, reordered uint64
	}{
		{"in order", []uint64{0, 1, 2}, 3, 0, 0, 0},
		{"starts late", []uint64{7, 8}, 2, 0, 0, 0},
		{"a gap", []uint64{0, 3}, 2, 2, 0, 0},
		{"a duplicate", []uint64{0, 1, 1, 0}, 2, 0, 2, 0},
		{"swapped", []uint64{0, 2, 1, 3}, 4, 0, 0, 1},
		{"swapped and doubled", []uint64{0, 2, 1, 1, 2}, 3, 0, 2, 1},
		{"before the first", []uint64{1, 0, 2}, 3, 0, 0, 1},
		{"a gap that hides old marks", []uint64{0, 1, 64, 4097, 2}, 5, 4093, 0, 1},
		{"a gap of the window", []uint64{5, 5 + seqWindow, 6}, 3, seqWindow - 2, 0, 1},
		{"a gap beyond the window", []uint64{5, 6 + 2*seqWindow, 7 + seqWindow}, 3, 2*seqWindow - 1, 0, 1},
		{"older than the window", []uint64{0, 1, 3, 2 + 2*seqWindow, 2}, 5, 2*seqWindow - 2, 0, 1},
		{"as far as it goes", []uint64{0, 1<<64 - 1}, 2, 1<<64 - 2, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tr Tracker
			for _, s := range c.seqs {
				tr.Observe(Payload{Run: 9, Signal: 1, Seq: s})
			}
			want := []Stats{{9, 1, c.received, c.lost, c.duplicates, c.reordered}}
			if got := tr.Stats(); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestTrackerForgets sends the probes of more runs than are remembered.
func TestTrackerForgets(t *testing.T) {
	var tr Tracker
	for run := range uint64(3 * maxFlows) {
		tr.Observe(Payload{Run: run, Signal: 0})
		tr.Observe(Payload{Run: 1 << 63, Signal: 2, Seq: run})
	}
	stats := tr.Stats()
	if len(stats) != maxFlows {
		t.Errorf("%d flows are remembered, want %d", len(stats), maxFlows)
	}
	if last := stats[len(stats)-1]; last.Run != 1<<63 || last.Received != 3*maxFlows {
		t.Errorf("the busy flow is %+v", last)
	}
}

// TestCapture has tshark read a capture: every byte, and times to the nanosecond.
func TestCapture(t *testing.T) {
	name := filepath.Join(t.TempDir(), "probes.pcap")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := NewCapture(file)
	if err != nil {
		t.Fatal(err)
	}
	at, frame := time.Unix(1700000000, 123456789), bytes.Repeat([]byte("csig"), 20)
	var want strings.Builder
	for i := range 2 {
		if err := c.Write(at.Add(time.Duration(i)), frame[:60+i]); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "1700000000.%d %d %x\n", 123456789+i, 60+i, frame[:60+i])
	}
	out, err := exec.Command("tshark", "-n", "-r", name, "-T", "json", "-x").Output()
	if err != nil {
		t.Fatalf("this test needs tshark: apt-get install tshark: %v", err)
	}
	var read []struct {
		Source struct {
			Layers struct {
				Frame struct {
					Epoch  string `json:"frame.time_epoch"`
					Length string `json:"frame.len"`
				} `json:"frame"`
				Raw []any `json:"frame_raw"`
			} `json:"layers"`
		} `json:"_source"`
	}
	if err := json.Unmarshal(out, &read); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got strings.Builder
	for _, r := range read {
		l := r.Source.Layers
		fmt.Fprintln(&got, l.Frame.Epoch, l.Frame.Length, l.Raw[0])
	}
	if got.String() != want.String() {
		t.Errorf("tshark reads\n%swant\n%s", got.String(), want.String())
	}
}
