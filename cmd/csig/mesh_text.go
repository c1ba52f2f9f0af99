package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/quantize"
)

// meshSummary is the hosts and pairs of a mesh in a line.
func meshSummary(s *mesh.Status) string {
	live, pairs := 0, 0
	for i := range s.Hosts {
		if s.Hosts[i].State == mesh.HostLive {
			live++
		}
	}
	var states []string
	for _, state := range mesh.States {
		if n := s.States[state]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, state))
			pairs += n
		}
	}
	return fmt.Sprintf("mesh %s: %d of %s live; %s: %s", s.Profile, live, count(len(s.Hosts), "host"), count(pairs, "pair"), strings.Join(states, ", "))
}

// meshText is what limits the pairs of a mesh, and what is wrong, of at most so many columns, the tables aside.
func meshText(s *mesh.Status, columns int, matrix bool) string {
	var b strings.Builder
	b.WriteString(wrap(meshSummary(s), columns, 2))
	b.WriteString(wrap(fmt.Sprintf("a host is probed every %v or more, a reading is up to %v old", time.Duration(s.IntervalNS), time.Duration(s.OldestNS).Round(100*time.Millisecond)), columns, 2))
	by := map[string]int{}
	for i := range s.Hosts {
		by[s.Hosts[i].Sockets]++
	}
	if n := by[mesh.SocketsOrdinary]; n > 0 {
		b.WriteString(wrap(fmt.Sprintf("csig host run inserts and removes the tags at %d of %s", n, count(len(s.Hosts), "host")), columns, 2))
	}
	for i := range s.Findings {
		f := &s.Findings[i]
		if i == 0 {
			b.WriteByte('\n')
		}
		eg := ""
		if len(f.Example) > 0 {
			eg = ", e.g. " + strings.Join(f.Example, " → ")
		}
		b.WriteString(wrap(fmt.Sprintf("%s: %s (%s, for %v%s)", f.Level, strings.TrimPrefix(f.Place()+": "+f.Reason, ": "), f.Code, s.Time.Sub(f.Since).Round(time.Second), eg), columns, 2))
	}
	b.WriteByte('\n')
	if len(s.Bottlenecks) == 0 {
		b.WriteString("No egress port limits a pair of hosts.\n")
	} else {
		tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "BOTTLENECK\tLIMITS\tSIGNAL\tLEFT\tPLACE\tSINCE\tAGE\tE.G.")
		last := false
		for i := range s.Bottlenecks {
			k := &s.Bottlenecks[i]
			last = last || k.Place == "last hop"
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%v\t%v\t%s\n", strings.Join(k.Ports, " or "), count(k.Pairs, "pair"), k.Signal, k.Range, k.Place,
				s.Time.Sub(k.Since).Round(time.Second), time.Duration(k.AgeNS).Round(10*time.Millisecond), strings.Join(k.Example, " → "))
		}
		_ = tw.Flush()
		if last {
			b.WriteString("\n" + wrap("At a last hop another path does not help: fewer senders, or another place of the work does.", columns, 0))
		}
	}
	if matrix {
		b.WriteByte('\n')
		b.WriteString(meshMatrix(s))
	}
	return b.String()
}

// meshMatrix is every pair of a mesh.
func meshMatrix(s *mesh.Status) string {
	if len(s.Hosts) > mesh.MostMatrix {
		return fmt.Sprintf("There are more than %d hosts: csig mesh why FROM TO shows a pair.\n", mesh.MostMatrix)
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "FROM\tTO\tSTATE\tRTT\tLOSS\tSIGNALS")
	for i := range s.Pairs {
		p := &s.Pairs[i]
		rtt, loss := "-", "-"
		if p.State != mesh.StateUnknown {
			loss = fmt.Sprintf("%.0f%%", 100*p.Loss)
		}
		if p.RTTNS > 0 && p.State != mesh.StateUnreachable {
			rtt = time.Duration(p.RTTNS).Round(time.Microsecond).String()
		}
		var signals []string
		for k := range p.Signals {
			signals = append(signals, readingText(&p.Signals[k]))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", p.From, p.To, p.State, rtt, loss, strings.Join(signals, "; "))
	}
	_ = tw.Flush()
	return b.String()
}

// readingText is what a pair read, "abwc 18–22.4 % at leaf1:up1".
func readingText(r *mesh.PairReading) string {
	switch {
	case r.Note == "stale":
		return r.Signal + " stale"
	case r.Note == "none":
		if sig, err := quantize.ParseSignal(r.Signal); err == nil && sig.Max() {
			return r.Signal + " as sent: no switch has more, or none updates"
		}
		return r.Signal + " as sent: no switch has less, or none updates"
	case len(r.Ports) == 0:
		return fmt.Sprintf("%s %s at locator %d, of no port on the way", r.Signal, r.Range, r.LM)
	}
	return r.Signal + " " + r.Range + " at " + strings.Join(r.Ports, " or ")
}

// longer is how much longer tagged probes take. Less than those without tags is what measuring is off by.
func longer(ns int64) time.Duration { return time.Duration(max(0, ns)).Round(time.Microsecond) }

// mostWhyChanges is how many changes are shown as text.
const mostWhyChanges = 40

// meshWhyText is the way from one host to another.
func meshWhyText(w *mesh.Why) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s → %s: %s\n", w.Pair.From, w.Pair.To, w.Pair.State)
	if len(w.Hops) == 0 {
		b.WriteString("The fleet file has no path between them: does it have all cables?\n")
	} else {
		var hops []string
		for _, hop := range w.Hops {
			hops = append(hops, strings.Join(hop, " or "))
		}
		fmt.Fprintf(&b, "by the fleet file: %s\n", strings.Join(hops, ", then "))
	}
	b.WriteByte('\n')
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "SOURCE PORT\tSTATE\tREADS\tAGE\tTAGGED PROBES ADD")
	for i := range w.Paths {
		p := &w.Paths[i]
		reads, age := p.Signal+" -", "-"
		if p.Reading != nil {
			reads, age = readingText(p.Reading), time.Duration(p.Reading.AgeNS).Round(10*time.Millisecond).String()
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%v\n", p.Port+1, p.State, reads, age, longer(p.ExtraNS))
	}
	_ = tw.Flush()
	changes := w.Changes
	if n := len(changes); n > mostWhyChanges {
		changes = changes[n-mostWhyChanges:]
	}
	fmt.Fprintf(&b, "\nThe last %s of %d, since %s:\n", count(len(changes), "change"), len(w.Changes), w.Since.Format(time.TimeOnly))
	tw = tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for i := range changes {
		c := &changes[i]
		what := c.State
		if c.Read {
			what = readingText(&mesh.PairReading{Signal: c.Signal, Range: c.Range, LM: c.LM, Ports: c.Ports, Note: c.Note})
		}
		fmt.Fprintf(tw, "%s\tsource port %d\t%s\n", c.Time.Format("15:04:05.000"), c.Port+1, what)
	}
	_ = tw.Flush()
	return b.String()
}
