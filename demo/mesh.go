package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/hosts/mesh"
)

// meshSteps are the loads of csig demo --mesh: first none to speak of, then those that make one hop busy.
var meshSteps = append([]step{{"no link is busy", []uint64{150_000, 150_000, 200_000}}}, steps[:3]...)

// meshLasts is how long a load step lasts: the first one until the table was seen empty, the others until the
// mesh has had the time to name the port. Its rows come each second, and signals are two Δt old.
func meshLasts(n int, interval time.Duration) time.Duration {
	if n%len(meshSteps) == 0 {
		return 3 * time.Second
	}
	return 7*time.Second + 10*interval
}

// meshPatience is how long a step lasts at most until the mesh has named the port, where each step is shown once: a
// busy machine is late.
const meshPatience = 30 * time.Second

// meshDuration shows every load step once.
func meshDuration(interval time.Duration) (d time.Duration) {
	for n := range meshSteps {
		d += meshLasts(n, interval)
	}
	return d
}

// meshStep is a load step, and when the mesh named the port that is busy in it.
type meshStep struct {
	began time.Time
	port  string // DEVICE:PORT; "" in a step without one
	from  string // the host that loads it
	bps   uint64 // of the load
	pairs int    // that pass the port
	whole bool   // the step was not cut short

	named *mesh.Bottleneck // as it was first in the table, with all its pairs; nil: not yet
	after time.Duration    // that it was
}

// see takes what the mesh knows at a time.
func (s *meshStep) see(at time.Time, now *mesh.Status) {
	if s.named != nil || s.port == "" || len(now.Bottlenecks) == 0 {
		return
	}
	if b := &now.Bottlenecks[0]; slices.Equal(b.Ports, []string{s.port}) && b.Pairs == s.pairs {
		s.named, s.after = b, at.Sub(s.began)
	}
}

// flow is what loads the fabric, in words.
func (s *meshStep) flow() string {
	if s.port == "" {
		return "no link is busy"
	}
	return fmt.Sprintf("%s sends %s Mbit/s across %s", s.from, mega(s.bps), s.port)
}

// meshFrame is what a person sees of the mesh at one moment.
type meshFrame struct {
	elapsed, total time.Duration
	at             time.Time
	step           *meshStep
	status         *mesh.Status
}

// line is a frame where there is no terminal to redraw.
func (f *meshFrame) line(w io.Writer) {
	fmt.Fprintf(w, "%6.1fs  %s", f.elapsed.Seconds(), f.step.flow())
	if len(f.status.Bottlenecks) == 0 {
		fmt.Fprintln(w, ": no port limits a pair")
		return
	}
	last := ""
	for i := range f.status.Bottlenecks { // a port's signals side by side, in the order of the table
		b := &f.status.Bottlenecks[i]
		if ports := strings.Join(b.Ports, " or "); ports != last {
			last = ports
			fmt.Fprintf(w, "%s %s limits %d of %d pairs (%s)", map[bool]string{true: ":", false: ";"}[i == 0], ports, b.Pairs, pairsOf(f.status), b.Place)
		}
		fmt.Fprintf(w, ", %s %s", b.Signal, b.Range)
	}
	fmt.Fprintln(w)
}

// pairsOf is how many pairs of hosts a mesh has.
func pairsOf(s *mesh.Status) (n int) {
	for _, k := range s.States {
		n += k
	}
	return n
}

// meshPicture is the fabric. s2 has no host of the mesh: its port is in the core.
const meshPicture = `
  h1 ── s1 ── swp3 ── s2 ── swp3 ── s3 ── swp3 ── h2
  h3 ───┘     100M          50M     └─ k2  80M
`

// table writes what fits into 80 columns; text is that of csig mesh status.
func (f *meshFrame) table(w io.Writer, text string) {
	fmt.Fprintf(w, "csig demo --mesh  %.1f of %.0f s\n%s\n", f.elapsed.Seconds(), f.total.Seconds(), meshPicture)
	fmt.Fprintf(w, "For %.1f s: %s", f.at.Sub(f.step.began).Seconds(), f.step.flow())
	if f.step.named != nil {
		fmt.Fprintf(w, ", named first after %.1f s", f.step.after.Seconds())
	}
	fmt.Fprintf(w, "\n\n$ csig mesh status\n%s", text)
}

// MeshResult is what a run of the mesh came to.
type MeshResult struct {
	steps []*meshStep
	pairs int // of hosts
}

// judged are the steps that a port was busy in, for long enough or until it was named.
func (r *MeshResult) judged() (out []*meshStep) {
	for _, s := range r.steps {
		if s.port != "" && (s.named != nil || s.whole) {
			out = append(out, s)
		}
	}
	return out
}

// WriteText writes the summary of a run for people.
func (r *MeshResult) WriteText(w io.Writer) error {
	if judged := r.judged(); len(judged) > 0 {
		tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "\nBUSY PORT\tLOAD\tFIRST IN THE TABLE\tLIMITS\tPLACE")
		for _, s := range judged {
			after, limits, place := "never", "-", "-"
			if s.named != nil {
				after, limits, place = fmt.Sprintf("after %.1f s", s.after.Seconds()), fmt.Sprintf("%d of %d pairs", s.named.Pairs, r.pairs), s.named.Place
			}
			fmt.Fprintf(tw, "%s\t%s Mbit/s of %s\t%s\t%s\t%s\n", s.port, mega(s.bps), s.from, after, limits, place)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.verdict())
	return err
}

// verdict is what a run came to, in a line or two.
func (r *MeshResult) verdict() string {
	judged, named := r.judged(), 0
	var longest time.Duration
	for _, s := range judged {
		if s.named != nil {
			named++
			longest = max(longest, s.after)
		}
	}
	switch {
	case len(judged) == 0:
		return "Verdict: too short to judge: no port was busy for long enough."
	case named < len(judged):
		return fmt.Sprintf("Verdict: of %d busy ports %d came first in the table, with all pairs that pass them.", len(judged), named)
	}
	return fmt.Sprintf("Verdict: right. Each busy port came first in the table, with all pairs that pass it,\nafter %.1f s at most.", longest.Seconds())
}
