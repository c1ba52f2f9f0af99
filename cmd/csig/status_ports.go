package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// trouble orders the states of ports, the worst first.
var trouble = []string{
	api.StateRefused, api.StateLost, api.StateStale, api.StateUnknown, api.StateDown, api.StateWaiting,
	api.StateLive, api.StatePassthrough, api.StateStrip,
}

// troubleOf is a state's place in that order; one that this csig does not know is first.
func troubleOf(state string) int { return slices.Index(trouble, state) }

// portSummary counts the ports by state, the worst first, and names the one with the least
// bandwidth to spare; "" without ports.
func portSummary(list []api.Port) string {
	counts := map[string]int{}
	var least *api.Port
	for i := range list {
		p := &list[i]
		counts[p.State]++
		if p.State == api.StateLive && p.WindowEnd != nil && (least == nil || p.ABWCPPM < least.ABWCPPM) {
			least = p
		}
	}
	if len(list) == 0 {
		return ""
	}
	states := make([]string, 0, len(counts))
	for state := range counts {
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b string) int {
		return cmp.Or(cmp.Compare(troubleOf(a), troubleOf(b)), cmp.Compare(a, b))
	})
	for i, state := range states {
		states[i] = fmt.Sprintf("%d %s", counts[state], state)
	}
	text := ports(len(list)) + ": " + strings.Join(states, ", ")
	if least != nil {
		text += fmt.Sprintf("; least ABW/C %.1f%% at %s", float64(least.ABWCPPM)/1e4, least.Port)
	}
	return text
}

// worstFirst is the ports by state; those of one state stay in order.
func worstFirst(list []api.Port) []api.Port {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b api.Port) int { return cmp.Compare(troubleOf(a.State), troubleOf(b.State)) })
	return list
}

// portTable is the head and at most so many rows of the table of ports, those that are not
// live first, and how many are left; 0 rows are all. A narrow one has less of each port.
func portTable(list []api.Port, narrow bool, rows int) (lines []string, left int) {
	list = worstFirst(list)
	if rows > 0 && len(list) > rows {
		list, left = list[:rows], len(list)-rows
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	if narrow {
		fmt.Fprintln(tw, "PORT\tSTATE\tABW\tAGE\tSIGNALS")
	} else {
		fmt.Fprintln(tw, "PORT\tSTATE\tCAPACITY\tLOAD\tABW\tABW/C\tSIGNALS\tAGE")
	}
	for _, p := range list {
		var sig []string
		for _, g := range p.Signals {
			own := ""
			if g.Computed != nil && *g.Computed != g.Bucket {
				own = fmt.Sprintf(", counters=%d", *g.Computed)
			}
			sig = append(sig, fmt.Sprintf("%s=%d(%s%s)", g.Signal, g.Bucket, g.Locator, own))
		}
		capacity, load, abw, abwc, age := "-", "-", "-", "-", "-"
		if p.WindowEnd != nil {
			if load, abw = rate(p.LoadBPS), rate(p.ABWBPS); p.CapacityBPS > 0 {
				capacity = rate(p.CapacityBPS)
			}
			abwc = fmt.Sprintf("%.1f%%", float64(p.ABWCPPM)/1e4)
		}
		if p.AgeNS > 0 {
			age = time.Duration(p.AgeNS).Round(time.Millisecond).String()
		}
		signals := orDash(strings.Join(sig, " "))
		if narrow {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", p.Port, p.State, abw, age, signals)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Port, p.State, capacity, load, abw, abwc, signals, age)
	}
	_ = tw.Flush() // into memory
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), left
}

// fewestRows is how many ports a small window shows before it shows notes.
const fewestRows = 4

// fitStatus is a status for a window of so many columns and lines. Text, all of it, is taken
// where it fits. Else each part has a line, the ports what is left of the window, and
// notes about ports at most a third of it.
func fitStatus(s *api.Status, text string, silent time.Duration, columns, height int) string {
	if strings.Count(text, "\n") <= height || len(s.Ports) == 0 {
		return text
	}
	head := []string{
		fmt.Sprintf("%s  %s  cycles %d (%d skipped, %d failed)", s.Device, s.Platform, s.Cycle.Count, s.Cycle.Skipped, s.Cycle.Failed),
		planeText(s),
	}
	if silent > 0 {
		head = append([]string{silenceText(s, silent)}, head...)
	}
	if s.Reload != nil && s.Reload.Error != "" {
		head = append(head, "NOT RELOADED: "+strings.ReplaceAll(s.Reload.Error, "\n", " "))
	}
	if s.Cycle.LastError != "" {
		head = append(head, "last error: "+s.Cycle.LastError)
	}
	if d := s.Drift; d != nil && len(d.Differences) > 0 {
		head = append(head, fmt.Sprintf("DRIFT: %s, e.g. %s", count(len(d.Differences), "difference"), d.Differences[0]))
	}
	// The summary is the one line that is worth two in a narrow window.
	summary := strings.Split(strings.TrimSuffix(wrap(portSummary(s.Ports), columns, 2), "\n"), "\n")
	if most := max(1, height-len(summary)-1-fewestRows); len(head) > most {
		head = head[:most]
	}
	lines := append(head, summary...)
	room := height - len(lines) - 1 // less the table's head
	notes := portNotes(worstFirst(s.Ports))
	notes = notes[:min(len(notes), max(0, min(height/3, room-fewestRows-1)))]
	rows := room - len(notes)
	if rows < len(s.Ports) {
		rows-- // for the count of those left out
	}
	if rows > 0 {
		table, left := portTable(s.Ports, columns < plainColumns-1, rows)
		lines = append(lines, table...)
		if left > 0 {
			lines = append(lines, fmt.Sprintf("… and %s more (--rows)", ports(left)))
		}
	}
	lines = append(lines, notes...)
	for i, line := range lines {
		lines[i] = cut(line, columns)
	}
	return strings.Join(lines, "\n") + "\n"
}
