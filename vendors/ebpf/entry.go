package ebpf

import (
	"math/bits"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Of csig.bpf.c.
const (
	maxTags    = 6 // kinds of CSIG tags: the domain's two, and retired ones
	maxOthers  = maxTags - 2
	maxVLANs   = 4
	maxDevices = 1024

	always     = 1 // when tags are removed
	whileStale = 2

	queueBytes  = 1 // what a signal of the queue counts
	queueFrames = 2
)

// l1Overhead is what a frame has on the wire beyond what the kernel sees: preamble, FCS, gap.
const l1Overhead = 24

// entryOf is what a port does by its setup: everything but what Update writes, and stale.
func entryOf(s *vendors.Setup, p *vendors.PortSetup) planePort {
	e := planePort{Overhead: l1Overhead}
	shift := 0
	if s.Layout == quantize.UEC {
		e.Uec, shift = 1, 1
	}
	e.StaleLm = s.Layout.LMStale() << shift
	e.StaleWideLm = (1<<s.Layout.WideLMBits() - 3) << shift
	own, others := uint8(0), uint8(0)
	switch p.Action {
	case vlanrules.Strip:
		own, others = always, always
	case vlanrules.Update:
		e.Update = 1
		switch s.OnStale {
		case inventory.StaleStrip:
			own = whileStale
		case inventory.StalePassthrough:
			e.PassStale = 1
		}
	}
	if p.StripOthers {
		others = always
	}
	tag := func(i int, tpid uint16, wide bool, strip uint8) {
		if tpid == 0 {
			return
		}
		t := &e.Tags[i]
		t.Tpid, t.Size, t.Strip = bits.ReverseBytes16(tpid), 4, strip
		if wide {
			t.Size = 8
		}
		e.Strip |= strip
	}
	tag(0, s.TPID, false, own)
	tag(1, s.WideTPID, true, own)
	for i, o := range s.Others {
		tag(2+i, o.TPID, o.Wide, others)
	}
	for _, sig := range s.Signals {
		g := &e.Signals[sig]
		g.Carried = 1
		if sig.Max() {
			g.Max = 1
		}
	}
	return e
}

// setupPart is what of an entry entryOf has made.
func setupPart(e planePort) planePort {
	e.Deadline, e.Interval, e.Capacity, e.Slot, e.Version = 0, 0, 0, 0, 0
	e.Shortest, e.Pace, e.Hold = 0, 0, 0
	for i := range e.Signals {
		g := &e.Signals[i]
		*g = planeSignal{Carried: g.Carried, Max: g.Max}
	}
	return e
}
