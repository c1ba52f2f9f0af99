package refreshtest

import (
	"math/rand/v2"
	"sort"
	"time"
)

// All times are ns since the device was started.
const second = int64(time.Second)

// Every frame has frameOctets, and overhead more on the wire; every port is a link of speed.
const (
	frameOctets = 1000
	overhead    = 24
	speed       = 1_000_000_000
	fullRate    = speed / 8 / (frameOctets + overhead) // frames/s
)

// traffic is what a port sends: a constant rate in each of its stretches.
type traffic []stretch

type stretch struct {
	from   int64
	frames uint64 // sent before
	rate   uint64 // frames/s
}

// sent is how many frames the port had sent at an instant.
func (tr traffic) sent(at int64) uint64 {
	i := sort.Search(len(tr), func(i int) bool { return tr[i].from > at }) - 1
	if i < 0 {
		return 0
	}
	s := tr[i]
	return s.frames + s.rate*uint64(at-s.from)/uint64(second)
}

// withRate appends a stretch of a rate.
func (tr traffic) withRate(from int64, rate uint64) traffic {
	return append(tr, stretch{from, tr.sent(from), rate})
}

// first is the earliest instant at which it had sent so many frames.
func (tr traffic) first(frames uint64) int64 {
	if frames == 0 {
		return tr[0].from
	}
	i := sort.Search(len(tr), func(i int) bool { return tr[i].frames >= frames }) - 1
	i = max(i, 0)
	s := tr[i]
	if s.rate == 0 { // in the next
		return tr[min(i+1, len(tr)-1)].from
	}
	// The least t with frames + rate*(t-from)/second >= the number.
	return s.from + int64(((frames-s.frames)*uint64(second)+s.rate-1)/s.rate)
}

// last is the latest instant at which it had not sent more.
func (tr traffic) last(frames uint64) int64 {
	if tr[len(tr)-1].frames <= frames && tr[len(tr)-1].rate == 0 {
		return 1 << 62
	}
	return tr.first(frames+1) - 1
}

// steady is one rate for ever.
func steady(rate uint64) traffic { return traffic{{rate: rate}} }

// changing has another rate at random instants, mean apart on average.
func changing(rnd *rand.Rand, mean, end int64, rate func() uint64) traffic {
	tr := steady(rate())
	for at := int64(0); ; {
		if at += mean/2 + rnd.Int64N(mean); at >= end {
			return tr
		}
		tr = tr.withRate(at, rate())
	}
}

// pausing is tr, but that nothing is sent in the pauses.
func (tr traffic) pausing(pauses []span) traffic {
	var at []int64
	for _, s := range tr {
		at = append(at, s.from)
	}
	for _, p := range pauses {
		at = append(at, p.from, p.to)
	}
	sort.Slice(at, func(i, j int) bool { return at[i] < at[j] })
	out := traffic{}
	for _, t := range at {
		i := sort.Search(len(tr), func(i int) bool { return tr[i].from > t }) - 1
		rate := tr[i].rate
		for _, p := range pauses {
			if p.from <= t && t < p.to {
				rate = 0
			}
		}
		out = out.withRate(t, rate)
	}
	return out
}

type span struct{ from, to int64 }

// share is a rate between two thousandths of the link's.
func share(rnd *rand.Rand, least, most uint64) uint64 {
	return fullRate * (least + rnd.Uint64N(most-least+1)) / 1000
}
