package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/hosts/tcp"
)

// FlowsFormat names the shape of FlowsResult.
const FlowsFormat = "csig.demo-flows/v1"

// flowSteps are the loads of csig demo --flows: what they leave to a flow opens and closes, and the port that limits it is
// another one each time.
var flowSteps = []step{
	{"hop 1 is busy", []uint64{780_000, 100_000, 100_000}},
	{"none is busy", []uint64{100_000, 100_000, 100_000}},
	{"hop 2 is busy", []uint64{100_000, 800_000, 100_000}},
	{"none is busy", []uint64{100_000, 100_000, 100_000}},
}

const (
	flowDelay  = 10 * time.Millisecond // of the hosts' cable, each way
	flowMTU    = 1400                  // of the hosts' route: a tag has room
	flowStep   = 7 * time.Second       // how long a load lasts
	flowSample = 50 * time.Millisecond
	flowWindow = 300 * time.Millisecond // over which a flow's rate is taken
	flowEnough = 0.9                    // of the room
)

// The two flows, and what each has.
const (
	withSignal = iota
	without
	flowCount
)

var flowNames = [flowCount]string{"with the signal", "without"}

// FlowsResult is what a run of csig demo --flows came to.
type FlowsResult struct {
	Format     string     `json:"format"`
	Version    string     `json:"version"`
	Started    time.Time  `json:"started"`
	IntervalNS int64      `json:"interval_ns"` // averaging window Δt
	RTTNS      int64      `json:"rtt_ns"`      // of the path without queues
	Steps      []FlowStep `json:"steps"`
}

// FlowStep is a load and what the flows made of what it left.
type FlowStep struct {
	Time       time.Time `json:"time"`
	DurationNS int64     `json:"duration_ns"`
	LoadsBPS   []uint64  `json:"loads_bps"` // on each hop's link
	Port       string    `json:"port"`      // the one that has the least left for a flow
	RoomBPS    uint64    `json:"room_bps"`  // that it has
	Opens      bool      `json:"opens"`     // it is more than before
	Flows      []FlowUse `json:"flows"`     // with the signal, without

	NamedNS *int64 `json:"named_ns"` // until csig host status named the port; null: it did not
}

// FlowUse is one flow in a step.
type FlowUse struct {
	Name    string `json:"name"`
	Bits    uint64 `json:"bits"`    // that its segments took of the links, those that arrived
	TookNS  *int64 `json:"took_ns"` // until it had 90 % of the room; null: it never had
	Retrans uint32 `json:"retrans"` // segments that it sent again
	Control string `json:"control"` // congestion control, at the end of the step

	window []flowPoint
}

// flowPoint is how much has arrived by a time.
type flowPoint struct {
	at   time.Time
	bits uint64
}

// sample takes what has arrived of a flow since the step began.
func (u *FlowUse) sample(began, now time.Time, bits, room uint64) {
	u.Bits = bits
	u.window = append(u.window, flowPoint{now, bits})
	for len(u.window) > 2 && now.Sub(u.window[1].at) >= flowWindow {
		u.window = u.window[1:]
	}
	if u.TookNS == nil && now.Sub(u.window[0].at) >= flowWindow && float64(u.rate()) >= flowEnough*float64(room) {
		took := now.Sub(began).Nanoseconds()
		u.TookNS = &took
	}
}

// rate is what a flow takes of the links now, in bit/s.
func (u *FlowUse) rate() uint64 {
	if len(u.window) < 2 {
		return 0
	}
	first, last := u.window[0], u.window[len(u.window)-1]
	return uint64(float64(last.bits-first.bits) / last.at.Sub(first.at).Seconds())
}

// room is the port that has the least left under loads, and how much.
func (p *path) room(loads []uint64) (port string, bps uint64) {
	for i, h := range p.hops {
		if left := h.port.Speed - min(loads[i], h.port.Speed); i == 0 || left < bps {
			port, bps = h.name, left
		}
	}
	return port, bps
}

// share is how much of a step's room a flow has had.
func (s *FlowStep) share(flow int) float64 {
	return float64(s.Flows[flow].Bits) / (float64(s.RoomBPS) * time.Duration(s.DurationNS).Seconds())
}

// reading is what a status tells of the flow's head-room: its abw.
func reading(s *tcp.Status) (r *tcp.Reading, flow *tcp.Flow) {
	if s == nil || len(s.Flows) == 0 {
		return nil, nil
	}
	flow = &s.Flows[0]
	if i := slices.IndexFunc(flow.Learned, func(r tcp.Reading) bool { return r.Signal == signals[0].String() }); i >= 0 {
		r = &flow.Learned[i]
	}
	return r, flow
}

