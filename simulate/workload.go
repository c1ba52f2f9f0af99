package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/inventory"
)

// Workload is flows of a pattern.
type Workload struct {
	Kind  string        `key:"kind,need" words:"poisson incast all-to-all permutation ring" doc:"poisson: each host has flows to others, which begin by chance. incast: hosts send to one at once. all-to-all: each host to each other. permutation: each host to one, and none to the same. ring: an all-reduce of 2·(hosts−1) steps, in each of which a host sends size/hosts to the next one."`
	Hosts string        `key:"hosts" is:"word" doc:"Which take part, as 0-31; all unless given."`
	Sizes string        `key:"sizes" words:"websearch hadoop storage rpc" doc:"Of poisson: a public distribution of flow sizes."`
	Size  uint64        `key:"size" is:"bytes" doc:"Of each flow; of ring: of what is reduced."`
	Load  int           `key:"load" range:"1 200" doc:"Of poisson: payload that hosts send, in percent of what their links carry."`
	Fan   int           `key:"fan" range:"1 100000" doc:"Of incast: how many hosts send, by chance."`
	To    string        `key:"to" is:"word" doc:"Of incast: the host that they send to; one by chance each time unless given."`
	Every time.Duration `key:"every" range:"1us 1h" doc:"Of incast, all-to-all, permutation and ring: how often they are repeated."`
	At    time.Duration `key:"at" range:"0s 1h" doc:"When it begins."`
	For   time.Duration `key:"for" range:"1us 1h" doc:"How long flows begin."`

	first, last, to int
	m               inventory.Mapping
}

// Measure is which flows count.
type Measure struct {
	From time.Duration `key:"from" range:"0s 1h" doc:"Flows that begin before do not count: the warm-up."`
	To   time.Duration `key:"to" range:"0s 1h" doc:"Nor do those that begin then or after: the cool-down."`
}

// workloadKeys are the keys that a kind needs, and those that it may have besides hosts and at.
var workloadKeys = map[string][2]string{
	"poisson":     {"load for", "sizes size"},
	"incast":      {"fan size", "to every for"},
	"all-to-all":  {"size", "every for"},
	"permutation": {"size", "every for"},
	"ring":        {"size", "every for"},
}

// Check has the rules about several keys.
func (w *Workload) Check(m inventory.Mapping) {
	w.m, w.to = m, -1
	keys, ok := workloadKeys[w.Kind]
	if !ok {
		return
	}
	for _, key := range strings.Fields("sizes size load fan to every for") {
		needed := contains(keys[0], key)
		switch {
		case needed && !m.Has(key):
			m.Wrong("kind", "e.g. "+map[string]string{"load": "load: 30", "for": "for: 10ms", "fan": "fan: 15", "size": "size: 1M"}[key], "%s needs %s", w.Kind, key)
		case m.Has(key) && !needed && !contains(keys[1], key):
			m.Wrong(key, "leave it out", "%s has no %s", w.Kind, key)
		}
	}
	if w.Kind == "poisson" && m.Has("sizes") == m.Has("size") {
		m.Wrong("kind", "e.g. sizes: websearch", "poisson needs sizes, or the one size of all flows")
	}
	if w.Kind != "poisson" && m.Has("for") != m.Has("every") {
		m.Wrong("kind", "e.g. every: 1ms, for: 10ms", "what is repeated needs every and for")
	}
	w.first, w.last = 0, -1
	if m.Has("hosts") {
		if w.first, w.last, ok = hostRange(w.Hosts); !ok || w.last == w.first {
			m.WrongValue("hosts", "e.g. 0-31", "%q is no range of hosts", w.Hosts)
		}
	}
	if m.Has("to") {
		to, err := strconv.ParseUint(w.To, 10, 31)
		if err != nil {
			m.WrongValue("to", "e.g. 0", "%q is no host", w.To)
		}
		w.to = int(to)
	}
}

func contains(words, word string) bool {
	for one := range strings.FieldsSeq(words) {
		if one == word {
			return true
		}
	}
	return false
}

// hostRange reads 0, or 0-14.
func hostRange(text string) (first, last int, ok bool) {
	a, b, ranged := strings.Cut(text, "-")
	x, err := strconv.ParseUint(a, 10, 31)
	y := x
	if ranged && err == nil {
		y, err = strconv.ParseUint(b, 10, 31)
	}
	return int(x), int(y), err == nil && x <= y
}

// within has the workload's hosts be those of a network, and says what is wrong.
func (w *Workload) within(s *Scenario) {
	hosts := s.Topology.graph.hosts
	if !w.m.Has("hosts") {
		w.first, w.last = 0, hosts-1
	}
	hint := fmt.Sprintf("hosts are 0 to %d", hosts-1)
	switch {
	case w.last >= hosts:
		w.m.WrongValue("hosts", hint, "there are %d hosts", hosts)
		return
	case w.to >= hosts:
		w.m.WrongValue("to", hint, "there are %d hosts", hosts)
		return
	}
	if hosts < 2 {
		w.m.Wrong("kind", "more hosts", "%s needs two hosts, and there is one", w.Kind)
		return
	}
	most := w.hosts()
	if w.to < 0 || w.to >= w.first && w.to <= w.last { // one of them is the receiver
		most--
	}
	if w.Kind == "incast" && w.Fan > most {
		w.m.WrongValue("fan", "fewer, or more hosts", "%d hosts cannot send to another one: %d can", w.Fan, most)
	}
	reaches := func(to int) bool {
		_, ok := s.routes.route(nil, int32(w.first), int32(to), 0)
		if ok || to == w.first {
			return true
		}
		w.m.Wrong("", "other hosts, or other cables", "there is no route of at most %d cables from host %d to host %d", maxHops, w.first, to)
		return false
	}
	for i := w.first + 1; i <= w.last; i++ {
		if !reaches(i) {
			return
		}
	}
	if w.to >= 0 && !reaches(w.to) {
		return
	}
	if n := w.count(s); n > maxFlows && !math.IsInf(n, 1) {
		w.m.Wrong("", "fewer hosts, or a shorter time", "it has %.0f flows: a simulation takes %d", n, maxFlows)
	}
}

