package counters

import "slices"

// gaps are the last distances of two readings.
type gaps struct {
	last [8]int64
	n    int
}

// add takes the next one and returns the usual distance.
func (g *gaps) add(d int64) (usual int64) {
	g.last[g.n%len(g.last)] = d
	g.n++
	sorted := g.last
	n := min(g.n, len(g.last))
	slices.Sort(sorted[:n])
	if n < 4 {
		return sorted[0]
	}
	return sorted[(n-1)/2]
}
