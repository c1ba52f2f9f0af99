package plane

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// soon is how long a frame that has to come may take on a loaded machine.
const soon = 30 * time.Second

// window is how many frames are under way at once.
const window = 256

// Exchange sends a frame with each stack of tags in by port 1 and out by another port, and
// returns the tags they leave with, in the same order. A frame without an answer is an
// error, but for those that dropped says may vanish: they have nil.
func (p *Plane) Exchange(t testing.TB, port int, stacks [][]Tag, dropped func([]Tag) bool) [][]Tag {
	t.Helper()
	out := make([][]Tag, len(stacks))
	for from := 0; from < len(stacks); from += window {
		to := min(from+window, len(stacks))
		p.exchange(t, port, stacks[from:to], out[from:to], dropped)
	}
	return out
}

// exchange sends a window of frames, and one more that shows that those before have
// arrived or never will.
func (p *Plane) exchange(t testing.TB, port int, stacks, out [][]Tag, dropped func([]Tag) bool) {
	t.Helper()
	last := p.seq.Add(uint32(len(stacks)) + 1)
	first := last - uint32(len(stacks))
	for i, stack := range append(append([][]Tag(nil), stacks...), nil) {
		if err := p.cards[0].Send(frame(port, stack, first+uint32(i))); err != nil {
			t.Fatal(err)
		}
	}
	// Frames may overtake each other: two processors forward them.
	due, ended := map[uint32]bool{}, false
	for i, stack := range stacks {
		if dropped == nil || !dropped(stack) {
			due[first+uint32(i)] = true
		}
	}
	for end := time.Now().Add(soon); !ended || len(due) > 0; {
		b, _, err := p.cards[port-1].Receive()
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			if time.Now().After(end) {
				t.Fatalf("port %d: %d of %d frames are missing after %v", port, len(due), len(stacks), soon)
			}
			continue
		}
		tags, seq, ok := parse(b, port)
		if !ok {
			t.Fatalf("port %d: %x arrives", port, b)
		}
		delete(due, seq)
		if i := int(seq - first); seq >= first && i < len(stacks) {
			out[i] = tags
		}
		ended = ended || seq == last
	}
}

// payloadType is that of the frames: a local experiment's (IEEE 802).
const payloadType = 0x88b5

func frame(port int, stack []Tag, seq uint32) []byte {
	b := append(mac(port), 2, 0, 0, 0, 1, 0)
	for _, tag := range stack {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, tag.TPID), tag.TCI)
	}
	b = binary.BigEndian.AppendUint16(b, payloadType)
	return append(binary.BigEndian.AppendUint32(b, seq), make([]byte, 42)...)
}

// parse is a frame's tags, which are not nil, and number; ok is false where anything else changed.
func parse(b []byte, port int) (_ []Tag, seq uint32, ok bool) {
	at, tags := 12, []Tag{}
	for ; at+4 <= len(b) && binary.BigEndian.Uint16(b[at:]) != payloadType; at += 4 {
		tags = append(tags, Tag{binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])})
	}
	if at+6 > len(b) {
		return nil, 0, false
	}
	seq = binary.BigEndian.Uint32(b[at+2:])
	return tags, seq, bytes.Equal(b, frame(port, tags, seq))
}
