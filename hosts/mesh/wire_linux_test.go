package mesh

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// TestAnswer holds an answer against its bytes, whose MAC comes from another program:
//
//	xxd -r -p | openssl dgst -sha256 -mac HMAC -macopt key:0123456789abcdef
func TestAnswer(t *testing.T) {
	at := time.Unix(0, 0x1122334455667788)
	for _, row := range []struct {
		a    Answer
		want string
	}{
		{Answer{Run: 0x0102030405060708, Seq: 9, Valid: true, Fields: [6]byte{0xab, 0xcd}, Received: at},
			"4353474d010101020304050607080000000000000009abcd112233445566778861c2dbebb213cfadfb231ecc0e32c9d5"},
		{Answer{Run: 1, Seq: 2, Valid: true, Wide: true, Fields: [6]byte{1, 2, 3, 4, 5, 6}, Received: at},
			"4353474d010300000000000000010000000000000002010203040506112233445566778853b5672bc9a3cc3c35e5d52dd87950d1"},
		{Answer{Run: 1, Seq: 2, Received: at}, "4353474d01000000000000000001000000000000000200001122334455667788057d31fde404e34004e0c537d85d12e4"},
	} {
		b := row.a.AppendTo([]byte("before"), testKey)[6:]
		if got := hex.EncodeToString(b); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
		if a, err := ParseAnswer(b, testKey); err != nil || a != row.a {
			t.Errorf("read again: %+v, %v", a, err)
		}
		for i := range b { // every bit counts
			b[i] ^= 0x10
			if _, err := ParseAnswer(b, testKey); err == nil {
				t.Errorf("byte %d may change", i)
			}
			b[i] ^= 0x10
		}
		if _, err := ParseAnswer(b, []byte("another key of 16")); !errors.Is(err, ErrForged) {
			t.Errorf("another key: %v", err)
		}
	}
}

func ends(six bool) (src, dst netip.AddrPort) {
	if six {
		return netip.MustParseAddrPort("[2001:db8::1]:9919"), netip.MustParseAddrPort("[2001:db8::2]:9917")
	}
	return netip.MustParseAddrPort("192.0.2.1:9919"), netip.MustParseAddrPort("192.0.2.2:9917")
}

// TestTagged reads a frame as it was made, whatever is in front of the tag; and none that is cut, a fragment, of
// another protocol or damaged.
func TestTagged(t *testing.T) {
	tpids := quantize.TPIDs{Compact: 0x9900, Wide: 0x9901}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for _, six := range []bool{false, true} {
		for _, wide := range []bool{false, true} {
			for _, size := range []int{0, 1, 52} {
				p := packet{to: mac, from: mac, tag: quantize.Tag{TPID: tpids.Compact, S: 5, LM: 17}, payload: bytes.Repeat([]byte{7}, size)}
				if wide {
					p.tag.TPID, p.tag.Wide = tpids.Wide, true
				}
				p.src, p.dst = ends(six)
				b, err := p.appendTo(nil, quantize.Draft00)
				if err != nil {
					t.Fatal(err)
				}
				a, err := parseTagged(b, tpids)
				if err != nil || a.src != p.src || a.dst != p.dst || a.wide != wide || !bytes.Equal(a.payload, p.payload) {
					t.Errorf("%+v, %v", a, err)
				}
				vlan := append(append(append([]byte(nil), b[:12]...), 0x81, 0, 0, 5), b[12:]...)
				vlan = append(vlan, make([]byte, 20)...) // padding
				if again, err := parseTagged(vlan, tpids); err != nil || !bytes.Equal(again.payload, p.payload) || again.fields != a.fields {
					t.Errorf("behind a VLAN tag, and padded: %+v, %v", again, err)
				}
				for cut := range b {
					if _, err := parseTagged(b[:cut], tpids); err == nil {
						t.Errorf("%d of %d bytes are enough", cut, len(b))
					}
				}
				open := append([]byte(nil), b...)
				at := 12 + p.tag.Size() + 2 + map[bool]int{false: headIPv4, true: headIPv6}[six]
				binary.BigEndian.PutUint16(open[at+6:], 0)
				binary.BigEndian.PutUint16(open[at+6:], checksumUDP(p.src.Addr(), p.dst.Addr(), nil)^0xffff+uint16(headUDP+size))
				if again, err := parseTagged(open, tpids); err != nil || !bytes.Equal(again.payload, p.payload) {
					t.Errorf("a checksum that no card has completed: %+v, %v", again, err)
				}
				untagged := append(append([]byte(nil), b[:12]...), b[12+p.tag.Size():]...)
				if _, err := parseTagged(untagged, tpids); err == nil {
					t.Error("a frame without a tag is read")
				}
				inner := 12 + p.tag.Size() + 2
				for i := inner; i < len(b); i++ {
					if six && (i == inner+1 || i == inner+2 || i == inner+3 || i == inner+7) {
						continue // traffic class, flow label, hop limit: no checksum has them
					}
					b[i] ^= 0x21
					if _, err := parseTagged(b, tpids); err == nil && i != inner { // its lower half is the header's length, or of the traffic class
						t.Errorf("IPv6 %v: byte %d behind the ethertype may change", six, i-inner)
					}
					b[i] ^= 0x21
				}
			}
		}
	}
}

