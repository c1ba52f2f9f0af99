package simulate

import (
	"fmt"
	"math"
	"slices"
)

// fluid is the flow-level mode: between two events each flow has its max-min fair share of its path. There are no packets and no
// queues: it is for signals that are older than what queues do, of 100 ms and more, and for many flows.
type fluid struct {
	m      *Simulation
	n      *Network
	left   []float64 // wire bytes that a flow still has to send, by flow
	rate   []float64 // bit/s, by flow
	limit  []float64 // bit/s that a flow never exceeds
	used   []float64 // bit/s, by link
	bytes  []float64 // sent, by link
	ack    float64   // bytes of an ACK for each of data
	stale  bool      // rates have to be found again
	room   []float64 // scratch: what is left of a link
	weight []float64 // and how many flows share it
	links  []int32   // that have flows
	open   []int32   // flows whose rate is not found yet
	full   []int32   // those whose rate is this level
	tail   []int64   // ps from the end of a flow's sending to its last ACK
	way    []int64   // ps of that until all of it is at the receiver
}

func newFluid(m *Simulation) *fluid {
	n := m.network
	u := &fluid{m: m, n: n, left: make([]float64, len(n.flows)), rate: make([]float64, len(n.flows)), limit: make([]float64, len(n.flows)), tail: make([]int64, len(n.flows)), way: make([]int64, len(n.flows))}
	links := len(n.links)
	u.used, u.bytes, u.room, u.weight = make([]float64, links), make([]float64, links), make([]float64, links), make([]float64, links)
	u.ack = float64(n.ack) / float64(n.payload+n.header)
	return u
}

// fills is the part of a full link that flows under a control use.
func (s *Scenario) fills() float64 {
	c := &s.Control
	if !s.endless && contains("hpcc hpcc-receiver hpcc-rate hpcc-pint hpcc-csig", c.Kind) {
		return c.eta()
	}
	return 1
}

// run goes on until all flows have ended, until a time, or until so many events in all.
func (u *fluid) run(until int64, events uint64) error {
	n := u.n
	for n.left > 0 && n.Events < events {
		if u.stale {
			u.share()
		}
		at, end := n.nextAt(), u.nextEnd()
		at = min(at, end)
		switch {
		case at == math.MaxInt64:
			return fmt.Errorf("nothing moves any more after %s: %s", span(ns(n.now)), n.stuck())
		case at > until:
			u.pass(until)
			return nil
		case at > maxTime:
			return fmt.Errorf("%d flows have not ended after 11 days: %s", n.left, n.stuck())
		}
		u.pass(at)
		n.Events++
		switch {
		case end == at:
			u.finish()
		case len(n.order) > 0 && n.flows[n.order[0]].begins == at:
			id := n.order[0]
			n.order = n.order[1:]
			u.begin(id)
		default:
			e := n.heap.pop()
			switch of := e.of(); e.kind() {
			case reads:
				n.readCounters(of)
			case writes:
				n.writeRules(of)
			case lapses:
				n.lapse(of)
			case follows:
				u.begin(of)
			case acknowledged:
				n.end(of)
			}
		}
	}
	return nil
}

// pass has time go on to a moment before which nothing changes.
func (u *fluid) pass(to int64) {
	n := u.n
	part := float64(to-n.now) / 8e12
	for _, id := range n.running {
		if r := u.rate[id]; r > 0 {
			u.left[id] = max(u.left[id]-r*part, 0)
			f := &n.flows[id]
			f.received = f.size - min(uint64(u.left[id]*u.payload(f)), f.size)
		}
	}
	for _, l := range u.links {
		u.bytes[l] += u.used[l] * part
		n.links[l].bytes = uint64(u.bytes[l])
	}
	n.now = to
}

// payload is how much of a flow's bytes on the wire is payload.
func (u *fluid) payload(f *flow) float64 { return float64(f.size) / u.wire(f) }

func (u *fluid) wire(f *flow) float64 {
	full, _ := u.n.full(int(f.hops))
	packets := math.Ceil(float64(f.size) / float64(u.n.payload))
	return float64(f.size) + packets*float64(full-u.n.payload)
}

// nextEnd is when the next flow has sent all.
func (u *fluid) nextEnd() int64 {
	end := math.Inf(1)
	for _, id := range u.n.running {
		if r := u.rate[id]; r > 0 {
			end = min(end, u.left[id]*8e12/r)
		}
	}
	if end > math.MaxInt64/4 {
		return math.MaxInt64
	}
	return u.n.now + int64(math.Ceil(end))
}

