package mesh

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// Destination prefixes of histograms, in bits.
const (
	prefixIPv4 = 24
	prefixIPv6 = 64
)

// mostHistograms bounds how many are kept of a minute, and in all.
const mostHistograms = 1 << 14

// histogramKey is what a histogram is of.
type histogramKey struct {
	from   int
	to     netip.Prefix
	signal quantize.Signal
	lm     uint16
	ports  string
}

// histograms are how long readings held, by S (draft-00 §8.2.2). Each path of a pair counts for itself.
type histograms struct {
	minute, all map[histogramKey]*[quantize.NumBuckets]time.Duration
	began       time.Time // the minute
	dropped     uint64    // readings beyond mostHistograms
	last        *Histograms
}

func newHistograms(now time.Time) histograms {
	return histograms{minute: make(map[histogramKey]*[quantize.NumBuckets]time.Duration), all: make(map[histogramKey]*[quantize.NumBuckets]time.Duration), began: now, last: &Histograms{Format: HistogramsFormat, From: now, Until: now, Histograms: []Histogram{}}}
}

// Histograms are those of a minute, csig.mesh-histograms/v1.
type Histograms struct {
	Format     string      `json:"format"`
	From       time.Time   `json:"from"`
	Until      time.Time   `json:"until"`
	Dropped    uint64      `json:"dropped"` // readings that are in none: there were too many histograms
	Histograms []Histogram `json:"histograms"`
}

// HistogramsFormat is the Format of Histograms.
const HistogramsFormat = "csig.mesh-histograms/v1"

// Histogram is how long the paths from a host to a prefix had each S of a signal with a locator.
type Histogram struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"` // prefix
	Signal      string   `json:"signal"`
	LM          uint16   `json:"lm"`
	Ports       []string `json:"ports"`   // that may have written it; none for none and stale
	HeldNS      []int64  `json:"held_ns"` // by S, from 0; of all paths together
	MeanS       float64  `json:"mean_s"`
}

// hold counts a reading for the time that it held: until the next one of the path, or until it is too old.
func (c *Collector) hold(from, to int, path int, was *found, until int64) {
	if was.read == 0 || until <= was.read {
		return
	}
	held := min(time.Duration(until-was.read)*time.Millisecond, c.oldest(from))
	sig := c.signals[path%len(c.signals)]
	key := histogramKey{from: from, to: c.prefixes[to], signal: sig, lm: was.lm}
	if layout := c.fleet.Profile.Layout; was.lm != layout.LMNone() && was.lm != layout.LMStale() {
		key.ports = joined(c.ways.between(from, to).writers(nil, sig, was.lm))
	}
	for i, m := range []map[histogramKey]*[quantize.NumBuckets]time.Duration{c.histograms.minute, c.histograms.all} {
		h := m[key]
		if h == nil {
			if len(m) >= mostHistograms {
				if i == 0 {
					c.histograms.dropped++
				}
				continue
			}
			h = new([quantize.NumBuckets]time.Duration)
			m[key] = h
		}
		h[was.s] += held
	}
}

// roll ends a minute that is over.
func (c *Collector) roll(now time.Time) {
	h := &c.histograms
	if now.Sub(h.began) < time.Minute {
		return
	}
	h.last = &Histograms{Format: HistogramsFormat, From: h.began, Until: now, Dropped: h.dropped, Histograms: c.listed(h.minute)}
	h.minute, h.began, h.dropped = make(map[histogramKey]*[quantize.NumBuckets]time.Duration), now, 0
}

// listed is histograms in order.
func (c *Collector) listed(of map[histogramKey]*[quantize.NumBuckets]time.Duration) []Histogram {
	keys := slices.SortedFunc(maps.Keys(of), func(a, b histogramKey) int {
		return cmp.Or(a.from-b.from, a.to.Addr().Compare(b.to.Addr()), cmp.Compare(a.signal, b.signal), cmp.Compare(a.lm, b.lm), strings.Compare(a.ports, b.ports))
	})
	out := make([]Histogram, 0, len(keys))
	for _, k := range keys {
		one := Histogram{Source: c.hosts[k.from].Name, Destination: k.to.String(), Signal: k.signal.String(), LM: k.lm, Ports: strings.Fields(k.ports), HeldNS: make([]int64, quantize.NumBuckets)}
		sum, weighted := 0.0, 0.0
		for s, d := range of[k] {
			one.HeldNS[s] = d.Nanoseconds()
			sum += d.Seconds()
			weighted += float64(s) * d.Seconds()
		}
		if one.Ports == nil {
			one.Ports = []string{}
		}
		if sum > 0 {
			one.MeanS = weighted / sum
		}
		out = append(out, one)
	}
	return out
}

// Histograms are those of the last minute that is over; none in the first one.
func (c *Collector) Histograms() *Histograms {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roll(time.Now())
	return c.histograms.last
}

// prefixOf is the prefix that a host's address is in.
func prefixOf(a netip.Addr) netip.Prefix {
	bits := prefixIPv4
	if a.Is6() {
		bits = prefixIPv6
	}
	p, _ := a.Prefix(bits) // the address has as many
	return p
}
