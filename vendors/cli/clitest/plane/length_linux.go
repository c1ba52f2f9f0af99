package plane

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// fcs is the bytes of a frame behind its payload. The kernel does not count them.
const fcs = 4

// long is rules that drop frames that are too long. A tag with one of these types is not part of
// a frame's length where the kernel has it beside the frame.
func (p *Port) long(chain string) string {
	const beside = "{ 0x8100, 0x88a8 }"
	return fmt.Sprintf("add rule %s @ll,96,16 %s meta length > %d drop\nadd rule %s @ll,96,16 != %s meta length > %d drop\n",
		chain, beside, p.Longest-fcs-4, chain, beside, p.Longest-fcs)
}

// Passes reports whether a frame of so many bytes, with the L2 header and the FCS, leaves by a
// port.
func (p *Plane) Passes(t testing.TB, port int, stack []Tag, length int) bool {
	t.Helper()
	end := p.seq.Add(2)
	long := frame(port, stack, end-1)
	if length < len(long)+fcs {
		t.Fatalf("a frame of %d bytes has no room for its tags and number", length)
	}
	long = append(long, make([]byte, length-fcs-len(long))...)
	for _, b := range [][]byte{long, frame(port, nil, end)} {
		if err := p.cards[0].Send(b); err != nil {
			t.Fatal(err)
		}
	}
	arrived := false
	for until := time.Now().Add(soon); ; {
		b, _, err := p.cards[port-1].Receive()
		switch {
		case err != nil:
			t.Fatal(err)
		case b == nil && time.Now().After(until):
			t.Fatalf("port %d: the short frame behind the one of %d bytes is missing after %v", port, length, soon)
		case bytes.Equal(b, long):
			arrived = true
		case bytes.Equal(b, frame(port, nil, end)):
			return arrived
		}
	}
}
