package qualify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// Seen is what became of one frame.
type Seen struct {
	Frame
	Seq   uint64
	Sent  []byte
	Left  time.Time
	Where []Arrival
}

// At returns what arrived at a port; nil where nothing did.
func (s *Seen) At(port int) []byte {
	for _, a := range s.Where {
		if a.Port == port {
			return a.Bytes
		}
	}
	return nil
}

// Count is how often the frame arrived at a port.
func (s *Seen) Count(port int) (n int) {
	for _, a := range s.Where {
		if a.Port == port {
			n++
		}
	}
	return n
}

// Fate is how the frame reached the port it was for: "" where it did so once and
// untouched, else what became of it.
func (s *Seen) Fate() string {
	switch n := s.Count(s.To); n {
	case 0:
		return lost
	case 1:
		return Difference(s.Sent, s.At(s.To))
	default:
		return fmt.Sprintf(duplicated+" %d times", n)
	}
}

// fates that are no difference of bytes.
const (
	lost       = "did not arrive"
	duplicated = "arrived"
)

// kindOf is a fate in a word, as codes have it.
func kindOf(fate string) string {
	switch {
	case fate == lost:
		return "lost"
	case strings.HasPrefix(fate, duplicated):
		return "duplicated"
	}
	return "altered"
}

// lostAfter is how long a frame may take until it counts as lost: a switch may send those whose way it knows
// before those that it has to look up.
const lostAfter = 250 * time.Millisecond

// chunk is how many bytes are sent before the bench waits for them, where each frame takes
// overhead more in the kernel's buffer.
const (
	chunk    = 192 << 10
	overhead = 700
)

// Exchange sends frames from a port and returns what became of each. Frames without a
// tag go with them, as its controls: those that must arrive, one that is kept back, which
// the bench must miss, and one that is altered, which it must notice.
func (t *Trial) Exchange(ctx context.Context, from int, frames []Frame) ([]Seen, error) {
	others := t.Others(from)
	if _, err := t.drops(); err != nil { // those of before
		return nil, err
	}
	l := t.Listen()
	defer l.Close()
	held := make([]Frame, 2, len(frames)+2)
	for i := range held {
		held[i] = Frame{To: others[0]}
	}
	all := append(held, frames...)
	seen, index := make([]Seen, len(all)), make(map[uint64]int, len(all))
	began, flying := time.Now(), 0
	for i := range all {
		seq, bytes, err := t.Build(from, all[i])
		if err != nil {
			return nil, err
		}
		seen[i], index[seq] = Seen{Frame: all[i], Seq: seq, Sent: bytes}, i
		switch i {
		case 0: // kept back
			continue
		case 1: // altered
			bytes = append([]byte(nil), bytes...)
			bytes[len(bytes)-1] ^= 1
		}
		seen[i].Left = time.Now()
		if err := t.Send(from, bytes); err != nil {
			return nil, err
		}
		if t.pace > 0 {
			time.Sleep(t.pace)
		}
		if flying += len(bytes) + overhead; flying > chunk {
			flying = 0
			if err := t.Sync(ctx, from, others...); err != nil {
				return nil, t.Positive(untagged, false, "%v", err)
			}
		}
	}
	t.sending += time.Since(began)
	if err := t.Sync(ctx, from, others...); err != nil {
		return nil, t.Positive(untagged, false, "%v", err)
	}
	if err := t.Positive(untagged, true, ""); err != nil {
		return nil, err
	}
	listened := time.Now()
	for missing := true; missing && time.Since(listened) < lostAfter; {
		if err := vendors.Wait(ctx, t.Settle); err != nil {
			return nil, err
		}
		for _, a := range l.Take() {
			if i, ok := index[a.Seq]; ok && a.Port != from {
				t.arrived(&seen[i], a)
			}
		}
		missing = slices.ContainsFunc(seen[2:], func(s Seen) bool { return s.Count(s.To) == 0 })
	}
	t.Frames.Listened = time.Since(listened)
	for i := range seen[2:] {
		t.Frames.Sent++
		if seen[2+i].Count(seen[2+i].To) > 0 {
			t.Frames.Arrived++
		}
	}
	if t.sending > 0 {
		t.Frames.PerSecond = float64(t.Frames.Sent) / t.sending.Seconds()
	}
	n, err := t.drops()
	if err != nil || n > 0 {
		return nil, Cannot("this machine itself lost %d frames (%v): a slower rate or a quieter machine is needed", n, err)
	}
	if err := t.Negative("a frame that is kept back is missed", seen[0].Fate() == lost, "%s", seen[0].Fate()); err != nil {
		return nil, err
	}
	fate := seen[1].Fate()
	for n := 0; fate == lost; n++ { // by chance, or not
		if n == 2*maxLoss {
			return nil, losesFrames(n+1, n+1, "frames without a tag that were altered before they left do not arrive")
		}
		if fate, err = t.altered(ctx, l, from, others[0]); err != nil {
			return nil, err
		}
	}
	if err := t.Negative("a frame that is altered is noticed", fate != "" && fate != lost, "it %s", fate); err != nil {
		return nil, err
	}
	return seen[2:], nil
}

// altered sends a frame that is altered before it leaves, and returns what became of it.
func (t *Trial) altered(ctx context.Context, l *Listener, from, to int) (string, error) {
	f := Frame{To: to}
	seq, bytes, err := t.Build(from, f)
	if err != nil {
		return "", err
	}
	s := Seen{Frame: f, Seq: seq, Sent: bytes}
	other := slices.Clone(bytes)
	other[len(other)-1] ^= 1
	if err := t.Send(from, other); err != nil {
		return "", err
	}
	if err := t.Sync(ctx, from, to); err != nil {
		return "", t.Positive(untagged, false, "%v", err)
	}
	if err := vendors.Wait(ctx, t.Settle); err != nil {
		return "", err
	}
	for _, a := range l.Take() {
		if a.Seq == seq && a.Port != from {
			t.arrived(&s, a)
		}
	}
	return s.Fate(), nil
}

const untagged = "frames without a tag arrive"
