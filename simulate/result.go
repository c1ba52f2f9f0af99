package simulate

import (
	"context"
	"fmt"
	"math"
	"time"
)

// ResultFormat is that of results as JSON.
const ResultFormat = "csig.simulation/v1"

// Result is what came out. Times are ns. Statistics are of the flows that Measured names, and of the time that it has.
type Result struct {
	Format     string           `json:"format"`
	Seed       int              `json:"seed"`
	Mode       string           `json:"mode"`
	Control    string           `json:"control"` // and its form, in words
	TimeNS     float64          `json:"time_ns"` // simulated
	Events     uint64           `json:"events"`
	Ended      int              `json:"ended"`   // flows
	Partial    bool             `json:"partial"` // it was ended before all flows had
	Measured   Measured         `json:"measured"`
	Slowdown   Slowdown         `json:"slowdown"`
	Sizes      []SizeResult     `json:"sizes"`
	Workloads  []WorkloadResult `json:"workloads"`
	Queue      uint64           `json:"longest_queue_bytes"` // at a switch
	QueueP99   uint64           `json:"queue_p99_bytes"`     // that a packet found at a switch, 6 % more at most
	Drops      uint64           `json:"drops"`               // packets
	Timeouts   uint64           `json:"timeouts"`
	Moves      uint64           `json:"moves"`                      // of flows to another path
	Hosts      Utilisation      `json:"host_links"`                 // of switches' ports to hosts
	Core       Utilisation      `json:"core_links"`                 // of ports between switches
	Unread     int              `json:"switches_without_a_reading"` // whose first window is not over, or first reading not in force: their signals are those of an idle network
	Jain       float64          `json:"jain"`                       // mean over samples with two flows or more
	Unclaimed  float64          `json:"unclaimed"`                  // of a flow's path: what its fullest link had left, as a part of its rate; mean over flows and samples
	Converged  float64          `json:"converged_ns"`
	SampleNS   float64          `json:"sample_ns"`
	Samples    []Sample         `json:"samples"`
	Flows      []FlowResult     `json:"flows"`
	FlowsInAll int              `json:"flows_in_all"`
}

// Measured is which flows and what time statistics are of.
type Measured struct {
	FromNS float64 `json:"from_ns"`
	ToNS   float64 `json:"to_ns"`
	Flows  int     `json:"flows"` // that began then and ended
}

// Slowdown is of flows: their time by what they take where they have the network alone. 0: there are none.
type Slowdown struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P100 float64 `json:"p100"`
}

// SizeResult is the flows of some sizes.
type SizeResult struct {
	UpTo  uint64 `json:"up_to_bytes"` // and more than the entry before; 0: all that are larger
	Flows int    `json:"flows"`
	Slowdown
}

// WorkloadResult is an entry of flows or workloads: how long it took until all of it was there, each time.
type WorkloadResult struct {
	Name   string  `json:"name"`
	Times  int     `json:"times"`
	Ended  int     `json:"ended"`
	P50NS  float64 `json:"p50_ns"`
	P99NS  float64 `json:"p99_ns"`
	MostNS float64 `json:"most_ns"`
}

// Utilisation is of some links, as a part of their rate.
type Utilisation struct {
	Mean float64 `json:"mean"`
	Most float64 `json:"most"`
}

// Sample is the network over a time that ends at TimeNS.
type Sample struct {
	TimeNS    float64 `json:"time_ns"`
	Active    int     `json:"active"` // flows at the end
	Queue     uint64  `json:"queue_bytes"`
	Hosts     float64 `json:"host_links"` // utilisation
	Jain      float64 `json:"jain"`       // of what flows got that were active all the time; 0: there are not two
	Unclaimed float64 `json:"unclaimed"`
}

// FlowResult is one flow. Slowdown is its time by what it takes where it has the network alone.
type FlowResult struct {
	From     int     `json:"from"`
	To       int     `json:"to"`
	Bytes    uint64  `json:"bytes"`
	Moved    uint64  `json:"moved_bytes"` // acknowledged
	BeginNS  float64 `json:"begin_ns"`
	TookNS   float64 `json:"took_ns"` // 0: it has not ended
	Slowdown float64 `json:"slowdown"`
}

// Run runs until all flows have ended, or ctx ends: the result is partial then. progress is called now and then with how many
// flows have ended.
func (m *Simulation) Run(ctx context.Context, progress func(ended, all int)) (*Result, error) {
	n, w := m.network, newWatch(m)
	run, events := n.run, uint64(4096) // at a time, so that no end is waited for
	if n.fluid != nil {
		run, events = n.fluid.run, 64 // each takes a time that grows with the flows
	}
	until := w.next()
	for n.left > 0 && ctx.Err() == nil {
		if err := run(until, n.Events+events); err != nil {
			return nil, m.placed(err)
		}
		if len(n.packets) > n.mostPackets {
			return nil, m.scenario.m.Error("", "raise it, give switches a queue or a buffer, or flows a smaller window", "%d packets are on their way after %s, and --memory allows no more", len(n.packets), span(ns(n.now)))
		}
		if n.now == until {
			w.look()
			until = w.next()
		}
		progress(len(n.flows)-n.left, len(n.flows))
	}
	w.look()
	if n.left == 0 && n.now <= w.from && w.from > 0 {
		return nil, m.scenario.m.Error("measure", "an earlier from", "nothing is measured: all flows have ended by %s, and measure begins at %s", span(ns(n.now)), span(ns(w.from)))
	}
	return m.result(w), nil
}

// placed is an error of a run at the entry of the first flow that is stuck.
func (m *Simulation) placed(err error) error {
	n := m.network
	for i := range n.flows {
		if f := &n.flows[i]; f.ended < 0 && f.path != none {
			return m.scenario.placed(int(f.group), "ports that hold more, or a longer timeout: e.g. recovery: {timeout: 10ms}", err)
		}
	}
	return err
}

// Now is how far the simulation is, and in how many events.
func (m *Simulation) Now() (ns float64, events uint64) {
	return float64(m.network.now) / 1000, m.network.Events
}

func (m *Simulation) result(w *watch) *Result {
	n := m.network
	r := &Result{
		Format: ResultFormat, Seed: m.scenario.Seed, Mode: m.scenario.Mode, Control: m.scenario.Control.String(), TimeNS: ns(n.now), Events: n.Events, Ended: len(n.flows) - n.left, Partial: n.left > 0,
		Timeouts: n.Timeouts, Moves: n.Moves, QueueP99: n.found.percentile(0.99), Flows: make([]FlowResult, 0, len(n.flows)), FlowsInAll: len(n.flows),
	}
	var slow []sized
	for i := range n.flows {
		f := &n.flows[i]
		one := FlowResult{From: int(f.from), To: int(f.to), Bytes: f.size, Moved: f.acked, BeginNS: ns(f.begins)}
		if f.ended >= 0 {
			one.TookNS = ns(f.ended - f.begins)
			one.Slowdown = float64(f.ended-f.begins) / float64(m.alone(f))
			if f.begins >= w.from && f.begins < w.to {
				slow = append(slow, sized{f.size, one.Slowdown})
			}
		}
		r.Flows = append(r.Flows, one)
	}
	r.Unread = n.unread()
	for i := range n.links {
		if l := &n.links[i]; l.of >= 0 { // ACKs wait at hosts, too
			r.Queue, r.Drops = max(r.Queue, l.mostQueue), r.Drops+l.drops
		}
	}
	r.QueueP99 = min(r.QueueP99, r.Queue) // its steps are 6 % wide
	r.Measured = Measured{FromNS: ns(w.from), ToNS: ns(min(w.to, n.now)), Flows: len(slow)}
	r.Slowdown, r.Sizes = slowdowns(slow)
	r.Workloads = m.workloads()
	w.finish(r)
	return r
}

func ns(ps int64) float64 { return float64(ps) / 1000 }

// alone is how long a flow takes that has the network for itself, in ps: over the fastest of its paths.
func (m *Simulation) alone(f *flow) (ps int64) {
	m.network.eachPath(f, func(links []int32) {
		if one := m.over(f, links); ps == 0 || one < ps {
			ps = one
		}
	})
	return ps
}

// over is how long a flow takes over a path that it has for itself: its packets one behind the other over each link, and the
// acknowledgement of the last one.
func (m *Simulation) over(f *flow, path []int32) (ps int64) {
	n := m.network
	full, ack := n.full(int(f.hops))
	packets := int64((f.size + uint64(n.payload) - 1) / uint64(n.payload))
	last := full - n.payload + int32(f.size-uint64(packets-1)*uint64(n.payload))
	first, most := int64(0), int64(0) // when the last but one has left a link: the first one's time, and the slowest link's for the others
	for _, l := range path {
		link := &n.links[l]
		if packets > 1 {
			first += link.takes(full)
			most = max(most, link.takes(full))
			ps = max(ps, first+(packets-2)*most)
		}
		ps += link.takes(last) + link.delay
		first += link.delay
	}
	for _, l := range path {
		ps += n.links[l^1].takes(ack) + n.links[l^1].delay
	}
	return ps
}

// span writes a time of so many ns with six digits.
func span(ns float64) string {
	if ns >= 1e6 {
		return time.Duration(math.Round(ns)).String()
	}
	return fmt.Sprintf("%.6gµs", ns/1000)
}
