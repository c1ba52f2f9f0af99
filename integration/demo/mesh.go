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

// MeshDwell is how long each load step of the mesh lasts: its rows come each second, and signals are two Δt old.
func MeshDwell(interval time.Duration) time.Duration { return 7*time.Second + 10*interval }

// MeshDuration shows every load step once.
func MeshDuration(interval time.Duration) time.Duration {
	return time.Duration(len(meshSteps)) * MeshDwell(interval)
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
  h1 ─┐                              ┌─ h2
      s1 ── swp3 ── s2 ── swp3 ── s3 ── swp3
  h3 ─┘     100M         50M      └─ k2   80M
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

// WriteText writes the summary of a run for people.
func (r *MeshResult) WriteText(w io.Writer) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "BUSY\tLOAD\tFIRST IN THE TABLE\tLIMITS\tPLACE")
	for _, s := range r.steps {
		switch {
		case s.named != nil:
			fmt.Fprintf(tw, "%s\t%s Mbit/s of %s\tafter %.1f s\t%d of %d pairs\t%s\n", s.port, mega(s.bps), s.from, s.after.Seconds(), s.named.Pairs, r.pairs, s.named.Place)
		case s.port != "" && s.whole:
			fmt.Fprintf(tw, "%s\t%s Mbit/s of %s\tnever\t-\t-\n", s.port, mega(s.bps), s.from)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.verdict())
	return err
}

// verdict is what a run came to, in a line.
func (r *MeshResult) verdict() string {
	var named []time.Duration
	missed := 0
	for _, s := range r.steps {
		if s.named != nil {
			named = append(named, s.after)
		} else if s.port != "" && s.whole {
			missed++
		}
	}
	switch {
	case missed > 0:
		return fmt.Sprintf("Verdict: of %d busy ports the mesh named %d first, with all pairs that pass it.", missed+len(named), len(named))
	case len(named) == 0:
		return "Verdict: too short to judge: no port was busy for long enough."
	}
	return fmt.Sprintf("Verdict: right. Each busy port was first in the table, with all pairs that pass it,\nafter %.1f s at most.", slices.Max(named).Seconds())
}
