package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/vendors"
)

// assessText is an assessment for a person. Devices that are alike are one
// group; zoom shows every port.
func assessText(a *assess.Assessment, zoom bool, columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Assessment of %s: %s, %s, profile %.12s\n", a.Fleet, count(a.Totals.Devices["all"], "device"), count(a.Totals.Ports["all"], "port"), a.ProfileHash)
	if a.Offline {
		b.WriteString(wrap(assessOffline, columns, 0))
	}
	if text := assessNotRead(a); text != "" {
		b.WriteString(wrap(text, columns, 0))
	}
	b.WriteByte('\n')
	levels := levelTable(a)
	for _, row := range levels {
		fmt.Fprintf(&b, "  %-7s", row[0])
		for k, cell := range row[1:] {
			fmt.Fprintf(&b, "  %*s", len(levels[0][k+1]), cell)
		}
		b.WriteByte('\n')
	}
	groups, left := atMost(assessGroups(a, zoom), maxGroups)
	for _, g := range groups {
		via := ""
		if len(g.Names) == 1 {
			via = g.Via
		}
		b.WriteString("\n  " + wrap(groupTitle(g.Names, g.Platform, via, g.levelText(), g.Reason), columns-2, 4))
		for _, l := range g.Lines {
			b.WriteString("    " + wrap(l.What+": "+l.Text, columns-4, 6))
		}
		if zoom {
			for _, p := range g.Ports {
				b.WriteString("    " + wrap(assessPorts(&p), columns-4, 6))
			}
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n  … %d more groups of devices: see them with --device, --html or --json\n", left)
	}
	required, left := atMost(requirementGroups(a), maxFindings)
	if len(required) > 0 {
		b.WriteString("\nRequired\n")
	}
	for _, g := range required {
		b.WriteString("  " + wrap(fmt.Sprintf("%-10s %s %s: %s", g.Status, g.Force, g.where(), g.What), columns-2, 13))
		b.WriteString(strings.Repeat(" ", 13) + wrapFrom(g.Why+" ("+g.Section+")", columns, 13))
	}
	if left > 0 {
		fmt.Fprintf(&b, "  … %d more: see them with --device, --html or --json\n", left)
	}
	b.WriteString(findingsText(a.Findings, columns))
	b.WriteString("\n" + wrap(assessTotal(a), columns, 0))
	return b.String()
}

// wrapFrom is wrap for a text that begins in a later column and is indented there.
func wrapFrom(text string, columns, from int) string {
	lines := strings.TrimSuffix(wrap(text, columns-from, 0), "\n")
	return strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", from)) + "\n"
}

const assessOffline = "Offline: no device was asked. This is from their platforms' facts and the fleet file; assess again without --offline before the rollout."

// assessNotRead says how many devices are assumed, though they were asked; "" for none.
func assessNotRead(a *assess.Assessment) string {
	if a.Totals.NotRead == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s could not be read: what is below is assumed from their platforms.", a.Totals.NotRead, count(a.Totals.Devices["all"], "device"))
}

// assessTotal is the last line, which counts.
func assessTotal(a *assess.Assessment) string {
	r := a.Totals.Requirements
	asked := count(a.Totals.Asked, "device")
	text := "Assessment: the fleet file meets every requirement that csig can check"
	if a.Totals.NotRead > 0 {
		text = "Assessment: incomplete"
	}
	switch n := r[assess.StatusUnmet] + r[assess.StatusImpossible]; n {
	case 0:
		if a.Totals.Errors > 0 && a.Totals.NotRead == 0 {
			text = "Assessment: no plan, for the errors above; the requirements are met that csig can check"
		}
	case 1:
		text = "Assessment: 1 requirement is not met"
	default:
		text = fmt.Sprintf("Assessment: %d requirements are not met", n)
	}
	if n := r[assess.StatusUnchecked]; n > 0 {
		text += fmt.Sprintf("; %d could not be checked", n)
	}
	if n := r[assess.StatusChoice]; n > 0 {
		text += fmt.Sprintf("; %d for you to decide", n)
	}
	text += fmt.Sprintf("; %s, %s", count(a.Totals.Errors, "error"), count(a.Totals.Warnings, "warning"))
	if a.Offline {
		return text + "; no device was asked."
	}
	if a.Totals.NotRead > 0 {
		return text + fmt.Sprintf("; %s asked, %d could not be read.", asked, a.Totals.NotRead)
	}
	return text + fmt.Sprintf("; %s asked.", asked)
}

// levelTable is how many devices and ports have which level, and levels besides, below
// a head.
func levelTable(a *assess.Assessment, levels ...string) [][]string {
	rows := [][]string{{""}, {"devices"}, {"ports"}}
	for _, level := range slices.Concat(assess.Levels, levels) {
		for i, cell := range []string{level, fmt.Sprint(a.Totals.Devices[level]), fmt.Sprint(a.Totals.Ports[level])} {
			rows[i] = append(rows[i], cell)
		}
	}
	return rows
}

// assessLine is one thing about a device.
type assessLine struct{ What, Text string }

// assessGroup is devices that are alike in all that is shown of them.
type assessGroup struct {
	Names          []string
	Lines          []assessLine
	*assess.Device // one of them
}

// levelText is the level, with whether it is assumed.
func (g *assessGroup) levelText() string {
	if g.NotRead == "" {
		return g.Level
	}
	return g.Level + " (assumed: it could not be read)"
}

// assessGroups puts devices that are alike together, in the order of the
// fleet; zoom leaves each by itself.
func assessGroups(a *assess.Assessment, zoom bool) (out []assessGroup) {
	var each []assessGroup
	for i := range a.Devices {
		d := &a.Devices[i]
		each = append(each, assessGroup{[]string{d.Device}, assessLines(d), d})
	}
	if zoom {
		return each
	}
	for _, alike := range findings.Alike(each, func(g assessGroup) string { return fmt.Sprintln(g.Platform, g.levelText(), g.Reason, g.Lines) }) {
		one := alike[0]
		for _, g := range alike[1:] {
			one.Names = append(one.Names, g.Names...)
		}
		out = append(out, one)
	}
	return out
}

// assessLines returns what is known about a device, beyond its level.
func assessLines(d *assess.Device) []assessLine {
	var out []assessLine
	put := func(what, text string) { out = append(out, assessLine{what, text}) }
	if slices.ContainsFunc(d.Support, func(s assess.Support) bool { return s.Level != d.Level || s.Reason != d.Reason || len(s.VLANs) > 0 }) {
		for _, s := range d.Support {
			if s.Reason == d.Reason { // it is printed above
				s.Reason = ""
			}
			put(supportKind(&s), s.Level+suffix(": ", s.Reason))
		}
	}
	switch {
	case d.Driver != "":
		put("update", "no, "+d.Driver+": "+d.Update.Reason)
	case d.Level == "discard" && d.Update.Level == "refused" && !strings.Contains(d.Reason, d.Update.Reason):
		put("update", capabilityText(&d.Update))
	}
	if d.Driver == "" && d.Level != "discard" && d.Basis != assess.BasisFile {
		put("strip", capabilityText(&d.Strip))
	}
	if d.Signal != nil {
		put("lease", capabilityText(&d.Lease))
	}
	if t := d.Table; t != nil {
		put("table", tableText(t))
	}
	if s := d.Signal; s != nil {
		put("signal", ageText(s))
	}
	for _, p := range d.Ports {
		if p.Level != d.Level || p.Reason != d.Reason {
			put(vendors.Names(p.Ports), p.Level+suffix(": ", p.Reason))
		}
	}
	for _, n := range d.Notes {
		put("note", n)
	}
	return out
}

func supportKind(s *assess.Support) string {
	text := s.Tag + " " + strings.Join(s.Signals, "+")
	if n := len(s.VLANs); n > 0 {
		tags := make([]string, n)
		for i, v := range s.VLANs {
			tags[i] = fmt.Sprint(v)
		}
		if n > 2 && s.VLANs[n-1]-s.VLANs[0] == n-1 {
			tags = []string{tags[0], tags[n-1]}
			text += " behind " + strings.Join(tags, " to ") + " VLAN tags"
		} else {
			text += " behind " + strings.Join(tags, ", ") + " VLAN tags"
		}
	}
	return text
}

func capabilityText(c *assess.Capability) string {
	if c.Level == "full" {
		return "yes"
	}
	return c.Level + suffix(": ", c.Reason)
}

// tableText is the cost of a device's rules; it is alike for devices with
// different numbers of ports.
func tableText(t *assess.TableCost) string {
	if t.Ports == 0 {
		return "no port has the action update"
	}
	if t.Form == "" {
		return t.Match + " match, which no layout of rules fits"
	}
	text := fmt.Sprintf("%s match, %s a port", t.Match, count(t.PerPort, "entry"))
	if t.Headroom > 0 {
		text += fmt.Sprintf(" and %d more while it changes", t.Headroom)
	}
	switch {
	case t.Capacity == 0:
		text += "; no limit of the table is known"
	case t.Shared:
		text += fmt.Sprintf("; %d of %d that all ports share (%d%% free)", t.Entries+t.Headroom, t.Capacity, 100*max(0, t.Capacity-t.Taken-t.Entries-t.Headroom)/t.Capacity)
	default:
		text += fmt.Sprintf("; of %d that each port has (%d%% free)", t.Capacity, 100*max(0, t.Capacity-t.Taken-t.PerPort-t.Headroom)/t.Capacity)
	}
	if t.Taken > 0 {
		text += fmt.Sprintf("; other applications hold %d", t.Taken)
	}
	if t.OpsMax > 0 {
		text += fmt.Sprintf("; %.3g operations (%d at most) for a signal whose bucket moves by one", t.OpsMean, t.OpsMax)
		if t.OpsMax == 1 {
			text = strings.Replace(text, "1 operations (1 at most)", "1 operation", 1)
		}
	}
	return text
}

// ageText returns how old a signal gets.
func ageText(s *assess.SignalAge) string {
	var text string
	if s.AgeNS > 0 {
		text = fmt.Sprintf("at most %v old, and all of a change in it after %v", coarse(s.AgeNS), coarse(s.SettlesNS))
	} else {
		text = "how old it gets is not known"
	}
	text += "; "
	if s.IntervalNS > 0 {
		text += fmt.Sprintf("Δt %v, ", time.Duration(s.IntervalNS))
	}
	if s.ScheduleNS > 0 {
		text += fmt.Sprintf("read every %v by %s", time.Duration(s.ScheduleNS), s.Source)
	} else { // nothing is polled
		text += "measured by " + s.Source
	}
	switch {
	case s.Refresh == "live":
		text += ", whose counters are live"
	case s.RefreshNS > 0:
		often := "every"
		if strings.HasPrefix(s.Refresh, string(vendors.Ran)) { // what csig qualify saw is an upper bound
			often = "at most every"
		}
		text += fmt.Sprintf(", refreshed %s %v", often, coarse(s.RefreshNS))
		if !s.Measured {
			text += " (" + s.Refresh + ")"
		}
	}
	if s.ShortestNS > 0 {
		text += fmt.Sprintf("; the shortest honest Δt is %v", coarse(s.ShortestNS))
	}
	return text + suffix("; ", s.Note)
}

// coarse rounds a time so that devices alike print alike.
func coarse(ns int64) time.Duration {
	d, step := time.Duration(ns), time.Millisecond
	if d >= time.Second {
		step = 10 * time.Millisecond
	}
	return max(d.Round(step), time.Millisecond)
}

// assessPorts is a group of a device's ports in one line.
func assessPorts(p *assess.Ports) string {
	text := "ports " + vendors.Names(p.Ports) + ": " + p.Action + ", " + p.Level
	if p.Speed > 0 {
		text += ", " + bps(p.Speed)
	}
	if p.MTU > 0 {
		text += fmt.Sprintf(", MTU %d", p.MTU)
	}
	return text
}
