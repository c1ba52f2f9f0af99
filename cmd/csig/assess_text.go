package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/assess"
	"github.com/csig-agent/csig/vendors"
)

// assessText is an assessment for a person. Devices that are alike are one
// group; zoom shows every port.
func assessText(a *assess.Assessment, zoom bool, columns int) string {
	var b strings.Builder
	t := &a.Totals
	fmt.Fprintf(&b, "Assessment of %s: %s, %s, profile %.12s\n", a.Fleet, count(t.Devices.All, "device"), count(t.Ports.All, "port"), a.ProfileHash)
	if a.Offline {
		b.WriteString(wrap(assessOffline, columns, 0))
	}
	b.WriteString("\n" + assessTotals(a))
	for i, g := range assessGroups(a, zoom) {
		if i == maxGroups {
			fmt.Fprintf(&b, "\n  … %d more groups of devices: see them with --device, --html or --json\n", len(assessGroups(a, zoom))-i)
			break
		}
		b.WriteString("\n  " + wrap(g.title(), columns-2, 4))
		for _, l := range g.lines {
			b.WriteString("    " + wrap(l.what+": "+l.text, columns-4, 6))
		}
		if zoom {
			for _, p := range g.of.Ports {
				b.WriteString("    " + wrap(assessPorts(&p), columns-4, 6))
			}
		}
	}
	groups := requirementGroups(a)
	if len(groups) > 0 {
		b.WriteString("\nRequired\n")
	}
	for i, g := range groups {
		if i == maxFindings {
			fmt.Fprintf(&b, "  … %d more: see them with --device, --html or --json\n", len(groups)-i)
			break
		}
		text := fmt.Sprintf("%-10s %s %s: %s", g.of.Status, g.of.Force, g.where(), g.of.What)
		b.WriteString("  " + wrap(text, columns-2, 13))
		b.WriteString(strings.Repeat(" ", 13) + wrapFrom(g.of.Why+" ("+g.of.Section+")", columns, 13))
	}
	found := fewer(findingGroups(a.Findings))
	if len(found) > 0 {
		b.WriteString("\nFindings\n")
	}
	for i, f := range found {
		if i == maxFindings {
			fmt.Fprintf(&b, "  … %d more: see them with --html or --json\n", len(found)-i)
			break
		}
		b.WriteString("  " + wrap(fmt.Sprintf("%-8s %s%s", f.Level, suffixed(f.where(), ": "), f.Message), columns-2, 11))
	}
	b.WriteString("\n" + wrap(assessTotal(a), columns, 0))
	return b.String()
}

// wrapFrom is wrap for a text that begins in a later column and is indented there.
func wrapFrom(text string, columns, from int) string {
	lines := strings.TrimSuffix(wrap(text, columns-from, 0), "\n")
	return strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", from)) + "\n"
}

const assessOffline = "Offline: no device was asked. This is from their platforms' facts and the fleet file; assess again without --offline before the rollout."

// assessTotal is the last line, which counts.
func assessTotal(a *assess.Assessment) string {
	r := &a.Totals.Requirements
	text := "Assessment: the fleet file meets every requirement that csig can check"
	switch n := r.Unmet + r.Impossible; n {
	case 0:
	case 1:
		text = "Assessment: 1 requirement is not met"
	default:
		text = fmt.Sprintf("Assessment: %d requirements are not met", n)
	}
	if r.Unchecked > 0 {
		text += fmt.Sprintf("; %d could not be checked", r.Unchecked)
	}
	if r.Choice > 0 {
		text += fmt.Sprintf("; %d for you to decide", r.Choice)
	}
	return text + fmt.Sprintf("; %s, %s.", count(a.Totals.Errors, "error"), count(a.Totals.Warnings, "warning"))
}

