package trace

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/quantize"
)

var bars = [...]string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

// WriteText draws the chart for a terminal of so many columns (at least 40): for
// each port the highest load as a bar, and under it the worst bucket of each signal
// as one digit, 0 to 9 and a to v.
func (c *Chart) WriteText(w io.Writer, columns int) error {
	out := bufio.NewWriter(w)
	label := 0
	for i := range c.ports {
		label = max(label, utf8.RuneCountInString(c.ports[i].name))
	}
	for _, t := range c.tables {
		label = max(label, len(t.Signal.String()))
	}
	n := max(columns, 40) - label - 2
	n = max(n, 8)
	var doubt, lost, down bool
	for i := range c.ports {
		p := &c.ports[i]
		spans := c.resample(p, n)
		fmt.Fprintf(out, "%-*s  ", label, p.name)
		for j := range spans {
			s := &spans[j]
			doubt, lost, down = doubt || s.doubtful, lost || s.lost, down || s.down
			fmt.Fprint(out, loadMark(s))
		}
		fmt.Fprintf(out, "\n")
		for k, t := range c.tables {
			fmt.Fprintf(out, "%-*s  ", label, t.Signal)
			for j := range spans {
				fmt.Fprint(out, bucketMark(&spans[j], k))
			}
			fmt.Fprintf(out, "\n")
		}
		fmt.Fprintf(out, "%-*s  %s\n", label, "", peakText(p.spans))
		if i < len(c.ports)-1 {
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintf(out, "\n%s, %s to %s (%s)\n", c.device, stamp(c.start), stamp(c.end), c.end.Sub(c.start).Round(time.Millisecond))
	legend := []string{"load ▁ to █ of the capacity, above it ^", "bucket 0 to v (31)"}
	if doubt {
		legend = append(legend, "~ doubtful bucket: Δt is too uncertain")
	}
	if lost {
		legend = append(legend, "! nothing read, or counters stuck")
	}
	if down {
		legend = append(legend, "_ link down")
	}
	fmt.Fprintf(out, "%s\n", strings.Join(legend, "; "))
	return out.Flush()
}

// peakText is the highest load that was measured, or why there is none.
func peakText(spans []span) string {
	var peak uint32
	measured, lost, down := false, false, false
	for i := range spans {
		s := &spans[i]
		if s.known && !s.down {
			measured, peak = true, max(peak, s.used)
		}
		lost, down = lost || s.lost, down || s.down
	}
	switch {
	case measured:
		return "peak load " + percent(peak) + " of the capacity"
	case down:
		return "no load: the link was down"
	case lost:
		return "no load: nothing could be read"
	}
	return "no load: no two readings to compare"
}

func loadMark(s *span) string {
	switch {
	case s.lost:
		return "!"
	case !s.known:
		return " "
	case s.down:
		return "_"
	case s.used > ppmWhole:
		return "^"
	}
	return bars[min(int(s.used)*len(bars)/ppmWhole, len(bars)-1)]
}

func bucketMark(s *span, k int) string {
	switch {
	case !s.known:
		return " "
	case s.doubtful:
		return "~"
	}
	return "0123456789abcdefghijklmnopqrstuv"[s.s[k]%quantize.NumBuckets:][:1]
}

func percent(ppm uint32) string {
	return fmt.Sprintf("%d.%d %%", ppm/10_000, ppm/1000%10)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }
