package openflow

import (
	"fmt"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// csig deletes and overwrites only flows with its cookie. Where a foreign one appears
// in csig's tables, the ports whose frames it may take in place of csig's flows are
// refused, and fall back. One that takes none of them is only noted.

// shadows reports whether a foreign flow of csig's tables may take frames of a port's in
// place of csig's own flows.
func (s *state) shadows(f *ofp.Flow, number uint32, action vlanrules.Action) bool {
	if m := f.Match.Metadata; (m.Value^uint64(number))&m.Mask&portMask != 0 {
		return false
	}
	switch update := action == vlanrules.Update; {
	case f.Table == s.base+tableSelect:
		return update || f.Priority >= priorityPass
	default:
		return update && f.Priority >= priorityDefault
	}
}

// shadow is why a port cannot be as its setup says, for a foreign flow; nil where it can.
func (s *state) shadow(number uint32, action vlanrules.Action) error {
	for i := range s.foreign {
		if f := &s.foreign[i]; s.shadows(f, number, action) {
			return vendors.FlowTakes(f.Where())
		}
	}
	return nil
}

// enters reports whether a foreign flow of the first table may lead frames of a port's
// to the live table, whatever csig has there for the lease and the fallback.
func (s *state) enters(number uint32) bool {
	return slices.ContainsFunc(s.foreign, func(f ofp.Flow) bool {
		return f.Table == s.base+tableSelect && s.shadows(&f, number, vlanrules.Update)
	})
}

// taken is the error of a foreign flow in the place of one that all ports need.
func (s *state) taken(pipe *pipeline) error {
	keys := map[ofp.Key]bool{}
	for _, f := range append(pipe.record(), pipe.unleased(), pipe.lease(0, 0), pipe.lease(1, 0)) {
		keys[f.Key()] = true
	}
	for i := range s.foreign {
		if f := &s.foreign[i]; keys[f.Key()] {
			return &vendors.PermanentError{Err: &vendors.ForeignError{What: "a flow that is not csig's is in the place of one that all ports need, and is left alone: delete it, or give csig tables of its own (it is in " + f.Where() + ")"}}
		}
	}
	return nil
}

// foreignAt reports whether a foreign flow is where one of csig's would overwrite it.
func (s *state) foreignAt(key ofp.Key) bool {
	for _, flows := range [][]ofp.Flow{s.foreign, s.others} {
		for i := range flows {
			if flows[i].Key() == key {
				return true
			}
		}
	}
	return false
}

// foreignNote says that there are foreign flows in csig's tables; "" where there are none.
func (s *state) foreignNote() string {
	if len(s.foreign) == 0 {
		return ""
	}
	return fmt.Sprintf("csig's tables have %s not csig's, and csig leaves alone (the first is in %s)", count(len(s.foreign), "flow that is", "flows that are"), s.foreign[0].Where())
}

// count is how many of what there are, in a sentence.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// among reports whether a foreign flow of the table is among the priorities of csig's.
func (f *flat) among(fl *ofp.Flow) bool {
	return fl.Priority >= f.priority && fl.Priority < f.priority+flatRows
}

// shadow is why csig's flows of a port are not written, for a foreign flow among them;
// nil where they are.
func (f *flat) shadow(number uint32, foreign []ofp.Flow) error {
	for i := range f.forwards {
		for j := range foreign {
			if w, fl := &f.forwards[i], &foreign[j]; w.number == number && f.among(fl) && overlap(&w.match, &fl.Match) {
				return fmt.Errorf("a flow that is not csig's is among csig's priorities and may take its frames, and is left alone: delete it, or set management: {openflow: {priority: N}} (it is in %s)", fl.Where())
			}
		}
	}
	return nil
}