// FuzzReceived has anything arrive: nothing is read that does not come out again.
func FuzzReceived(f *testing.F) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for _, six := range []bool{false, true} {
		p := packet{to: mac, from: mac, tag: quantize.Tag{TPID: 0x9900, S: 5, LM: 17}, payload: probe.Payload{}.AppendTo(nil)}
		p.src, p.dst = ends(six)
		b, err := p.appendTo(nil, quantize.Draft00)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	a := Answer{Valid: true, Received: time.Unix(1, 2)}
	f.Add(a.AppendTo(nil, testKey))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := ParseAnswer(b, testKey); err == nil && !bytes.Equal(a.AppendTo(nil, testKey)[:4], b[:4]) {
			t.Errorf("%x is %+v", b, a)
		}
		if got, err := parseTagged(b, quantize.TPIDs{Compact: 0x9900, Wide: 0x9901}); err == nil && len(got.payload) > len(b) {
			t.Errorf("%x is %+v", b, got)
		}
	})
}

// TestDissector has Wireshark read probes and answers, by docs/csig.lua: a decoder that shares no code with this one.
func TestDissector(t *testing.T) {
	lua, err := filepath.Abs("../../docs/csig.lua")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := probe.NewCapture(&file)
	if err != nil {
		t.Fatal(err)
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	at := time.Unix(1700000000, 5)
	var want []string
	write := func(p packet, line string) {
		p.to, p.from = mac, mac
		b, err := p.appendTo(nil, quantize.Draft00)
		if err == nil {
			err = w.Write(at, b)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, line)
	}
	for _, six := range []bool{false, true} {
		src, dst := ends(six)
		sent := appendProbe(nil, probe.Payload{Signal: quantize.MinABWC, Run: 0xfedc, Seq: 77, Sent: at}, testKey, src.Addr(), dst.Addr())
		write(packet{src: src, dst: dst, tag: quantize.Tag{TPID: 0x9900, T: 1, S: 31, LM: 126}, payload: sent},
			"9919 9917 probe 1 1   0x000000000000fedc 77 1700000000000000005  "+hex.EncodeToString(sent[36:])+" 31 126 1 1")
		a := Answer{Run: 0xfedc, Seq: 77, Valid: true, Received: at}
		binary.BigEndian.PutUint16(a.Fields[:], 1<<13|5<<7|17)
		write(packet{src: dst, dst: dst, payload: a.AppendTo(nil, testKey)}, "9917 9917 answer 1  1 0 0x000000000000fedc 77  1700000000000000005 "+hex.EncodeToString(a.AppendTo(nil, testKey)[32:])+" 5 17 1 1")
		a = Answer{Run: 1, Seq: 2, Received: at}
		write(packet{src: dst, dst: dst, payload: a.AppendTo(nil, testKey)}, "9917 9917 answer 1  0 0 0x0000000000000001 2  1700000000000000005 "+hex.EncodeToString(a.AppendTo(nil, testKey)[32:])+"    1")
	}
	name := filepath.Join(t.TempDir(), "mesh.pcap")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-X", "lua_script:" + lua, "-r", name, "-T", "fields", "-E", "separator= ", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"}
	for _, f := range []string{"udp.srcport", "udp.dstport", "csig_mesh.kind", "csig_mesh.version", "csig_mesh.signal", "csig_mesh.valid", "csig_mesh.wide", "csig_mesh.run", "csig_mesh.seq", "csig_mesh.sent", "csig_mesh.received", "csig_mesh.mac", "csig.s", "csig.lm", "csig.t", "udp.checksum.status"} {
		args = append(args, "-e", f)
	}
	cmd := exec.Command("tshark", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s%s", len(got), len(want), out, said.String())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %q\nwant %q", got[i], want[i])
		}
	}
}
