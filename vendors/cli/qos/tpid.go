package qos

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/csig-agent/csig/vendors"
)

// The TPID of the CSIG tag is the switch's of inner tags, or each port's of outer ones. csig replaces the
// default, and nothing else; it notes what was there before it writes, and gives that back where its own
// value is still there.

// Found is a TPID that csig replaced. The name of a behavior without actions records it.
type Found struct {
	At       Position
	Was, Now uint16
	Port     uint64 // hash of its name, which has no room there; 0: of the switch
}

// Behavior is the name of the behavior.
func (f *Found) Behavior() string {
	name := fmt.Sprintf("%swas-%c%04x-%04x", Prefix, f.At, f.Was, f.Now)
	if f.Port != 0 {
		name += fmt.Sprintf("-%010x", f.Port)
	}
	return name
}

// ParseFound is the inverse of Behavior; ok is false for any other name.
func ParseFound(name string) (f Found, ok bool) {
	if n, _ := fmt.Sscanf(name, Prefix+"was-%c%04x-%04x-%010x", &f.At, &f.Was, &f.Now, &f.Port); n < 3 {
		return f, false
	}
	return f, f.Behavior() == name && (f.At == Inner && f.Port == 0 || f.At == Outer && f.Port != 0)
}

// HashOf is a port's name in 40 bits, never 0.
func HashOf(port string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(port)) //nolint:errcheck // never fails
	return max(h.Sum64()>>24, 1)
}

// Found are all records of replaced TPIDs.
func (v *View) Found() (list []Found) {
	for _, name := range slices.Sorted(maps.Keys(v.Behaviors)) {
		if f, ok := ParseFound(name); ok {
			list = append(list, f)
		}
	}
	return list
}

// foundAt are those of a port, or without one those of the switch.
func (v *View) foundAt(p *Port) []Found {
	place := uint64(0)
	if p != nil {
		place = HashOf(p.Name)
	}
	return slices.DeleteFunc(v.Found(), func(f Found) bool { return f.Port != place })
}

// tpidOf is where the TPID of a port's outer tags is, or without one that of the switch's inner tags.
func (v *View) tpidOf(p *Port) *uint16 {
	if p == nil {
		return &v.InnerTPID
	}
	return &p.TPID
}

// foreignTPID is why csig does not replace a TPID, nil where it may, or need not.
func (v *View) foreignTPID(p *Port, tpid uint16, at Position) error {
	is, what := *v.tpidOf(p), "its outer tags"
	if p == nil {
		what = "inner tags"
	}
	if is == tpid || is == DefaultTPID || slices.ContainsFunc(v.foundAt(p), func(f Found) bool { return f.Now == is }) {
		return nil
	}
	return &vendors.ForeignError{What: fmt.Sprintf("the TPID of %s is 0x%04x, which csig did not set: set it to 0x%04x, or give back the default (%s)", what, is, tpid, v.Dialect.TPID(at, DefaultTPID))}
}

// TPID gives a port, or without one the switch, a TPID that it takes.
func (s *Script) TPID(p *Port, tpid uint16) {
	is := *s.View.tpidOf(p)
	if is == tpid {
		return
	}
	f := Found{At: s.At, Was: is, Now: tpid}
	if p != nil {
		f.Port = HashOf(p.Name)
	}
	old := s.View.foundAt(p)
	if i := slices.IndexFunc(old, func(o Found) bool { return o.Now == is }); i >= 0 {
		f.Was = old[i].Was
	}
	if f.Was != tpid {
		s.Note(f.Behavior()) // before the change: it is csig's from the first moment on
	}
	s.setTPID(p, f.At, tpid)
	for _, o := range old {
		if o != f {
			s.remove(o)
		}
	}
}

func (s *Script) setTPID(p *Port, at Position, tpid uint16) {
	*s.View.tpidOf(p) = tpid
	line := s.View.Dialect.TPID(at, tpid)
	if p == nil {
		s.add(line)
		return
	}
	s.add("interface "+p.Name, line, "quit")
}

func (s *Script) remove(f Found) {
	s.add("undo traffic behavior " + f.Behavior())
	delete(s.View.Behaviors, f.Behavior())
}

// GiveBack gives back the TPIDs that were there before csig, but for those that keep is true of, with the port, nil
// for the switch or where it is not there. One that another user has changed since stays.
func (s *Script) GiveBack(keep func(f Found, p *Port) bool) {
	for _, f := range s.View.Found() {
		var p *Port
		if i := slices.IndexFunc(s.View.Ports, func(p *Port) bool { return f.At == Outer && HashOf(p.Name) == f.Port }); i >= 0 {
			p = s.View.Ports[i]
		}
		if keep(f, p) {
			continue
		}
		if there := f.At == Inner || p != nil; there && *s.View.tpidOf(p) == f.Now {
			s.setTPID(p, f.At, f.Was)
		}
		s.remove(f)
	}
}