// names reports whether a flow's reading names a port.
func names(s *tcp.Status, port string) bool {
	r, _ := reading(s)
	return r != nil && slices.Equal(r.Ports, []string{port})
}

// flowFrame is what a person sees of the flows at one moment.
type flowFrame struct {
	elapsed, total time.Duration
	step           *FlowStep
	hops           []*hop
	status         *tcp.Status
}

// line is a frame where there is no terminal to redraw.
func (f *flowFrame) line(w io.Writer) {
	fmt.Fprintf(w, "%6.1fs  %s leaves %s Mbit/s", f.elapsed.Seconds(), f.step.Port, mega(f.step.RoomBPS))
	for i := range f.step.Flows {
		fmt.Fprintf(w, "%s %s %s", map[bool]string{true: ":", false: ","}[i == 0], flowNames[i], mega(f.step.Flows[i].rate()))
	}
	if r, _ := reading(f.status); r != nil {
		fmt.Fprintf(w, "; it reads %s at %s", r.Range, strings.Join(r.Ports, " or "))
	}
	fmt.Fprintln(w)
}

// table writes what fits into 80 columns.
func (f *flowFrame) table(w io.Writer) {
	fmt.Fprintf(w, "csig demo --flows  %.1f of %.0f s\n\n", f.elapsed.Seconds(), f.total.Seconds())
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  HOP\tCAPACITY\tLOAD OF OTHERS\t\tLEFT")
	for i, h := range f.hops {
		load, mark := f.step.LoadsBPS[i], ""
		if h.name == f.step.Port {
			mark = " ◀ limits a flow"
		}
		fmt.Fprintf(tw, "  %s\t%sM\t%sM\t%s\t%sM%s\n", h.name, mega(h.port.Speed), mega(load), bar(load, h.port.Speed), mega(h.port.Speed-load), mark)
	}
	_ = tw.Flush() // into a buffer
	fmt.Fprintln(w, "  (M: Mbit/s)\n\n  a TCP flow over the same path, with the same loads")
	tw = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i := range f.step.Flows {
		u := &f.step.Flows[i]
		fmt.Fprintf(tw, "    %s\t%s\t%sM\tunder %s\n", flowNames[i], bar(u.rate(), f.step.RoomBPS), mega(u.rate()), u.Control)
	}
	_ = tw.Flush()
	fmt.Fprintln(w, "    (a full bar is all that is left)\n\n  the one with the signal reads")
	r, flow := reading(f.status)
	if r == nil {
		fmt.Fprintln(w, "    nothing yet")
		return
	}
	fmt.Fprintf(w, "    %s %s, bottleneck %s, %d ms old\n    %s\n", r.Signal, r.Range, strings.Join(r.Ports, " or "), time.Duration(r.AgeNS).Milliseconds(), flow.Why)
}

// WriteText writes the summary of a run for people.
func (r *FlowsResult) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "\nLIMITED BY\tLEFT\tNAMED\tWITH THE SIGNAL\t\tWITHOUT\t\n")
	for i := range r.Steps {
		s := &r.Steps[i]
		named := "no"
		if s.NamedNS != nil {
			named = fmt.Sprintf("after %.1f s", time.Duration(*s.NamedNS).Seconds())
		}
		fmt.Fprintf(tw, "%s\t%s Mbit/s\t%s", s.Port, mega(s.RoomBPS), named)
		for j := range s.Flows {
			fmt.Fprintf(tw, "\t%.0f %% of it\t%s", 100*s.share(j), s.reached(j))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.verdict())
	return err
}

// reached is when a flow had most of the room, in words.
func (s *FlowStep) reached(flow int) string {
	switch took := s.Flows[flow].TookNS; {
	case !s.Opens:
		return ""
	case took == nil:
		return "90 % never"
	default:
		return fmt.Sprintf("90 %% after %.1f s", time.Duration(*took).Seconds())
	}
}

// verdict is what a run came to, in a line or two.
func (r *FlowsResult) verdict() string {
	var had [flowCount]float64
	var left float64
	var again [flowCount]uint32
	named := 0
	for i := range r.Steps {
		s := &r.Steps[i]
		left += float64(s.RoomBPS) * time.Duration(s.DurationNS).Seconds()
		if s.NamedNS != nil {
			named++
		}
		for j := range s.Flows {
			had[j] += float64(s.Flows[j].Bits)
			again[j] += s.Flows[j].Retrans
		}
	}
	if left == 0 {
		return "Verdict: too short to judge."
	}
	return fmt.Sprintf("Verdict: with the signal the flow had %.0f %% of what was left, without it %.0f %%\n(sent again: %d and %d segments). It read the port that limited it in %d of %d loads.",
		100*had[withSignal]/left, 100*had[without]/left, again[withSignal], again[without], named, len(r.Steps))
}
