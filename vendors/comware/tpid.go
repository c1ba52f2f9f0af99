package comware

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// The TPID of the CSIG tag is the switch's of inner tags, or each port's of outer ones. csig
// replaces Comware's default, and nothing else; it notes what was there before it writes,
// and gives that back where its own value is still there.

// reserved are the types that Comware takes for no TPID (HPE 5950 Layer 2 - LAN Switching
// Command Reference 5200-2215a, qinq ethernet-type).
var reserved = []uint16{0, 0x0806, 0x0200, 0x8035, 0x0800, 0x86dd, 0x8863, 0x8864, 0x8847, 0x8848, 0x8137, 0x8000, 0x8809, 0x88cc, 0x888e, 0x8902, 0x88a7, 0xfffd, 0xfffe, 0xffff}

// found are the notes of a place: the hash of a port's name, 0 for the switch.
func (v *view) found(port uint64) (list []found) {
	for _, name := range slices.Sorted(maps.Keys(v.Behaviors)) {
		if f, ok := parseFound(name); ok && f.port == port {
			list = append(list, f)
		}
	}
	return list
}

// foreignTPID is why csig does not replace a TPID, nil where it may, or need not.
func (v *view) foreignTPID(p *qos.Port, tpid uint16, at position) error {
	is, place, what := v.customer, uint64(0), "inner tags"
	if at == outer {
		is, place, what = p.TPID, hashOf(p.Name), "its outer tags"
	}
	ours := slices.ContainsFunc(v.found(place), func(f found) bool { return f.now == is })
	if is == tpid || is == defaultTPID || ours {
		return nil
	}
	return &vendors.ForeignError{What: fmt.Sprintf("the TPID of %s is 0x%04x, which csig did not set: set it to 0x%04x, or give back the default (undo qinq ethernet-type %s-tag)", what, is, tpid, side(at))}
}

// tpid is commands that give the switch a TPID of inner tags, or a port one of outer tags.
func (s *script) tpid(p *qos.Port, tpid uint16) {
	is, place := &s.view.customer, uint64(0)
	if s.At == outer {
		is, place = &p.TPID, hashOf(p.Name)
	}
	if *is == tpid {
		return
	}
	f := found{at: s.At, was: *is, now: tpid, port: place}
	old := s.view.found(place)
	for _, o := range old {
		if o.now == *is {
			f.was = o.was
		}
	}
	s.Note(f.behavior())
	s.set(p, tpid)
	for _, o := range old {
		if o != f {
			s.Append("undo traffic behavior " + o.behavior())
			delete(s.view.Behaviors, o.behavior())
		}
	}
}

// set writes a TPID.
func (s *script) set(p *qos.Port, tpid uint16) {
	line := fmt.Sprintf("qinq ethernet-type %s-tag %04x", side(s.At), tpid)
	if tpid == defaultTPID {
		line = "undo qinq ethernet-type " + side(s.At) + "-tag"
	}
	if s.At == inner {
		s.Append(line)
		s.view.customer = tpid
		return
	}
	s.Append("interface "+p.Name, line, "quit")
	p.TPID = tpid
}

// giveBack is commands that give back what csig found: at every place, but for those where
// the setup needs its TPID.
func (s *script) giveBack(keep func(f found) bool) {
	for _, name := range slices.Sorted(maps.Keys(s.view.Behaviors)) {
		f, ok := parseFound(name)
		if !ok || keep(f) {
			continue
		}
		there := newScript(s.view, f.at, s.Freed)
		if f.at == inner && s.view.customer == f.now {
			there.set(nil, f.was)
		}
		for i := range s.view.Ports {
			if p := s.view.Ports[i]; f.at == outer && hashOf(p.Name) == f.port && p.TPID == f.now {
				there.set(p, f.was)
			}
		}
		s.Append(append(there.Lines, "undo traffic behavior "+name)...)
		delete(s.view.Behaviors, name)
	}
}

// keeps is which of the notes stay while a setup needs its TPID in their places.
func keeps(want *vendors.Setup, at position) func(found) bool {
	ports := map[uint64]bool{}
	for _, name := range names(updating(want)) {
		ports[hashOf(name)] = true
	}
	return func(f found) bool {
		return f.at == at && f.now == want.TPID && (at == outer && ports[f.port] || at == inner && len(ports) > 0)
	}
}

var errReserved = errors.New("Comware takes that type for no TPID (qinq ethernet-type)")
