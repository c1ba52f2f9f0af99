package qos

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

// Found is a TPID of a port's outer tags that csig replaced. The name of a behavior without
// actions records it.
type Found struct {
	Was, Now uint16
	Port     uint64 // hash of its name, which has no room there
}

// Behavior is the name of the behavior.
func (f *Found) Behavior() string {
	return fmt.Sprintf("%swas-%c%04x-%04x-%010x", Prefix, Outer, f.Was, f.Now, f.Port)
}

// ParseFound is the inverse of Behavior; ok is false for any other name.
func ParseFound(name string) (f Found, ok bool) {
	var at Position
	if _, err := fmt.Sscanf(name, Prefix+"was-%c%04x-%04x-%010x", &at, &f.Was, &f.Now, &f.Port); err != nil {
		return f, false
	}
	return f, f.Behavior() == name
}

// hashOf is a port's name in 40 bits.
func hashOf(port string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(port)) //nolint:errcheck // never fails
	return h.Sum64() >> 24
}

// found are the records of replaced TPIDs of a port.
func (v *View) found(port string) (list []Found) {
	for _, f := range v.Found() {
		if f.Port == hashOf(port) {
			list = append(list, f)
		}
	}
	return list
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

// TakesTPID reports whether a port has a TPID, or may be given it: it has the default, or
// another one that csig set.
func (v *View) TakesTPID(p *Port, tpid uint16) bool {
	return p.TPID == tpid || p.TPID == v.Dialect.DefaultTPID ||
		slices.ContainsFunc(v.found(p.Name), func(f Found) bool { return f.Now == p.TPID })
}

// TPID gives a port a TPID that it takes.
func (s *Script) TPID(p *Port, tpid uint16) {
	if p.TPID == tpid {
		return
	}
	was := p.TPID
	old := s.View.found(p.Name)
	if i := slices.IndexFunc(old, func(f Found) bool { return f.Now == p.TPID }); i >= 0 {
		was = old[i].Was
	}
	f := Found{Was: was, Now: tpid, Port: hashOf(p.Name)}
	if name := f.Behavior(); was != tpid {
		s.Note(name) // before the change: it is csig's from the first moment on
	}
	s.setTPID(p, tpid)
	for _, o := range old {
		if o != f {
			s.remove(o)
		}
	}
}

func (s *Script) setTPID(p *Port, tpid uint16) {
	s.add("interface "+p.Name, s.View.Dialect.TPID(tpid), "quit")
	p.TPID = tpid
}

func (s *Script) remove(f Found) {
	s.add("undo traffic behavior " + f.Behavior())
	delete(s.View.Behaviors, f.Behavior())
}

// GiveBack gives ports the TPIDs that they had before csig, but for those that keep is true
// of. One that another user has changed since stays.
func (s *Script) GiveBack(keep func(port string) bool) {
	for _, f := range s.View.Found() {
		i := slices.IndexFunc(s.View.Ports, func(p *Port) bool { return hashOf(p.Name) == f.Port })
		if i >= 0 && keep(s.View.Ports[i].Name) {
			continue
		}
		if i >= 0 && s.View.Ports[i].TPID == f.Now {
			s.setTPID(s.View.Ports[i], f.Was)
		}
		s.remove(f)
	}
}
