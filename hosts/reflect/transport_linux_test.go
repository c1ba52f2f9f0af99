package reflect

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/quantize"
)

func listen(t *testing.T) *Transport {
	t.Helper()
	one, err := Listen(netip.MustParseAddrPort("127.0.0.1:0"), quantize.Draft00, []quantize.Signal{quantize.MinABW, quantize.MinABWC})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close() })
	return one
}

// marked is a socket whose datagrams arrive on the loopback with a mark, as those do whose tag was removed.
func marked(t *testing.T, to *Transport, mark int) (c *net.UDPConn) {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to.LocalAddr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := errors.Join(raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) }), failed); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReflection sends a Transport what arrives from a network, and reads its answers byte by byte.
func TestReflection(t *testing.T) {
	for _, row := range []struct {
		name     string
		mark     int
		sends    string
		fails    error
		answer   string // the header of the next datagram
		received []Reading
		learned  []Reading
	}{
		{"no tag", 0, "\x00\x00\x00x", nil, "\x00\x00\x00", nil, nil},
		{"a tag: T 0, S 5, LM 17", 0xc5160000 | 5<<7 | 17, "\x00\x00\x00x", nil, "\x80\x02\x91", []Reading{{T: 0, S: 5, LM: 17}}, nil},
		{"a tag of T 1, and a reflection of T 0", 0xc5160000 | 1<<13 | 31<<7 | 126, "\x80\x02\x91x", nil, "\x80\x2f\xfe", []Reading{{T: 1, S: 31, LM: 126}}, []Reading{{T: 0, S: 5, LM: 17}}},
		{"another program's mark", 0x12340000 | 5<<7 | 17, "\x00\x00\x00x", nil, "\x00\x00\x00", nil, nil},
		{"a T that was not asked for", 0xc5160000 | 2<<13, "\x80\x40\x00x", nil, "\x00\x00\x00", nil, nil},
		{"a T of none", 0xc5160000 | 7<<13, "\x80\xff\xffx", nil, "\x00\x00\x00", nil, nil},
		{"too short", 0, "\x80\x02", ErrHeader, "\x00\x00\x00", nil, nil},
		{"unknown flags", 0, "\xc0\x02\x91x", ErrHeader, "\x00\x00\x00", nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			end := listen(t)
			c := marked(t, end, row.mark)
			if _, err := c.Write([]byte(row.sends)); err != nil {
				t.Fatal(err)
			}
			payload, from, err := end.Receive()
			if !errors.Is(err, row.fails) || err == nil && string(payload) != "x" {
				t.Fatalf("%q, %v", payload, err)
			}
			known := end.Signals(from)
			for _, side := range []struct{ got, want []Reading }{{known.Received, row.received}, {known.Learned, row.learned}} {
				for i := range side.got {
					side.got[i].Age = 0
				}
				if len(side.got) != len(side.want) || len(side.got) > 0 && side.got[0] != side.want[0] {
					t.Errorf("got %+v, want %+v", side.got, side.want)
				}
			}
			if err := end.Send(from, []byte("answer")); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 100)
			n, err := c.Read(b)
			if err != nil || !bytes.Equal(b[:n], []byte(row.answer+"answer")) {
				t.Errorf("%q, %v", b[:n], err)
			}
			// The first one asked for a tag, to find out; the next one does where reflections come.
			if err := end.Send(from, []byte("again")); err != nil {
				t.Fatal(err)
			}
			if asks := end.asks; (asks != 0) != (len(row.learned) > 0) {
				t.Errorf("after %d reflections the priority is %d", len(row.learned), asks)
			}
		})
	}
}

// TestWhenToTag has a peer that is silent, one that reflects, and one that stops.
func TestWhenToTag(t *testing.T) {
	began := time.Now()
	sends := func(p *peer, from, to time.Duration, reflects bool) (tags int) { // each 10 ms
		for at := from; at < to; at += 10 * time.Millisecond {
			now := began.Add(at)
			if p.mayTag(now) {
				tags, p.tags, p.tagged = tags+1, p.tags+1, now
				if reflects {
					p.reflected, p.missed = now, 0
				}
			}
		}
		return tags
	}
	p := &peer{}
	if n := sends(p, 0, 200*time.Second, false); n != 9 { // at 0, 1, 3, 7, 15, 31, 63, 127 and 191 s
		t.Errorf("a silent peer: %d probes", n)
	}
	if n := sends(p, 200*time.Second, 256*time.Second, true); n != 100 { // after the next probe, at 255 s
		t.Errorf("one that reflects: %d tags", n)
	}
	p = &peer{}
	if n := sends(p, 0, time.Second, true); n != 100 {
		t.Errorf("one that reflects: %d tags", n)
	}
	if n := sends(p, time.Second, 2*time.Second, false); n < 19 || n > 21 {
		t.Errorf("after its last reflection: %d tags", n)
	}
}

// TestReflectsInTurns has tags of two T, one of which grows old.
func TestReflectsInTurns(t *testing.T) {
	now := time.Now()
	p := &peer{}
	p.received[0], p.received[1] = stamped{now, 5}, stamped{now.Add(-400 * time.Millisecond), 1<<13 | 5}
	var got []uint16
	for _, at := range []time.Duration{0, 1, 2, 200 * time.Millisecond, 201 * time.Millisecond, time.Second} {
		if tci, ok := p.reflects(now.Add(at)); ok {
			got = append(got, tci)
		}
	}
	want := []uint16{5, 1<<13 | 5, 5, 5, 5}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestManyPeers bounds what is known of ends that anybody may invent.
func TestManyPeers(t *testing.T) {
	end := listen(t)
	now := time.Now()
	first := netip.MustParseAddrPort("192.0.2.1:1")
	for i := range 2 * mostPeers {
		end.of(first, now) // which goes on
		end.of(netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), uint16(i)), now.Add(time.Duration(i-3*mostPeers)))
	}
	if len(end.peers) != mostPeers || end.peers[first] == nil {
		t.Errorf("%d peers, the active one among them: %v", len(end.peers), end.peers[first] != nil)
	}
}