// assessTotals is the table of levels.
func assessTotals(a *assess.Assessment) string {
	var b strings.Builder
	b.WriteString("           native  software  passthrough  discard  unknown\n")
	for _, row := range []struct {
		name string
		c    *assess.LevelCounts
	}{{"devices", &a.Totals.Devices}, {"ports", &a.Totals.Ports}} {
		fmt.Fprintf(&b, "  %-9s%6d  %8d  %11d  %7d  %7d\n", row.name, row.c.Native, row.c.Software, row.c.Passthrough, row.c.Discard, row.c.Unknown)
	}
	return b.String()
}

// assessLine is one thing about a device.
type assessLine struct{ what, text string }

// assessGroup is devices that are alike in all that is shown of them.
type assessGroup struct {
	names []string
	lines []assessLine
	of    *assess.Device
}

func (g *assessGroup) title() string {
	text := briefly(g.names)
	if len(g.names) > 1 {
		text += fmt.Sprintf(" (%d alike)", len(g.names))
	}
	text += ": " + g.of.Platform
	if g.of.Via != "" && len(g.names) == 1 {
		text += ", " + g.of.Via
	}
	return text + ", " + g.of.Level + suffix(": ", g.of.Reason)
}

// assessGroups puts devices that are alike together, in the order of the
// fleet; zoom leaves each by itself.
func assessGroups(a *assess.Assessment, zoom bool) []assessGroup {
	var out []assessGroup
	at := map[string]int{}
	for i := range a.Devices {
		d := &a.Devices[i]
		lines := assessLines(d)
		key := fmt.Sprintln(d.Platform, d.Level, d.Reason, lines)
		if zoom {
			key = d.Device
		}
		k, known := at[key]
		if !known {
			k = len(out)
			at[key] = k
			out = append(out, assessGroup{lines: lines, of: d})
		}
		out[k].names = append(out[k].names, d.Device)
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
	if d.Level == "software" {
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
		return "no port is to be updated"
	}
	if t.Form == "" {
		return t.Match + " match, which no layout of rules fits"
	}
	text := fmt.Sprintf("%s match, %s a port", t.Match, count(t.PerPort, "entry"))
	if t.PerPort != 1 {
		text = fmt.Sprintf("%s match, %d entries a port", t.Match, t.PerPort)
	}
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
	text += fmt.Sprintf("; Δt %v, read every %v by %s", time.Duration(s.IntervalNS), time.Duration(s.ScheduleNS), s.Source)
	switch {
	case s.Refresh == "live":
		text += ", whose counters are live"
	case s.RefreshNS > 0:
		text += fmt.Sprintf(", refreshed every %v", coarse(s.RefreshNS))
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

// statusOrder is the order in which requirements are shown: what is wrong first.
var statusOrder = [...]string{assess.StatusImpossible, assess.StatusUnmet, assess.StatusUnchecked, assess.StatusChoice, assess.StatusPlanned, assess.StatusMet}

// requirementGroups puts requirements that differ in their place alone
// together, what is wrong first.
func requirementGroups(a *assess.Assessment) []*requirementGroup {
	var out []*requirementGroup
	at := map[string]*requirementGroup{}
	for i := range a.Requirements {
		r := &a.Requirements[i]
		key := fmt.Sprintln(r.Rule, r.Force, len(r.Hosts) == 0, r.What, r.Why, r.Status)
		g := at[key]
		if g == nil {
			g = &requirementGroup{of: r}
			at[key] = g
			out = append(out, g)
		}
		if r.Rule == assess.RuleStripDiscard || r.Rule == assess.RuleNoSending {
			for _, peer := range r.Peers {
				g.peers = append(g.peers, peer.Device)
			}
		}
		for _, host := range r.Hosts {
			g.add(host)
		}
		if len(r.Hosts) == 0 {
			g.add(r.Device, r.Ports...)
		}
	}
	slices.SortStableFunc(out, func(x, y *requirementGroup) int {
		return slices.Index(statusOrder[:], x.of.Status) - slices.Index(statusOrder[:], y.of.Status)
	})
	return out
}
