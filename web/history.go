package web

import (
	"cmp"
	"iter"
	"slices"
	"time"
	"unsafe"

	"github.com/csig-agent/csig/agent/api"
)

// Bounds of a port's history, in samples.
const (
	maxSamples = 3600 // an hour, at one a second
	minSamples = 30
	sampleSize = int(unsafe.Sizeof(sample{}))
	clockSet   = 10_000 // ms: a sample that is older than the last one by more was taken after a clock was set back
)

// signalsKept is how many signals a sample has: all that a port can write.
const signalsKept = 4

// sample is a port at one instant.
type sample struct {
	at       int64 // milliseconds since 1970: the end of the window, or when it was looked at
	load     uint64
	capacity uint64
	s        [signalsKept]uint8 // by T, where has says so
	has      uint8
	measured bool
}

// history is a ring of samples.
type history struct {
	ring  []sample
	first int // the oldest, once the ring is full
	most  int // how many it keeps
	state string
}

// add keeps a port's figures, where they are newer than the last, or its state is another.
func (h *history) add(p *api.Port, now time.Time, most int) {
	s := sample{at: now.UnixMilli(), measured: p.WindowEnd != nil}
	if s.measured {
		s.at, s.load, s.capacity = p.WindowEnd.UnixMilli(), p.LoadBPS, p.CapacityBPS
	}
	for _, g := range p.Signals {
		if g.T < signalsKept {
			s.s[g.T], s.has = g.Bucket, s.has|1<<g.T
		}
	}
	if last, any := h.last(); any && s.at < last.at-clockSet {
		h.forget(s.at)
	}
	last, any := h.last()
	same := any && p.State == h.state && s.has == last.has && s.s == last.s && s.measured == last.measured
	if same && (!s.measured || s.at <= last.at) {
		return
	}
	if any {
		s.at = max(s.at, last.at+1) // a window can have ended before it was seen that there was none
	}
	h.state = p.State
	if most != h.most {
		h.resize(most)
	}
	if len(h.ring) < most {
		h.ring = append(h.ring, s)
		return
	}
	h.ring[h.first] = s
	h.first = (h.first + 1) % len(h.ring)
}

func (h *history) last() (s sample, ok bool) {
	if len(h.ring) == 0 {
		return s, false
	}
	return h.ring[(h.first+len(h.ring)-1)%len(h.ring)], true
}

// forget drops the samples from a time on: a clock was set back, and theirs is another.
func (h *history) forget(from int64) {
	all := h.all()
	n, _ := slices.BinarySearchFunc(all, from, func(s sample, at int64) int { return cmp.Compare(s.at, at) })
	h.ring, h.first, h.state = all[:n], 0, ""
}

// resize keeps the newest samples that there is a place for.
func (h *history) resize(most int) {
	all := h.all()
	if len(all) > most {
		all = all[len(all)-most:]
	}
	h.ring, h.first, h.most = all, 0, most
}

// all are the samples, the oldest first, in a slice of their own.
func (h *history) all() []sample {
	out := make([]sample, 0, len(h.ring))
	return append(append(out, h.ring[h.first:]...), h.ring[:h.first]...)
}

// backward are the samples, the newest first.
func (h *history) backward() iter.Seq[sample] {
	return func(yield func(sample) bool) {
		n := len(h.ring)
		for i := range n {
			if !yield(h.ring[(h.first+n-1-i)%n]) {
				return
			}
		}
	}
}
