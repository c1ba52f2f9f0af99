package demo

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// settle is how many Δt after a load step its samples are counted apart.
const settle = 2

// frame is what a person sees while the demo runs, at one moment.
type frame struct {
	elapsed, total time.Duration
	step           string
	hops           []Hop
	last           [len(signals)]*Probe
	summary        Summary
	arrived        int
}

// line is a frame where there is no terminal to redraw.
func (f *frame) line(w io.Writer) {
	fmt.Fprintf(w, "%6.1fs  %-14s", f.elapsed.Seconds(), f.step)
	for i := range signals {
		if p := f.last[i]; p != nil {
			fmt.Fprintf(w, "  %s S=%d %s at %s, %s ms old", p.Signal, p.S, rangeText(p), p.Locator, ageText(p.Age))
		}
	}
	fmt.Fprintf(w, "  exact %d of %d steady\n", f.summary.Exact, f.arrived-f.summary.Settling-f.summary.Unjudged)
}

// table writes what fits into 80 columns: lines of 79 at most, as long as loads
// are below 10 Gbit/s and probes below a million.
func (f *frame) table(w io.Writer) {
	fmt.Fprintf(w, "csig demo  %.1f of %.0f s  background load: %s\n\n", f.elapsed.Seconds(), f.total.Seconds(), f.step)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  HOP\tCAPACITY\tLOAD\t\tABW\tS(ABW)\tABW/C\tS(ABW/C)")
	for _, h := range f.hops {
		fmt.Fprintf(tw, "  %s\t%sM\t%sM\t%s\t%sM\t%s\t%.1f %%\t%s\n", h.Locator, mega(h.CapacityBPS), mega(h.LoadBPS),
			bar(h.LoadBPS, h.CapacityBPS), mega(h.ABWBPS), bucketCell(h, 0, f), float64(h.ABWCPPM)/1e4, bucketCell(h, 1, f))
	}
	_ = tw.Flush() // into a buffer
	fmt.Fprintln(w, "  (M: Mbit/s)")
	for i := range f.summary.Kinds {
		f.kind(w, &f.summary.Kinds[i])
	}
	fmt.Fprintln(w, "\n  the receiver reads")
	for i, sig := range signals {
		if p := f.last[i]; p == nil {
			fmt.Fprintf(w, "    %-5s nothing yet\n", sig)
		} else {
			fmt.Fprintf(w, "    %-5s S=%-2d  %-19s  bottleneck %-9s  %3s ms old\n", sig, p.S, rangeText(p), p.Locator, ageText(p.Age))
		}
	}
	s := &f.summary
	wrong := f.arrived - s.Exact - s.Settling - s.Unjudged
	fmt.Fprintf(w, "\n  %d probes: %d exact, %d wrong, %d settling", f.arrived, s.Exact, wrong, s.Settling)
	if s.Unjudged > 0 {
		fmt.Fprintf(w, ", %d unjudged", s.Unjudged)
	}
	fmt.Fprintf(w, "\n  %d wrong locators\n", s.WrongLocator)
}

// kind lists the hops of one kind, where there are native ones.
func (f *frame) kind(w io.Writer, k *KindSummary) {
	if f.summary.of(Native) == nil {
		return
	}
	fmt.Fprintf(w, "  %s, Δt %v:", k.Kind, time.Duration(k.IntervalNS))
	for i := range f.hops {
		if f.hops[i].Kind == k.Kind {
			fmt.Fprintf(w, " %s", f.hops[i].Locator)
		}
	}
	fmt.Fprintln(w)
}

// ageText is an age in ms: native hops' are below one.
func ageText(age time.Duration) string {
	if ms(age) < 9.95 {
		return fmt.Sprintf("%.1f", ms(age))
	}
	return fmt.Sprintf("%.0f", ms(age))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// bucketCell marks the hop that the receiver's last tag names.
func bucketCell(h Hop, sig int, f *frame) string {
	mark := ""
	if p := f.last[sig]; p != nil && p.Locator == h.Locator {
		mark = " ◀"
	}
	return fmt.Sprintf("%d%s", h.Signals[sig].Bucket, mark)
}

// bar draws a load in sixteen cells.
func bar(load, capacity uint64) string {
	const cells = 16
	n := int(math.Round(cells * min(1, float64(load)/float64(capacity))))
	return string(bytes.Repeat([]byte("█"), n)) + string(bytes.Repeat([]byte("·"), cells-n))
}

// mega is a rate in Mbit/s.
func mega(bps uint64) string { return fmt.Sprintf("%.1f", float64(bps)/1e6) }

// rangeText is the range a probe's S stands for.
func rangeText(p *Probe) string {
	if p.Signal == signals[0].String() {
		return fmt.Sprintf("%.3g–%.3g Mbit/s", float64(p.Low)/1e6, float64(p.High)/1e6)
	}
	return fmt.Sprintf("%.3g–%.3g %%", float64(p.Low)/1e4, float64(p.High)/1e4)
}

// WriteText writes the summary of a run for people.
func (r *Result) WriteText(w io.Writer) error {
	s := &r.Summary
	steady := s.Exact + s.Wrong()
	fmt.Fprintf(w, "\n%d probes of %d signals over %v", s.Probes, len(signals), time.Duration(r.DurationNS).Round(100*time.Millisecond))
	if s.of(Native) == nil { // else each kind of hop has its own
		fmt.Fprintf(w, ", Δt %v", time.Duration(r.IntervalNS))
	}
	fmt.Fprintf(w, ", %d load steps\n", len(r.Steps))
	settled := settle * time.Duration(r.IntervalNS)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "  steady\t%d\twhile the load had not changed for %v\n", steady, settled)
	fmt.Fprintf(tw, "    exact\t%d\tS is the truth of the links' own counters\n", s.Exact)
	fmt.Fprintf(tw, "    within one bucket\t%d\n", s.WithinOne)
	fmt.Fprintf(tw, "    wrong locator\t%d\tthe tag names a hop that is not the bottleneck\n", s.WrongLocator)
	fmt.Fprintf(tw, "  settling\t%d\twithin %v of a load step, counted apart\n", s.Settling, settled)
	if s.Unjudged > 0 {
		fmt.Fprintf(tw, "  unjudged\t%d\tS was in doubt, or an agent was kept from running\n", s.Unjudged)
	}
	fmt.Fprintf(tw, "  lost\t%d\n", s.Lost)
	fmt.Fprintf(tw, "  age of the signal\t%.1f ms\tmedian, p99 %.1f ms: end of the window to arrival\n", ms(s.AgeP50), ms(s.AgeP99))
	if s.of(Native) != nil {
		for i := range s.Kinds {
			k := &s.Kinds[i]
			fmt.Fprintf(tw, "  S by %s\t%.2f ms\tmedian, p99 %.2f ms; %d exact, %d wrong; Δt %v\n", kindNames[k.Kind], ms(k.AgeP50), ms(k.AgeP99), k.Exact, k.Wrong, time.Duration(k.IntervalNS))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", s.verdict())
	return err
}

// verdict is what a run came to, in a line.
func (s *Summary) verdict() string {
	steady := s.Exact + s.Wrong()
	switch {
	case steady == 0:
		return "Verdict: too short to judge: the load never stood still for long enough."
	case s.Wrong() == 0 && s.WrongLocator == 0:
		return fmt.Sprintf("Verdict: right. All %d steady probes named the bottleneck and its bandwidth.", steady)
	}
	return fmt.Sprintf("Verdict: of %d steady probes %d had a wrong bandwidth, %d a wrong name\n(csig demo --json lists them).", steady, s.Wrong(), s.WrongLocator)
}
