package main

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/plans/assess"
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
	if text := assessNotRead(a); text != "" {
		b.WriteString("\n**" + text + "**\n")
	}
	for i, row := range levelTable(a) {
		b.WriteString("\n| " + strings.Join(row, " | ") + " |")
		if i == 0 {
			b.WriteString("\n|" + strings.Repeat("---|", len(row)))
		}
	}
	b.WriteByte('\n')
	b.WriteString("\n## Devices\n\n| devices | platform | level | reason | what else |\n|---|---|---|---|---|\n")
	for _, g := range assessGroups(a, false) {
		var more []string
		for _, l := range g.Lines {
			more = append(more, "**"+mdText(l.What)+"**: "+mdText(l.Text))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", mdText(briefly(g.Names)), mdText(g.Platform), g.levelText(), mdText(g.Reason), strings.Join(more, "<br>"))
	}
	if len(a.Requirements) > 0 {
		b.WriteString("\n## Required\n\n| state | | where | what | why |\n|---|---|---|---|---|\n")
		for _, g := range requirementGroups(a) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s (%s) |\n", g.Status, g.Force, mdText(g.where()), mdText(g.What), mdText(g.Why), g.Section)
		}
	}
	return b.String() + findingsMarkdown(a.Findings)
}

func suffixed(text, after string) string {
	if text == "" {
		return ""
	}
	return text + after
}
