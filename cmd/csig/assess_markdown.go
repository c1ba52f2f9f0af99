package main

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
)

// assessMarkdown is an assessment for a change ticket.
func assessMarkdown(a *plans.Assessment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# CSIG assessment: %s\n\n%s\n\n", mdText(a.Fleet), mdText(assessTotal(a)))
	fmt.Fprintf(&b, "| | |\n|---|---|\n| made | %s |\n| profile | `%.12s` |\n| inventory | `%.12s` |\n| tags | TPID 0x%04x, %s, %s |\n",
		a.Created.Format("2006-01-02 15:04:05 MST"), a.ProfileHash, a.InventoryHash, a.TPID, a.Layout, strings.Join(a.Signals, ", "))
	if a.Offline {
		b.WriteString("\n**Offline**: " + strings.TrimPrefix(assessOffline, "Offline: ") + "\n")
	}
	b.WriteString("\n| | native | software | passthrough | discard | unknown |\n|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name string
		c    *plans.LevelCounts
	}{{"devices", &a.Totals.Devices}, {"ports", &a.Totals.Ports}} {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", row.name, row.c.Native, row.c.Software, row.c.Passthrough, row.c.Discard, row.c.Unknown)
	}
	b.WriteString("\n## Devices\n\n| devices | platform | level | reason | what else |\n|---|---|---|---|---|\n")
	for _, g := range assessGroups(a, false) {
		var more []string
		for _, l := range g.lines {
			more = append(more, "**"+mdText(l.what)+"**: "+mdText(l.text))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", mdText(vendors.Names(g.names)), mdText(g.of.Platform), g.of.Level, mdText(g.of.Reason), strings.Join(more, "<br>"))
	}
	if len(a.Requirements) > 0 {
		b.WriteString("\n## Required\n\n| state | | where | what | why |\n|---|---|---|---|---|\n")
		for _, g := range requirementGroups(a) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s (%s) |\n", g.of.Status, g.of.Force, mdText(strings.Join(g.allPlaces(), ", ")), mdText(g.of.What), mdText(g.of.Why), g.of.Section)
		}
	}
	if groups := findingGroups(a); len(groups) > 0 {
		b.WriteString("\n## Findings\n\n")
		for _, f := range groups {
			fmt.Fprintf(&b, "- %s: %s\n", f.Severity, mdText(suffixed(f.Where, ": ")+f.Message))
		}
	}
	return b.String()
}

// findingGroup is findings that differ in their place alone.
type findingGroup struct {
	Severity, Where, Message string
	places                   []string
}

// short names the places, if they are few, and else some of them.
func (f *findingGroup) short() string {
	if len(f.places) > 8 && len(f.Where) > 60 {
		return fmt.Sprintf("%s, … (%d places)", strings.Join(f.places[:4], ", "), len(f.places))
	}
	return f.Where
}

// findingGroups puts findings that differ in their place alone together, errors
// first.
func findingGroups(a *plans.Assessment) []findingGroup {
	type key struct{ severity, message string }
	where := map[key][]string{}
	var order []key
	for _, severity := range []string{plans.SeverityError, plans.SeverityWarning} {
		for _, f := range a.Findings {
			if f.Severity != severity {
				continue
			}
			k := key{severity, f.Message}
			if _, known := where[k]; !known {
				order = append(order, k)
				where[k] = nil
			}
			if at := f.Device + suffix(":", f.Port); at != "" {
				where[k] = append(where[k], at)
			}
		}
	}
	out := make([]findingGroup, 0, len(order))
	for _, k := range order {
		out = append(out, findingGroup{k.severity, vendors.Names(where[k]), k.message, where[k]})
	}
	return out
}

func suffixed(text, after string) string {
	if text == "" {
		return ""
	}
	return text + after
}
