package demo

import (
	"slices"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// judgePending judges the probes that arrived before an instant.
func (r *runner) judgePending(before time.Time) {
	keep := r.pending[:0]
	for _, rec := range r.pending {
		if rec.at.After(before) {
			keep = append(keep, rec)
			continue
		}
		r.judge(rec)
	}
	r.pending = keep
}

func (r *runner) judge(rec received) {
	r.arrived++
	sig := signals[rec.sig]
	sp := r.fleet.Profile.Signals[sig]
	p := Probe{Time: rec.at, Signal: sig.String(), Settling: r.settling(rec)}
	hopIndex := -2
	if rec.tagged {
		p.S, p.LM = uint8(rec.tag.S), rec.tag.LM
		p.Low, p.High = sp.Buckets.Range(p.S)
		hopIndex = r.locate(sig, p.LM)
	}
	p.Locator = r.hopName(hopIndex, p.LM, sig)

	key := probeKey{rec.sig, rec.seq}
	through, hops := make([]span, len(r.watchers)), make([]past, len(r.watchers))
	seen, from := true, rec.sent.UnixNano() // when it can have come to the next hop, by the wall clock
	for i, w := range r.watchers {
		w.mu.Lock()
		defer w.mu.Unlock()
		left, ok := w.passage(key)
		through[i], hops[i] = span{min(from, left), left}, &w.polled
		if n := r.natives[i]; n != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			hops[i] = &n.intervals
			through[i], ok = n.passage(key)
		}
		seen, from = seen && ok, left
	}
	var v verdict
	if rec.tagged && p.LM == r.fleet.Profile.Layout.LMStale() && slices.ContainsFunc(r.agents, func(a *proc) bool { return a.expired(rec.at) }) {
		seen = false // the fail-safe of an agent that was kept from running is no signal to judge
	}
	if seen {
		initial := r.fleet.Profile.Initial(sig)
		v = judge(hops, through, rec.sig, initial, p.S, hopIndex)
		if v.known && !(v.exact && v.locator) { // S of an agent that missed its turns is neither right nor made up
			for i, h := range hops {
				if h, ok := h.(*polled); ok {
					hops[i] = overdue{h}
				}
			}
			if late := judge(hops, through, rec.sig, initial, p.S, hopIndex); late.exact && late.locator {
				v = verdict{}
			}
		}
	}
	if p.Unjudged = !v.known; v.known {
		p.Exact = v.exact && rec.tagged
		p.TruthS, p.TruthLocator = v.s, r.hopName(v.hop, 0, sig)
	}
	if end, ok := r.windowEnd(hopIndex, rec.sig, p.S, through); ok && seen {
		p.Age = rec.at.Sub(end)
		r.ages.add(r.kind(hopIndex), p.Age)
	}
	r.res.Summary.add(&p, v.locator && rec.tagged)
	r.res.Summary.of(r.kind(hopIndex)).add(&p, v.locator && rec.tagged)
	r.last[rec.sig] = &p
	if r.o.KeepProbes {
		r.res.Probes = append(r.res.Probes, p)
	}
}

// settling reports whether a probe was on its way within 2 Δt of a load step,
// which lasts from the first change of a rate until its burst is gone.
func (r *runner) settling(rec received) bool {
	for i := len(r.stepBegin) - 1; i >= 0; i-- {
		if !rec.at.Before(r.stepBegin[i]) {
			return rec.sent.Before(r.res.Steps[i].Time.Add(r.res.Steps[i].Burst + settle*r.o.Interval))
		}
	}
	return true
}

// locate returns the hop that a locator names, -1 for "none", -2 for others.
func (r *runner) locate(sig quantize.Signal, lm uint16) int {
	if lm == r.fleet.Profile.Layout.LMNone() {
		return -1
	}
	for i, h := range r.path.hops {
		if h.port.LM[sig] == lm {
			return i
		}
	}
	return -2
}

func (r *runner) hopName(i int, lm uint16, sig quantize.Signal) string {
	switch {
	case i >= 0:
		return r.path.hops[i].name
	case i == -1:
		return "none"
	}
	return r.fleet.Profile.Signals[sig].Locator.Text(r.fleet.Profile.Layout.LMBits(), lm)
}

// windowEnd is the end of the counter window that produced a probe's S: the
// writing hop's, or, where no hop wrote, the oldest of all, because then the
// tag stands for every hop's word that it has no less.
// That of a hop which measures by itself is the interval that its data plane had closed last.
func (r *runner) windowEnd(hopIndex, sig int, s uint8, through []span) (time.Time, bool) {
	source := func(i, s int) (time.Time, bool) {
		if i < len(r.natives) && r.natives[i] != nil {
			return r.natives[i].ended(through[i].to)
		}
		return r.agents[i].source(time.Unix(0, through[i].to), sig, s)
	}
	if hopIndex >= 0 {
		return source(hopIndex, int(s))
	}
	var oldest time.Time
	for i := range r.agents {
		end, ok := source(i, -1)
		if !ok {
			return time.Time{}, false
		}
		if oldest.IsZero() || end.Before(oldest) {
			oldest = end
		}
	}
	return oldest, true
}

// kind is how the hop measures that a probe's locator names; "" where it names none.
func (r *runner) kind(hopIndex int) Kind {
	switch {
	case hopIndex < 0:
		return ""
	case r.natives[hopIndex] != nil:
		return Native
	}
	return Software
}
