package probe

import (
	"slices"

	"github.com/csig-agent/csig/quantize"
)

// Stats counts the probes of one signal of one run.
type Stats struct {
	Run      uint64
	Signal   quantize.Signal
	Received uint64 // without duplicates

	// Lost counts the gaps after the first probe seen; the listener cannot
	// know of probes before that one, nor after the last.
	Lost       uint64
	Duplicates uint64
	Reordered  uint64 // arrived after a later one
}

const (
	// seqWindow is how far back duplicates are recognised; probes that come
	// later than that count as reordered.
	seqWindow = 4096
	// maxFlows bounds a tracker's memory, since any host may send probes.
	maxFlows = 256
)

type flowKey struct {
	run    uint64
	signal quantize.Signal
}

type flow struct {
	Stats
	first, last uint64 // sequence numbers
	seen        [seqWindow / 64]uint64
	used        uint64 // tracker's clock, to delete the one idle for longest
}

// Tracker counts probes by run and signal. The zero value is ready. It is not
// safe for concurrent use.
type Tracker struct {
	flows map[flowKey]*flow
	clock uint64
}

// Observe takes one received probe into account.
func (t *Tracker) Observe(p Payload) {
	t.clock++
	key := flowKey{p.Run, p.Signal}
	f := t.flows[key]
	if f == nil {
		if t.flows == nil {
			t.flows = map[flowKey]*flow{}
		}
		if len(t.flows) >= maxFlows {
			t.deleteOldest()
		}
		f = &flow{Stats: Stats{Run: p.Run, Signal: p.Signal, Received: 1}, first: p.Seq, last: p.Seq, used: t.clock}
		f.mark(p.Seq)
		t.flows[key] = f
		return
	}
	f.used = t.clock
	f.observe(p.Seq)
}

func (t *Tracker) deleteOldest() {
	var oldest *flow
	for _, f := range t.flows {
		if oldest == nil || f.used < oldest.used {
			oldest = f
		}
	}
	delete(t.flows, flowKey{oldest.Run, oldest.Signal})
}

func (f *flow) observe(seq uint64) {
	switch {
	case seq > f.last:
		gap := seq - f.last - 1
		if gap >= seqWindow {
			f.seen = [seqWindow / 64]uint64{}
		} else {
			for s := f.last + 1; s < seq; s++ {
				f.clear(s)
			}
		}
		f.Lost += gap
		f.Received++
		f.last = seq
		f.mark(seq)
	case f.last-seq >= seqWindow:
		f.Reordered++
		f.Received++
		f.found(seq)
	case f.marked(seq):
		f.Duplicates++
	default:
		f.Reordered++
		f.Received++
		f.found(seq)
		f.mark(seq)
	}
}

// found takes a probe off the lost ones, if it was counted there.
func (f *flow) found(seq uint64) {
	if seq > f.first && f.Lost > 0 {
		f.Lost--
	}
}

func (f *flow) mark(s uint64)        { f.seen[s/64%(seqWindow/64)] |= 1 << (s % 64) }
func (f *flow) clear(s uint64)       { f.seen[s/64%(seqWindow/64)] &^= 1 << (s % 64) }
func (f *flow) marked(s uint64) bool { return f.seen[s/64%(seqWindow/64)]>>(s%64)&1 == 1 }

// Stats lists what was observed, by run and then signal.
func (t *Tracker) Stats() []Stats {
	list := make([]Stats, 0, len(t.flows))
	for _, f := range t.flows {
		list = append(list, f.Stats)
	}
	slices.SortFunc(list, func(a, b Stats) int {
		switch {
		case a.Run != b.Run && a.Run < b.Run:
			return -1
		case a.Run != b.Run:
			return 1
		}
		return int(a.Signal) - int(b.Signal)
	})
	return list
}
