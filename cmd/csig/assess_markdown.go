package main

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/assess"
)

// assessMarkdown is an assessment for a change ticket.
func assessMarkdown(a *assess.Assessment) string {
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
		c    *assess.LevelCounts
	}{{"devices", &a.Totals.Devices}, {"ports", &a.Totals.Ports}} {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", row.name, row.c.Native, row.c.Software, row.c.Passthrough, row.c.Discard, row.c.Unknown)
	}
	b.WriteString("\n## Devices\n\n| devices | platform | level | reason | what else |\n|---|---|---|---|---|\n")
	for _, g := range assessGroups(a, false) {
		var more []string
		for _, l := range g.lines {
			more = append(more, "**"+mdText(l.what)+"**: "+mdText(l.text))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", mdText(briefly(g.names)), mdText(g.of.Platform), g.of.Level, mdText(g.of.Reason), strings.Join(more, "<br>"))
	}
	if len(a.Requirements) > 0 {
		b.WriteString("\n## Required\n\n| state | | where | what | why |\n|---|---|---|---|---|\n")
		for _, g := range requirementGroups(a) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s (%s) |\n", g.of.Status, g.of.Force, mdText(g.where()), mdText(g.of.What), mdText(g.of.Why), g.of.Section)
		}
	}
	if groups := fewer(findingGroups(a.Findings)); len(groups) > 0 {
		b.WriteString("\n## Findings\n\n")
		for _, f := range groups {
			fmt.Fprintf(&b, "- %s: %s\n", f.Level, mdText(suffixed(f.where(), ": ")+f.Message))
		}
	}
	return b.String()
}

func suffixed(text, after string) string {
	if text == "" {
		return ""
	}
	return text + after
}
