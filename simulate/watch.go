package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// maxSamples bounds how many there are: where there are more, two become one.
const maxSamples = 1000

// watch looks at a simulation at regular times.
type watch struct {
	m        *Simulation
	from, to int64 // ps: of what counts
	every    int64
	at       int64 // of the last look
	samples  []Sample

	before []uint64 // bytes that each link had sent at the last look
	first  []uint64 // when what counts began
	last   []uint64 // when it ended; nil: not yet
	jain   mean
	room   mean
	begun  int   // flows, at the last look
	fair   int64 // since when the last of them began, in ps, until all had their share
}

// window is from when to when flows begin that count, in ps.
func (w *Measure) window() (from, to int64) {
	if from, to = w.From.Nanoseconds()*1000, w.To.Nanoseconds()*1000; to == 0 {
		to = math.MaxInt64
	}
	return from, to
}

type mean struct{ sum, count float64 }

func (m *mean) add(v, weight float64) { m.sum, m.count = m.sum+v*weight, m.count+weight }

func (m *mean) value() float64 {
	if m.count == 0 {
		return 0
	}
	return m.sum / m.count
}

func newWatch(m *Simulation) *watch {
	from, to := m.scenario.Measure.window()
	w := &watch{m: m, from: from, to: to, every: 10 * min(m.rtt, maxTime/10), before: make([]uint64, len(m.network.links)), first: make([]uint64, len(m.network.links))}
	m.network.counts = w.from == 0
	return w
}

// next is until when the simulation is to run.
func (w *watch) next() int64 {
	until := w.at + w.every
	if idle := w.m.network.nextAt(); idle > until && idle < math.MaxInt64 && w.m.network.active == 0 { // nothing happens for longer
		until += (idle - until) / w.every * w.every
	}
	for _, edge := range [...]int64{w.from, w.to} {
		if w.at < edge && edge < until {
			return edge
		}
	}
	return until
}

// look takes a sample.
func (w *watch) look() {
	n := w.m.network
	length := n.now - w.at
	if length <= 0 {
		return
	}
	s := Sample{TimeNS: ns(n.now), Active: n.active}
	host, hosts := 0.0, 0
	for i := range n.links {
		l := &n.links[i]
		if l.of < 0 {
			continue
		}
		s.Queue = max(s.Queue, l.queued)
		if l.into < 0 {
			host += w.used(i, length)
			hosts++
		}
	}
	s.Hosts = host / float64(max(hosts, 1))
	var got, room mean
	squares := 0.0
	for _, id := range n.running {
		f := &n.flows[id]
		if f.begins <= w.at && f.path != none {
			rate := float64(f.received - f.seen)
			got.add(rate, 1)
			squares += rate * rate
			n.eachPath(f, func(links []int32) {
				left := 1.0
				for _, l := range links {
					left = min(left, 1-w.used(int(l), length))
				}
				room.add(max(left, 0), 1/float64(max(f.ways, 1)))
			})
		}
		f.seen = f.received
	}
	if got.count >= 2 && squares > 0 {
		s.Jain = got.sum * got.sum / (got.count * squares)
	}
	s.Unclaimed = room.value()
	if n.now > w.from && w.at < w.to {
		if s.Jain > 0 {
			w.jain.add(s.Jain, float64(length))
		}
		w.room.add(s.Unclaimed, room.count*float64(length))
	}
	w.fairness(s.Jain, int(got.count))
	for i := range n.links {
		w.before[i] = n.links[i].bytes
	}
	w.at = n.now
	w.edges()
	w.samples = append(w.samples, s)
	if len(w.samples) == maxSamples {
		w.halve()
	}
}

// used is the part of a link's rate that was used since the last look.
func (w *watch) used(link int, length int64) float64 {
	l := &w.m.network.links[link]
	return float64(l.bytes-w.before[link]) * 8e12 / (float64(l.rate) * float64(length))
}

// fairness notes when the flows that are there have come to have equal shares.
func (w *watch) fairness(jain float64, flows int) {
	n := w.m.network
	if n.begun != w.begun {
		w.begun, w.fair = n.begun, 0
		return
	}
	if w.fair == 0 && flows == n.active && jain >= fairEnough {
		w.fair = n.now - n.lastBegun
	}
}

// fairEnough is Jain's index from which on shares count as equal.
const fairEnough = 0.95

func (w *watch) edges() {
	n := w.m.network
	n.counts = n.now >= w.from && n.now < w.to
	if n.now == w.from {
		copy(w.first, w.before)
	}
	if n.now >= w.to && w.last == nil {
		w.last = slices.Clone(w.before)
	}
}

