package demo

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// view is what a person sees while the demo runs: a table redrawn in place on
// a terminal, a line a second elsewhere.
type view struct {
	w        io.Writer
	terminal bool
	lines    int // drawn by the last redraw
	buf      bytes.Buffer
}

// frame is one state of the view.
type frame struct {
	elapsed, total time.Duration
	step           string
	hops           []Hop
	last           [len(signals)]*Probe
	summary        Summary
	arrived        int
}

// draw shows a frame. Errors are not reported: a broken terminal must not end
// a run that also writes files.
func (v *view) draw(f *frame) {
	v.buf.Reset()
	if !v.terminal {
		v.plainLine(f)
		_, _ = v.w.Write(v.buf.Bytes())
		return
	}
	if v.lines > 0 {
		fmt.Fprintf(&v.buf, "\x1b[%dA\x1b[J", v.lines)
	}
	start := v.buf.Len()
	v.table(f)
	v.lines = bytes.Count(v.buf.Bytes()[start:], []byte("\n"))
	_, _ = v.w.Write(v.buf.Bytes())
}

func (v *view) plainLine(f *frame) {
	fmt.Fprintf(&v.buf, "%6.1fs  %-14s", f.elapsed.Seconds(), f.step)
	for i := range signals {
		if p := f.last[i]; p != nil {
			fmt.Fprintf(&v.buf, "  %s S=%d %s at %s, %.0f ms old", p.Signal, p.S, rangeText(p), p.Locator, p.AgeMS)
		}
	}
	fmt.Fprintf(&v.buf, "  exact %d of %d steady\n", f.summary.Exact, f.arrived-f.summary.Settling)
}

func (v *view) table(f *frame) {
	fmt.Fprintf(&v.buf, "csig demo  %.1f of %.0f s  background load: %s\n\n", f.elapsed.Seconds(), f.total.Seconds(), f.step)
	tw := tabwriter.NewWriter(&v.buf, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  HOP\tCAPACITY\tLOAD\t\tABW\tS(ABW)\tABW/C\tS(ABW/C)")
	for _, h := range f.hops {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\t%s\t%.1f %%\t%s\n", h.Locator, mbps(h.CapacityBPS), mbps(h.LoadBPS),
			bar(h.LoadBPS, h.CapacityBPS), mbps(h.ABWBPS), bucketCell(h, 0, f), float64(h.ABWCPPM)/1e4, bucketCell(h, 1, f))
	}
	_ = tw.Flush() // into a buffer
	fmt.Fprintln(&v.buf, "\n  the receiver reads")
	for i, sig := range signals {
		if p := f.last[i]; p == nil {
			fmt.Fprintf(&v.buf, "    %-5s nothing yet\n", sig)
		} else {
			fmt.Fprintf(&v.buf, "    %-5s S=%-2d  %-22s  bottleneck %-9s  %3.0f ms old\n", sig, p.S, rangeText(p), p.Locator, p.AgeMS)
		}
	}
	s := &f.summary
	fmt.Fprintf(&v.buf, "\n  %d probes: %d exact, %d wrong, %d settling, %d wrong locators\n", f.arrived, s.Exact, f.arrived-s.Exact-s.Settling, s.Settling, s.WrongLocator)
}

// bucketCell marks the hop that the receiver's last tag names.
func bucketCell(h Hop, sig int, f *frame) string {
	mark := ""
	if p := f.last[sig]; p != nil && p.Locator == h.Locator {
		mark = " ◀"
	}
	return fmt.Sprintf("%d%s", h.Signals[sig].Bucket, mark)
}

// bar draws a load in twenty cells.
func bar(load, capacity uint64) string {
	const cells = 20
	n := int(math.Round(cells * min(1, float64(load)/float64(capacity))))
	return string(bytes.Repeat([]byte("█"), n)) + string(bytes.Repeat([]byte("·"), cells-n))
}

func mbps(v uint64) string { return fmt.Sprintf("%.1f Mbit/s", float64(v)/1e6) }

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
	fmt.Fprintf(w, "\n%d probes of %d signals over %v, Δt %v, %d load steps\n", s.Probes, len(signals),
		time.Duration(r.DurationNS).Round(100*time.Millisecond), time.Duration(r.IntervalNS), len(r.Steps))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "  steady\t%d\twhile the load had not changed for 2 Δt\n", steady)
	fmt.Fprintf(tw, "    exact\t%d\tS is the truth of the links' own counters\n", s.Exact)
	fmt.Fprintf(tw, "    within one bucket\t%d\n", s.WithinOne)
	fmt.Fprintf(tw, "    wrong locator\t%d\n", s.WrongLocator)
	fmt.Fprintf(tw, "  settling\t%d\twithin 2 Δt of a load step, counted apart\n", s.Settling)
	fmt.Fprintf(tw, "  lost\t%d\n", s.Lost)
	fmt.Fprintf(tw, "  age of the signal\t%.1f ms\tmedian; p99 %.1f ms, from the end of the counter window to arrival\n", s.AgeP50MS, s.AgeP99MS)
	return tw.Flush()
}
