package vlanrules

import (
	"math/bits"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules/internal/cover"
)

// Most ports do not change in most cycles, so Compile first asks whether the
// observed table is already a table of the chosen form that does what is
// wanted. The answer "no" only means that somebody has to look closer.

// reading is what the entries of one T amount to.
type reading struct {
	alone, rewritten uint32 // S taken by no-ops, by rewrites
	rewrites, values int
	vid              uint16
	ref, value       uint32 // the shared value used, and there
	first, last      uint16 // of the range
}

// runPriority is the first priority of an entry that tests these bits of S,
// or 0xff00 where they are not a prefix.
var runPriority = func() (t [1 << cover.Bits]uint16) {
	for mask := range t {
		if q := (cover.Cube{Mask: uint8(mask)}); q.IsPrefix() {
			t[mask] = priority(q)
		} else {
			t[mask] = 0xff00
		}
	}
	return t
}()

// settled reports whether have is certainly what Compile would leave as it is.
func (c *Compiler) settled(form Form, have Table, want []Intent) bool {
	if !c.caps.MatchPCP || form == FormOrdered || form == FormExact || form == FormSharedExact {
		return false
	}
	var read [8]reading
	var seen uint
	low, prioritised := c.dMask(), c.caps.Match == MatchTernary
	above := uint16(0xffff)
	for i := range have {
		e := &have[i]
		m := &e.Match
		t, f := m.PCP.Value, &m.VID
		if m.PCP.Kind != Ternary || m.PCP.Mask != 7 || t > 7 || m.DEI.Kind != Any || e.ID == 0 || e.Priority > above {
			return false
		}
		above = e.Priority
		r := &read[t]
		seen |= 1 << t
		s, tests := sValues(f), f.Mask>>7&31
		inBand := e.Priority-runPriority[tests] < priorityBand
		pattern := m.Class == 0 && f.Value&^f.Mask == 0 && (f.Kind == Ternary || f.Kind == Any && f.Mask == 0)
		switch e.Type {
		case NoOp:
			if form != FormLazy || !pattern || tests == 0 || f.Mask&0x7f != 0 || !inBand {
				return false
			}
			r.alone |= s
			continue
		case Value:
			r.values++
			r.value, r.vid = e.ID, e.VID
			continue
		case RewriteVID:
			if r.rewrites > 0 && e.VID != r.vid {
				return false
			}
			r.vid = e.VID
		case UseValue:
			if r.rewrites > 0 && e.Ref != r.ref {
				return false
			}
			r.ref = e.Ref
		default:
			return false
		}
		r.rewrites++
		switch form {
		case FormRange:
			if f.Kind != Range || m.Class != 0 {
				return false
			}
			r.first, r.last = f.First, f.Last
		case FormLazy:
			if !pattern || f.Mask != low || !inBand {
				return false
			}
		case FormPrefix, FormSharedPrefix:
			if !pattern || f.Mask&0x7f != low || prioritised && !inBand {
				return false
			}
			r.rewritten |= s
		default: // classes
			if f.Kind != Any || m.Class == 0 || m.Class > quantize.NumBuckets {
				return false
			}
			r.rewritten |= 1 << (m.Class - 1)
		}
		if (e.Type == UseValue) != sharedForm(form) {
			return false
		}
	}
	for i := range want {
		in := &want[i]
		if in.Action != Update {
			continue
		}
		seen &^= 1 << in.Signal
		if !c.agrees(form, in, &read[in.Signal]) {
			return false
		}
	}
	return seen == 0
}

// agrees reports whether the entries of one T do what in says.
func (c *Compiler) agrees(form Form, in *Intent, r *reading) bool {
	shared := sharedForm(form)
	if r.values > 1 || r.values == 1 && !shared || r.rewrites > 0 && shared && r.ref != r.value {
		return false
	}
	if in.S == in.Signal.InitialBucket() {
		return r.rewrites == 0 // a value that nothing uses may stay
	}
	if r.rewrites == 0 || r.vid != c.layout.VID(in.S, in.LM) {
		return false
	}
	// The S that the bucket is worse than.
	update := cover.All &^ cover.UpTo(int(in.S))
	if in.Signal.Max() {
		update = cover.UpTo(int(in.S) - 1)
	}
	switch form {
	case FormRange:
		first, last := c.rangeOf(in)
		return r.rewrites == 1 && r.first == first && r.last == last
	case FormLazy:
		return r.rewrites == 1 && r.alone == ^update
	case FormPrefix:
		// As many entries as the level has zero bits.
		return r.rewritten == update && r.rewrites == cover.Bits-bits.OnesCount(uint(level(in)))
	case FormSharedPrefix:
		return r.rewritten == update
	}
	if used := c.buckets[in.Signal]; used != 0 {
		update &= used
	}
	return r.rewritten == update && r.rewrites == bits.OnesCount32(update)
}

// keepTable makes t a copy of have; it does nothing where t is have.
func keepTable(t, have Table) Table {
	if len(have) > 0 && len(t) == len(have) && &t[0] == &have[0] {
		return t
	}
	return append(t[:0], have...)
}