// halve has two samples become one, and the next ones be twice as long.
func (w *watch) halve() {
	for i := range len(w.samples) / 2 {
		a, b := &w.samples[2*i], &w.samples[2*i+1]
		b.Queue = max(a.Queue, b.Queue)
		b.Hosts, b.Unclaimed = (a.Hosts+b.Hosts)/2, (a.Unclaimed+b.Unclaimed)/2
		if a.Jain > 0 && b.Jain > 0 {
			b.Jain = (a.Jain + b.Jain) / 2
		}
		w.samples[i] = *b
	}
	w.samples = w.samples[:len(w.samples)/2]
	w.every *= 2
}

// finish has a result have what was seen.
func (w *watch) finish(r *Result) {
	n := w.m.network
	r.Jain, r.Unclaimed, r.Converged = w.jain.value(), w.room.value(), ns(w.fair)
	r.SampleNS, r.Samples = ns(w.every), w.samples
	if r.Samples == nil {
		r.Samples = []Sample{}
	}
	last, length := w.last, min(w.to, n.now)-w.from
	if last == nil {
		last = w.before
	}
	if length <= 0 {
		return
	}
	for i := range n.links {
		l := &n.links[i]
		if l.of < 0 {
			continue
		}
		u := &r.Core
		if l.into < 0 {
			u = &r.Hosts
		}
		one := float64(last[i]-w.first[i]) * 8e12 / (float64(l.rate) * float64(length))
		u.Mean += one
		u.Most = max(u.Most, one)
	}
	hosts := float64(len(n.hosts))
	r.Hosts.Mean /= hosts
	if core := float64(len(n.links)) - 2*hosts; core > 0 {
		r.Core.Mean /= core
	}
}

// sized is the slowdown of a flow.
type sized struct {
	bytes uint64
	slow  float64
}

// classes are the sizes that results tell apart.
var classes = []uint64{1e3, 1e4, 1e5, 1e6, 1e7, 0}

// slowdowns are those of all flows, and of each class of sizes that has some.
func slowdowns(all []sized) (Slowdown, []SizeResult) {
	out := []SizeResult{}
	below := uint64(0)
	for _, up := range classes {
		var of []float64
		for _, f := range all {
			if f.bytes > below && (up == 0 || f.bytes <= up) {
				of = append(of, f.slow)
			}
		}
		if below = up; len(of) > 0 {
			out = append(out, SizeResult{UpTo: up, Flows: len(of), Slowdown: percentiles(of)})
		}
	}
	of := make([]float64, len(all))
	for i := range all {
		of[i] = all[i].slow
	}
	return percentiles(of), out
}

func percentiles(of []float64) Slowdown {
	slices.Sort(of)
	return Slowdown{rank(of, 0.5), rank(of, 0.95), rank(of, 0.99), rank(of, 1)}
}

// rank is a percentile of what is sorted: the least that so much of all is not above.
func rank(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(part*float64(len(sorted))))-1, 0)]
}

// workloads are how long each entry's groups of flows took.
func (m *Simulation) workloads() []WorkloadResult {
	n := m.network
	type group struct {
		begin, end int64
		flows      bool
		left       bool
	}
	s := m.scenario
	all := len(s.Flows)
	for i := range s.Workloads {
		all += int(s.Workloads[i].times())
	}
	groups := make([]group, all)
	for i := range n.flows {
		f := &n.flows[i]
		g := &groups[f.group]
		if !g.flows || !f.waits && f.begins < g.begin {
			g.begin = f.begins
		}
		g.flows = true
		g.end = max(g.end, f.arrived)
		g.left = g.left || f.arrived == 0
	}
	out, next := []WorkloadResult{}, 0
	one := func(name string, times int) {
		r := WorkloadResult{Name: name}
		var took []float64
		for _, g := range groups[next : next+times] {
			if !g.flows {
				continue
			}
			r.Times++
			if !g.left {
				took = append(took, ns(g.end-g.begin))
			}
		}
		next += times
		slices.SortFunc(took, cmp.Compare)
		r.Ended, r.P50NS, r.P99NS, r.MostNS = len(took), rank(took, 0.5), rank(took, 0.99), rank(took, 1)
		out = append(out, r)
	}
	for i := range s.Flows {
		one(fmt.Sprintf("flows %d", i+1), 1)
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		times := int(w.times())
		one(fmt.Sprintf("%s %d", w.Kind, i+1), times)
	}
	return out
}

// histogram counts sizes in classes that are 6 % wide.
type histogram struct {
	count [64 * 16]uint64
	all   uint64
}

func (h *histogram) add(v uint64) {
	h.all++
	if v < 16 {
		h.count[v]++
		return
	}
	order := bits.Len64(v) - 5 // of its last bit that counts
	h.count[(order+1)*16+int(v>>order)&15]++
}

// percentile is the upper end of the class that it is in.
func (h *histogram) percentile(part float64) uint64 {
	left := uint64(math.Ceil(part * float64(h.all)))
	if left == 0 {
		return 0
	}
	for i, c := range h.count {
		if c >= left {
			if i < 16 {
				return uint64(i)
			}
			return uint64(i%16+17)<<(i/16-1) - 1
		}
		left -= c
	}
	return 0
}