func (u *fluid) begin(id int32) {
	n := u.n
	f := &n.flows[id]
	n.enter(id)
	u.left[id] = u.wire(f)
	slowest := math.Inf(1)
	trip := int64(0)
	full, _ := n.full(int(f.hops))
	for _, l := range n.route[f.path : f.path+f.hops] {
		slowest = min(slowest, float64(n.links[l].rate))
		trip += n.links[l].delay + n.links[l].takes(full)
	}
	u.limit[id] = math.Inf(1)
	if u.m.scenario.Control.Kind == "window" {
		window := math.Ceil(float64(u.m.scenario.Control.Window)/float64(n.payload)) * float64(full)
		u.limit[id] = window * 8e12 / float64(u.m.trip(f.from, f.to))
	}
	wait := u.waits(f)
	alone := u.m.alone(f)
	u.tail[id] = max(alone-int64(u.left[id]*8e12/slowest), 0) + wait
	u.way[id] = min(trip+wait, u.tail[id])
	u.stale = true
}

// waits is how long the first packets of a flow wait behind constant windows that others have in queues, if it is over before
// they could be shared: a longer flow has its share of the time instead.
func (u *fluid) waits(f *flow) int64 {
	c, n := &u.m.scenario.Control, u.n
	if c.Kind != "window" || f.size > c.Window {
		return 0
	}
	most := 0.0
	for _, l := range n.route[f.path : f.path+f.hops] {
		if u.used[l] < float64(n.links[l].rate)*0.99 {
			continue
		}
		queue := -float64(n.links[l].rate) * float64(u.m.rtt) / 8e12
		for _, id := range n.running {
			if o := &n.flows[id]; o != f && slices.Contains(n.route[o.path:o.path+o.hops], l) {
				begun := float64(n.links[n.hosts[o.from].link].rate) * float64(n.now-o.begins) / 8e12
				queue += min(float64(c.Window), u.left[id], begun)
			}
		}
		most = max(most, queue*8e12/float64(n.links[l].rate))
	}
	return int64(most)
}

// finish has flows end that have sent all: the rest of their time is that of the path.
func (u *fluid) finish() {
	n := u.n
	for _, id := range n.running {
		if u.rate[id] == 0 || u.left[id] > 0.5 {
			continue
		}
		f := &n.flows[id]
		u.left[id], u.rate[id] = 0, 0
		f.received, f.acked = f.size, f.size
		f.arrived = n.now + u.way[id]
		if f.then != none {
			n.heap.push(f.arrived, follows, f.then)
		}
		n.heap.push(n.now+u.tail[id], acknowledged, id)
		u.stale = true
	}
}

// share finds the max-min fair rates: all flows grow alike until a link is full or a flow has its limit; what they have then is
// theirs, and the others go on. ACKs take their part of the way back.
func (u *fluid) share() {
	u.stale = false
	n := u.n
	for _, l := range u.links {
		u.used[l] = 0
	}
	u.links, u.open = u.links[:0], u.open[:0]
	for _, id := range n.running {
		if u.left[id] == 0 {
			continue
		}
		u.open = append(u.open, id)
		u.each(&n.flows[id], func(l int32, w float64) {
			if u.weight[l] == 0 {
				u.links = append(u.links, l)
			}
			u.weight[l] += w
		})
	}
	slices.Sort(u.links)
	for _, l := range u.links {
		u.room[l] = float64(n.links[l].rate) * u.m.scenario.fills()
	}
	for len(u.open) > 0 {
		level := math.Inf(1)
		for _, l := range u.links {
			if u.weight[l] > 1e-9 {
				level = min(level, max(u.room[l], 0)/u.weight[l])
			}
		}
		for _, id := range u.open {
			level = min(level, u.limit[id])
		}
		kept := u.open[:0]
		u.full = u.full[:0]
		for _, id := range u.open {
			full := u.limit[id] <= level*(1+1e-9)
			u.each(&n.flows[id], func(l int32, _ float64) { full = full || u.room[l] <= u.weight[l]*level*(1+1e-9) })
			if full {
				u.full = append(u.full, id)
			} else {
				kept = append(kept, id)
			}
		}
		u.open = kept
		for _, id := range u.full {
			u.rate[id] = level
			u.each(&n.flows[id], func(l int32, w float64) {
				u.room[l] -= level * w
				u.used[l] += level * w
				if u.weight[l] -= w; u.weight[l] < 1e-9 {
					u.weight[l] = 0
				}
			})
		}
	}
	for _, l := range u.links {
		u.weight[l] = 0
	}
}

// each has the links of a flow, and what part of its rate it takes of each.
func (u *fluid) each(f *flow, do func(l int32, w float64)) {
	for _, l := range u.n.route[f.path : f.path+f.hops] {
		do(l, 1)
		do(l^1, u.ack)
	}
}
