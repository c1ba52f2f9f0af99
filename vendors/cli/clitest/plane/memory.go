package plane

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Memory is a data plane that computes what becomes of frames: the same as a Plane's, which
// its tests compare it with.
type Memory struct {
	mu     sync.Mutex // guards what follows
	last   []Port     // that Program was given
	held   []Port     // what of it is in hardware
	faults Faults
}

var _ Hardware = (*Memory)(nil)

// Set changes what the hardware does wrong.
func (m *Memory) Set(f Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = f
	m.held, _ = f.hold(m.last)
}

// Program gives all ports their rules.
func (m *Memory) Program(ports []Port) ([]int, error) {
	m.mu.Lock()
	f := m.faults
	held, in := f.hold(ports)
	m.last = ports
	if f.Gap > 0 {
		m.held = make([]Port, len(ports))
		m.mu.Unlock()
		time.Sleep(f.Gap)
		if f.In != nil {
			f.In()
		}
		m.mu.Lock()
	}
	m.held = held
	m.mu.Unlock()
	return in, nil
}

// now is what the hardware has at a port.
func (m *Memory) now(port int) (Port, Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if port > len(m.held) {
		return Port{}, m.faults
	}
	return m.held[port-1], m.faults
}

// Exchange returns the tags that frames leave a port with.
func (m *Memory) Exchange(t testing.TB, port int, stacks [][]Tag, dropped func([]Tag) bool) [][]Tag {
	t.Helper()
	p, f := m.now(port)
	out := make([][]Tag, len(stacks))
	for i, stack := range stacks {
		if out[i] = p.leaves(&f, stack, 64+4*len(stack)); out[i] == nil && (dropped == nil || !dropped(stack)) {
			t.Fatalf("port %d: a frame with %04x is missing", port, stack)
		}
	}
	return out
}

// Passes reports whether a frame of so many bytes leaves by a port as it was.
func (m *Memory) Passes(_ testing.TB, port int, stack []Tag, length int) bool {
	p, f := m.now(port)
	out := p.leaves(&f, stack, length)
	return out != nil && slices.Equal(out, stack)
}

// leaves is the tags of a frame of so many bytes behind a port, nil where it is dropped. It
// does what the chains of script do.
func (p *Port) leaves(f *Faults, tags []Tag, length int) []Tag {
	at := func(i int, tpid uint16) bool { return i < len(tags) && tags[i].TPID == tpid }
	vid := func(i int) uint16 { return tags[i].TCI & 0xfff }
	outer := at(0, p.Outer)
	switch {
	case f.Drop4095 && outer && (vid(0) == 0xfff || at(1, p.Inner) && vid(1) == 0xfff),
		p.Longest > 0 && length > p.Longest,
		p.Trunk && len(tags) > 0 && !outer,
		f.BridgeByVID && outer && vid(0) > 999:
		return nil
	}
	for _, r := range p.Rules {
		if f.MatchBridging && len(r.Outer) > 0 {
			if !among(r.Outer, native) {
				continue
			}
			r.Outer = nil
		}
		own := p.Outer
		if r.TPID != 0 {
			own = r.TPID
		}
		inner := len(r.Inner) > 0 || r.InnerPCP >= 0 || r.SetInner >= 0
		if !at(0, own) || inner && !at(1, p.Inner) ||
			!r.matches(r.Outer, r.OuterPCP, tags[0].TCI) || inner && !r.matches(r.Inner, r.InnerPCP, tags[1].TCI) {
			continue
		}
		if r.Drop {
			return nil
		}
		out := slices.Clone(tags)
		if r.SetTPID != 0 {
			out[0].TPID = r.SetTPID
		}
		for i, set := range []int{r.SetOuter, r.SetInner} {
			if set < 0 {
				continue
			}
			keep := uint16(0xf000)
			if f.LoseDEI {
				keep = 0xe000
			}
			out[i].TCI = out[i].TCI&keep | uint16(set)
		}
		return out
	}
	return append([]Tag{}, tags...)
}

// matches reports whether a tag meets the conditions of a rule.
func (r *Rule) matches(vids []Range, pcp int, tci uint16) bool {
	return (pcp < 0 || tci>>13 == uint16(pcp)) && (len(vids) == 0 || among(vids, tci&0xfff))
}

func among(list []Range, vid uint16) bool {
	return slices.ContainsFunc(list, func(r Range) bool { return r.First <= vid && vid <= r.Last })
}
