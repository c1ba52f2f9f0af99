package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteText writes tables for people: of few flows each, of more their sizes.
func (r *Result) WriteText(w io.Writer) error {
	const most = 20
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Flows) <= most {
		fmt.Fprintln(t, "FROM\tTO\tBYTES\tBEGINS\tTOOK\tSLOWDOWN")
		for i := range r.Flows {
			f := &r.Flows[i]
			took, slow := "not ended", "-"
			if f.TookNS > 0 {
				took, slow = span(f.TookNS), fmt.Sprintf("%.3f", f.Slowdown)
			}
			fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\n", f.From, f.To, f.Bytes, span(f.BeginNS), took, slow)
		}
	} else {
		fmt.Fprintln(t, "BYTES\tFLOWS\tSLOWDOWN P50\tP95\tP99\tP100")
		for i := range r.Sizes {
			s := &r.Sizes[i]
			name := fmt.Sprintf("up to %d", s.UpTo)
			if s.UpTo == 0 {
				name = "more"
			}
			fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\n", name, s.Flows, s.P50, s.P95, s.P99, s.P100)
		}
		fmt.Fprintf(t, "all\t%d\t%.3f\t%.3f\t%.3f\t%.3f\n", r.Measured.Flows, r.Slowdown.P50, r.Slowdown.P95, r.Slowdown.P99, r.Slowdown.P100)
	}
	fmt.Fprintln(t, "\nWORKLOAD\tTIMES\tENDED\tTOOK P50\tP99\tMOST")
	for i := range r.Workloads {
		l := &r.Workloads[i]
		if l.Ended == 0 {
			fmt.Fprintf(t, "%s\t%d\t0\t%s\t-\t-\n", l.Name, l.Times, map[bool]string{false: "not ended", true: "no flows"}[l.Times == 0])
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", l.Name, l.Times, l.Ended, span(l.P50NS), span(l.P99NS), span(l.MostNS))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nLinks to hosts are used to %.1f %% (most: %.1f), links between switches to %.1f %% (%.1f).\n", 100*r.Hosts.Mean, 100*r.Hosts.Most, 100*r.Core.Mean, 100*r.Core.Most)
	fmt.Fprintf(w, "Of paths of flows %.1f %% are unclaimed. Jain's index is %.3f", 100*r.Unclaimed, r.Jain)
	if r.Converged > 0 {
		fmt.Fprintf(w, "; %s after the last flow began shares were equal", span(r.Converged))
	}
	queue, partial, packets := "", "", ""
	if r.Mode != "flow" { // which has none
		queue = fmt.Sprintf("The queue that a packet finds has at most %d bytes at p99; the longest one had %d.\n", r.QueueP99, r.Queue)
		packets = fmt.Sprintf(" %d packets were dropped; %d timeouts;", r.Drops, r.Timeouts)
	}
	if r.Unread > 0 {
		partial = fmt.Sprintf("Switches whose first interval was not over, or whose first rules were not written: %d. They told senders of an idle network: simulate for longer, or with a shorter interval.\n", r.Unread)
	}
	if r.Measured.Flows == 0 {
		partial += "No flow that began within measure has ended: there are no slowdowns.\n"
	}
	if r.Partial {
		partial += "Partial: it was ended before all flows had. "
	}
	if r.Timeouts > 0 && r.Drops == 0 {
		partial = "No packet was dropped: the timeouts are shorter than a round trip with its queues, and what was on its way was sent twice (recovery: {timeout: …}).\n" + partial
	}
	_, err := fmt.Fprintf(w, ".\n%sControl: %s.\n%s%d of %d flows ended in %s;%s %d events.\n", queue, r.Control, partial, r.Ended, r.FlowsInAll, span(r.TimeNS), packets, r.Events)
	return err
}
