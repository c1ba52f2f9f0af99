package simulate

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/cc"
)

// ResultFormat is that of results as JSON.
const ResultFormat = "csig.simulation/v1"

// Result is what came out. Times are ns.
type Result struct {
	Format  string       `json:"format"`
	TimeNS  float64      `json:"time_ns"` // simulated
	Events  uint64       `json:"events"`
	Ended   int          `json:"ended"`   // flows
	Partial bool         `json:"partial"` // it was ended before all flows had
	Flows   []FlowResult `json:"flows"`
	Queue   uint64       `json:"longest_queue_bytes"`
	Drops   uint64       `json:"drops"`
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

// step is how much is simulated between two looks at whether it is to end.
const step = cc.Second / 10_000

// Run runs until all flows have ended, or ctx ends: the result is partial then. progress is called now and then with how many
// flows have ended.
func (m *Simulation) Run(ctx context.Context, progress func(ended, all int)) (*Result, error) {
	n := m.network
	var err error
	for until := int64(step); n.left > 0 && err == nil && ctx.Err() == nil; until += step {
		err = n.Run(until)
		if len(n.heap.events) > 0 {
			until = max(until, n.heap.events[0].at)
		}
		progress(len(n.flows)-n.left, len(n.flows))
	}
	return m.result(), err
}

func (m *Simulation) result() *Result {
	n := m.network
	r := &Result{Format: ResultFormat, TimeNS: float64(n.now) / 1000, Events: n.Events, Ended: len(n.flows) - n.left, Partial: n.left > 0, Flows: make([]FlowResult, 0, len(n.flows))}
	for i := range n.flows {
		f := &n.flows[i]
		one := FlowResult{From: int(f.from), To: int(f.to), Bytes: f.size, Moved: f.acked, BeginNS: float64(f.begins) / 1000}
		if f.ended >= 0 {
			one.TookNS = float64(f.ended-f.begins) / 1000
			one.Slowdown = float64(f.ended-f.begins) / float64(m.alone(f))
		}
		r.Flows = append(r.Flows, one)
	}
	for i := range n.links {
		r.Queue, r.Drops = max(r.Queue, n.links[i].mostQueue), r.Drops+n.links[i].drops
	}
	return r
}

// alone is how long a flow takes that has the network for itself, in ps: its packets one behind the other over each link of
// its path, and the acknowledgement of the last one.
func (m *Simulation) alone(f *flow) (ps int64) {
	n := m.network
	full, ack := n.full(int(f.hops))
	packets := int64((f.size + uint64(n.payload) - 1) / uint64(n.payload))
	last := full - n.payload + int32(f.size-uint64(packets-1)*uint64(n.payload))
	first, most := int64(0), int64(0) // when the last but one has left a link: the first one's time, and the slowest link's for the others
	for _, l := range n.route[f.path : f.path+f.hops] {
		link := &n.links[l]
		if packets > 1 {
			first += link.takes(full)
			most = max(most, link.takes(full))
			ps = max(ps, first+(packets-2)*most)
		}
		ps += link.takes(last) + link.delay
		first += link.delay
	}
	for _, l := range n.route[f.back : f.back+f.hops] {
		ps += n.links[l].takes(ack) + n.links[l].delay
	}
	return ps
}

// WriteText writes a table of the first flows, and the whole in a line.
func (r *Result) WriteText(w io.Writer) error {
	const most = 20
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FROM\tTO\tBYTES\tBEGINS\tTOOK\tSLOWDOWN")
	for i := range min(len(r.Flows), most) {
		f := &r.Flows[i]
		took, slow := "not ended", "-"
		if f.TookNS > 0 {
			took, slow = span(f.TookNS), fmt.Sprintf("%.3f", f.Slowdown)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\n", f.From, f.To, f.Bytes, span(f.BeginNS), took, slow)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(r.Flows) - most; more > 0 {
		fmt.Fprintf(w, "and %d more flows: --json has them\n", more)
	}
	partial := ""
	if r.Partial {
		partial = "Partial: it was ended before all flows had. "
	}
	_, err := fmt.Fprintf(w, "\n%s%d of %d flows ended in %s; the longest queue had %d bytes; %d packets were dropped; %d events.\n", partial, r.Ended, len(r.Flows), span(r.TimeNS), r.Queue, r.Drops, r.Events)
	return err
}

// span writes a time of so many ns with six digits.
func span(ns float64) string {
	if ns >= 1e6 {
		return time.Duration(math.Round(ns)).String()
	}
	return fmt.Sprintf("%.6gµs", ns/1000)
}