func (w *Workload) hosts() int { return w.last - w.first + 1 }

// times are how often it is repeated.
func (w *Workload) times() float64 {
	if w.Every == 0 {
		return 1
	}
	return math.Ceil(float64(w.For) / float64(w.Every))
}

// count is how many flows there are, about.
func (w *Workload) count(s *Scenario) float64 {
	n := float64(w.hosts())
	switch w.Kind {
	case "poisson":
		flows := 0.0
		for h := w.first; h <= w.last; h++ {
			flows += float64(w.For) / 1e9 / w.gap(s.hostRate(h))
		}
		return flows
	case "incast":
		return w.times() * float64(w.Fan)
	case "all-to-all":
		return w.times() * n * (n - 1)
	case "ring":
		return w.times() * n * 2 * (n - 1)
	}
	return w.times() * n
}

// gap is the mean time between two flows of a host with so many bit/s, in s.
func (w *Workload) gap(rate uint64) float64 {
	mean := float64(w.Size)
	if d, ok := distributions[w.Sizes]; ok {
		mean = d.mean()
	}
	return mean * 8 / (float64(rate) * float64(w.Load) / 100)
}

// hostRate is the rate of a host's cable.
func (s *Scenario) hostRate(h int) uint64 {
	return s.Topology.graph.cables[s.routes.up[h]/2].rate
}

// wanted is a flow that is to be.
type wanted struct {
	from, to, group int32
	size            uint64
	at              int64 // ps
	after           int32 // the flow whose end it waits for, by how many it is before this one; 0: none
}

// flows gives all flows of a scenario, always the same ones for a seed.
func (s *Scenario) flows(give func(wanted)) {
	group := int32(0)
	for i := range s.Flows {
		f := &s.Flows[i]
		for from := f.first; from <= f.last; from++ {
			give(wanted{from: int32(from), to: int32(f.To), group: group, size: f.Size, at: f.At.Nanoseconds() * 1000})
		}
		group++
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		chance := stream(uint64(s.Seed), streamWorkload+uint64(i)<<8)
		begin := w.At.Nanoseconds() * 1000
		if w.Kind == "poisson" {
			w.poisson(s, chance, group, give)
			group++
			continue
		}
		for k := range int64(w.times()) {
			w.once(chance, begin+k*w.Every.Nanoseconds()*1000, group, give)
			group++
		}
	}
}

// poisson has each host begin flows with exponential times between them.
func (w *Workload) poisson(s *Scenario, chance *rand.Rand, group int32, give func(wanted)) {
	d, known := distributions[w.Sizes]
	begin := float64(w.At) / 1e9
	for from := w.first; from <= w.last; from++ {
		gap := w.gap(s.hostRate(from))
		for at := chance.ExpFloat64() * gap; at < float64(w.For)/1e9; at += chance.ExpFloat64() * gap {
			to := w.first + chance.IntN(w.hosts()-1)
			if to >= from {
				to++
			}
			size := w.Size
			if known {
				size = d.one(chance)
			}
			give(wanted{from: int32(from), to: int32(to), group: group, size: size, at: int64((begin + at) * cc.Second)})
		}
	}
}

// once has the pattern happen at a time.
func (w *Workload) once(chance *rand.Rand, at int64, group int32, give func(wanted)) {
	n := int32(w.hosts())
	first := int32(w.first)
	flow := wanted{group: group, size: w.Size, at: at}
	switch w.Kind {
	case "incast":
		to := int32(w.to)
		if to < 0 {
			to = first + chance.Int32N(n)
		}
		senders := chance.Perm(int(n))
		left := w.Fan
		for _, i := range senders {
			if from := first + int32(i); from != to && left > 0 {
				left--
				flow.from, flow.to = from, to
				give(flow)
			}
		}
	case "all-to-all":
		for step := int32(1); step < n; step++ {
			for i := range n {
				flow.from, flow.to = first+i, first+(i+step)%n
				give(flow)
			}
		}
	case "permutation": // one cycle through all hosts (Sattolo): none sends to itself
		to := make([]int32, n)
		for i := range to {
			to[i] = int32(i)
		}
		for i := n - 1; i > 0; i-- {
			j := chance.Int32N(i)
			to[i], to[j] = to[j], to[i]
		}
		for i := range n {
			flow.from, flow.to = first+i, first+to[i]
			give(flow)
		}
	case "ring":
		flow.size = max(w.Size/uint64(n), 1)
		for step := range 2 * (n - 1) {
			for i := range n {
				flow.from, flow.to, flow.after = first+i, first+(i+1)%n, 0
				if step > 0 { // what host i sends on is what it got from the one before it
					if flow.after = n + 1; i == 0 {
						flow.after = 1
					}
				}
				give(flow)
			}
		}
	}
}
