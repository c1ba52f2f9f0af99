package mesh

import (
	"maps"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Reload has the collector take another fleet file. What is known of pairs whose hosts are in both stays, unless
// the profile or a port's locators are others: then old readings would be taken for what they are not.
func (c *Collector) Reload(fleet *inventory.Fleet) {
	n := NewCollector(fleet)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roll(now)
	moved := make([]int, len(c.hosts)) // of a host before: its number now, -1 for none
	for i, h := range c.hosts {
		moved[i] = -1
		if j, stays := n.index[h.Name]; stays {
			moved[i], n.seen[j] = j, c.seen[i]
		}
	}
	if c.means(n) {
		for i, j := range moved {
			if j < 0 || c.pairs[i] == nil {
				continue
			}
			n.pairs[j] = make([]*record, len(n.hosts))
			for k, rec := range c.pairs[i] {
				if moved[k] >= 0 {
					n.pairs[j][moved[k]] = rec
				}
			}
		}
		n.kept, n.changes.full, n.written = c.kept, c.changes.full, c.written
		c.changes.each(func(h *change) {
			if from, to := moved[h.from], moved[h.to]; from >= 0 && to >= 0 {
				one := *h
				one.from, one.to = uint32(from), uint32(to)
				n.changes.add(one)
			}
		})
		n.histograms.began, n.histograms.dropped = c.histograms.began, c.histograms.dropped
		n.histograms.minute, n.histograms.all = moveHistograms(c.histograms.minute, moved), moveHistograms(c.histograms.all, moved)
	}
	n.histograms.last = c.histograms.last
	c.fleet, c.hosts, c.index, c.signals, c.ways, c.prefixes = n.fleet, n.hosts, n.index, n.signals, n.ways, n.prefixes
	c.seen, c.pairs, c.changes, c.kept, c.written, c.histograms, c.made = n.seen, n.pairs, n.changes, n.kept, n.written, n.histograms, nil
}

// means reports whether a tag that was read by the fleet file of c means the same by that of n.
func (c *Collector) means(n *Collector) bool {
	if c.fleet.Profile.Hash() != n.fleet.Profile.Hash() {
		return false
	}
	for name, p := range c.ways.named {
		if q := n.ways.named[name]; q == nil || !maps.Equal(p.is.LM, q.is.LM) {
			return false
		}
	}
	return true
}

func moveHistograms(all map[histogramKey]*[quantize.NumBuckets]time.Duration, moved []int) map[histogramKey]*[quantize.NumBuckets]time.Duration {
	out := make(map[histogramKey]*[quantize.NumBuckets]time.Duration)
	for key, h := range all {
		if key.from = moved[key.from]; key.from >= 0 {
			out[key] = h
		}
	}
	return out
}
