package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

const (
	worstPorts = 5               // that the page names as bottlenecks
	sparkSlot  = 5 * time.Second // of a sparkline; its figure is the least of the slot
	sparkSlots = 60              // of a sparkline: the last five minutes
	noFigure   = -1              // of a slot in which nothing was measured
)

// Bottleneck is one of the ports with the least ABW/C.
type Bottleneck struct {
	ID string `json:"id"`
	// Below is the limit that its ABW/C has been below since Since, in ppm; 0: it has at least half of
	// its capacity, and limits nobody. Before: it was so when the history that is kept begins.
	Below  uint32    `json:"below_ppm"`
	Since  time.Time `json:"since,omitzero"`
	Before bool      `json:"before"`
	Spark  []int     `json:"spark"` // ABW/C in ppm, the oldest slot first
}

// limits are those of ABW/C in ppm at which the page's colours change.
var limits = []uint32{50_000, 200_000, 500_000}

// abwc is the ABW/C of a sample in ppm.
func (s *sample) abwc() (ppm uint32, ok bool) {
	if !s.measured || s.capacity == 0 {
		return 0, false
	}
	return uint32(float64(s.capacity-min(s.load, s.capacity)) / float64(s.capacity) * 1e6), true
}

// worst are the live ports with the least ABW/C, the worst first. The caller has the lock.
func (b *board) worst(now time.Time) []Bottleneck {
	slot := now.UnixMilli() / sparkSlot.Milliseconds()
	if b.worstNow != nil && b.worstAt == b.version && b.worstSlot == slot {
		return b.worstNow
	}
	type candidate struct {
		p  *boardPort
		id func() string
	}
	var list []candidate // sorted, worstPorts at most
	less := func(a, c candidate) int {
		return cmp.Or(cmp.Compare(a.p.is.ABWCPPM, c.p.is.ABWCPPM), cmp.Compare(a.p.is.ABWBPS, c.p.is.ABWBPS))
	}
	for _, d := range b.devices {
		for _, p := range d.ports {
			c := candidate{p, func() string { return d.portID(p.name) }}
			if !p.counts() || len(list) == worstPorts && less(c, list[worstPorts-1]) >= 0 {
				continue
			}
			at, _ := slices.BinarySearchFunc(list, c, func(a, c candidate) int { return cmp.Or(less(a, c), -1) })
			list = slices.Insert(list, at, c)[:min(len(list)+1, worstPorts)]
		}
	}
	out := make([]Bottleneck, 0, len(list))
	for _, c := range list {
		out = append(out, bottleneck(c.id(), c.p.is.ABWCPPM, &c.p.history, slot))
	}
	b.worstNow, b.worstAt, b.worstSlot = out, b.version, slot
	return out
}

// bottleneck is a port with its last minutes, up to a slot.
func bottleneck(id string, abwc uint32, h *history, slot int64) Bottleneck {
	out := Bottleneck{ID: id, Spark: make([]int, sparkSlots)}
	for i := range out.Spark {
		out.Spark[i] = noFigure
	}
	for _, l := range limits {
		if abwc < l {
			out.Below = l
			break
		}
	}
	out.Before = out.Below > 0
	since := out.Below > 0
	for s := range h.backward() {
		ppm, ok := s.abwc()
		if since && (!ok || ppm >= out.Below) {
			since, out.Before = false, false
		}
		if since {
			out.Since = time.UnixMilli(s.at).UTC()
		}
		k := sparkSlots - 1 - (slot - s.at/sparkSlot.Milliseconds())
		if ok && k >= 0 && k < sparkSlots && (out.Spark[k] == noFigure || int(ppm) < out.Spark[k]) {
			out.Spark[k] = int(ppm)
		}
		if k < 0 && !since {
			break
		}
	}
	return out
}

// counts reports whether a port is among the bottlenecks: it is live, with figures.
func (p *boardPort) counts() bool {
	return p.is != nil && p.is.State == api.StateLive && p.is.WindowEnd != nil
}
