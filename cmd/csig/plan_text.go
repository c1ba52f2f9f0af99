package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// planText is a plan for a person. Devices whose changes are alike are one
// group; only, not empty, names the devices to show.
func planText(whole *plans.Plan, only []string, columns int) string {
	p := whole.Narrow(only)
	var b strings.Builder
	goal := "roll out"
	if p.Goal == plans.TakeOff {
		goal = "take off"
	}
	fmt.Fprintf(&b, "Plan for %s: %s on %s, profile %.12s\n", shownPath(p.Fleet), goal, count(len(whole.Devices), "device")+targeted(p), p.ProfileHash)
	if p.Offline {
		b.WriteString(wrap("Offline: no device was asked. This is from the platforms' facts, for devices without anything of csig; apply needs a plan made online.", columns, 0))
	}
	b.WriteString(changesText(p, only, columns))
	if len(p.Stages) > 0 {
		b.WriteString("\nOrder\n")
	}
	for i, s := range p.Stages {
		if len(s.Waves) == 0 {
			continue // none of its steps is shown
		}
		b.WriteString("  " + wrap(fmt.Sprintf("%d. %s: %s", i+1, s.Name, s.Why), columns-2, 5))
		for _, w := range s.Waves {
			var names []string
			for _, step := range w.Steps {
				names = append(names, step.Device)
			}
			text := fmt.Sprintf("%-8s %s", w.Name, briefly(names))
			if len(names) > 2 {
				text += fmt.Sprintf(" (%d devices)", len(names))
			}
			b.WriteString("     " + wrap(text, columns-5, 14))
		}
	}
	b.WriteString(findingsText(p.Findings, columns))
	b.WriteString("\n" + wrap(planTotal(whole), max(columns, 100), 0))
	for _, l := range leftAlone(whole) {
		b.WriteString(wrap(l.String(), columns, 2))
	}
	if text := planNarrowed(p); text != "" {
		b.WriteString(wrap(text, columns, 0))
	}
	return b.String()
}

// changesText is what changes on which devices, those that change alike together.
func changesText(p *plans.Plan, only []string, columns int) string {
	var b strings.Builder
	groups := planGroups(p, only)
	if legend := planLegend(groups); legend != "" {
		fmt.Fprintf(&b, "\nLegend: %s\n", legend)
	}
	ways := findings.Alike(groups, func(g planGroup) string { return way(g.of) })
	shown, left := atMost(groups, maxGroups)
	for _, g := range shown {
		via := ""
		switch {
		case len(g.names) == 1:
			via = g.of.Via
		case len(ways) > 1:
			via = way(g.of)
		}
		b.WriteString("\n  " + wrap(groupTitle(g.names, g.of.Platform, via, g.of.Level, g.of.Reason), columns-2, 4))
		for _, c := range g.of.Changes {
			text := c.Kind + " "
			if c.Ports != "" {
				text += c.Ports
				if c.Count > 2 {
					text += fmt.Sprintf(" (%d)", c.Count)
				}
				text += ": "
			}
			text += c.What
			if c.Detail != "" {
				text += ": " + c.Detail
			}
			b.WriteString("    " + wrap(text, columns-4, 6))
			if c.Disruptive != "" {
				b.WriteString("      " + wrap("! "+c.Disruptive, columns-6, 8))
			}
		}
		if len(g.of.Changes) == 0 {
			b.WriteString("    " + noChangesOf(p, g.of) + "\n")
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n  … %d more groups of devices: see them with --device or --json\n", left)
	}
	return b.String()
}

// planNarrowed notes that a plan is not the whole one, "" where it is.
func planNarrowed(p *plans.Plan) string {
	if len(p.Only) == 0 {
		return ""
	}
	return "Shown is what concerns " + briefly(p.Only) + "; the last count is the whole plan's."
}

// planTotal is the last line of a plan, which counts.
func planTotal(p *plans.Plan) string {
	t := p.Totals
	switch {
	case len(p.Errors()) > 0:
		return fmt.Sprintf("No plan: %s above.", count(len(p.Errors()), "error"))
	case p.Empty():
		return "No changes: " + noChanges(p)
	}
	text := fmt.Sprintf("Plan: %d to add, %d to change, %d to remove on %s, %s", t.Add, t.Change, t.Remove, count(t.Devices, "device"), planAsked(p))
	if t.Disruptive > 0 {
		return text + fmt.Sprintf("; %d disturb ordinary traffic (!).", t.Disruptive)
	}
	return text + "; no impact on ordinary traffic expected."
}

// planAsked is how many devices a plan is made from the answers of.
func planAsked(p *plans.Plan) string {
	asked := 0
	for i := range p.Devices {
		if p.Devices[i].Via != "" && !p.Offline {
			asked++
		}
	}
	if asked == 0 {
		return "none asked"
	}
	return fmt.Sprintf("%d asked", asked)
}

// targeted names the target of a plan, "" where it is for all devices.
func targeted(p *plans.Plan) string {
	if p.Target == nil {
		return ""
	}
	return " (target " + untrusted.Text(strings.Join(p.Target, ", "), 200) + ")"
}

// noChanges is what holds where a plan has nothing to do. It is printed of every
// device only where csig has seen, or made, every device so.
func noChanges(p *plans.Plan) string {
	alone := 0
	for i := range p.Devices {
		if p.Devices[i].LeftAlone != "" {
			alone++
		}
	}
	switch {
	case slices.ContainsFunc(p.Findings, func(f findings.Finding) bool { return f.Code == findings.OutsideTarget }):
		return "the target has what it can have before other devices, named above."
	case p.Target != nil && alone == 0 && !p.Offline && p.Goal == plans.RollOut:
		return "every device of the target has the setup of the fleet file."
	case alone > 0 && alone == len(p.Devices):
		return "csig drives none of these devices."
	case p.Offline && p.Goal == plans.TakeOff:
		return "offline, devices are taken to have nothing of csig."
	case p.Offline:
		return "the fleet file has nothing set up on any device that csig drives."
	case p.Goal == plans.TakeOff && alone > 0:
		return "no device that csig drives has anything of it."
	case p.Goal == plans.TakeOff:
		return "no device has anything of csig."
	case alone > 0:
		return "every device that csig drives has the setup of the fleet file."
	}
	return "every device has the setup of the fleet file."
}

// noChangesOf is why a device that was asked for has no changes in a plan.
func noChangesOf(p *plans.Plan, d *plans.Device) string {
	for _, f := range p.Errors() {
		if f.Device == d.Device {
			return "nothing can be planned for it: see its errors below"
		}
	}
	if d.LeftAlone != "" {
		return "left alone"
	}
	return "no changes"
}

// aloneGroup is devices that csig leaves as they are for one reason.
type aloneGroup struct {
	Reason    plans.Alone `json:"reason"`
	Platforms []string    `json:"platforms"`
	Devices   []string    `json:"devices"`
}

// leftAlone are the devices that a plan leaves as they are; none where the plan
// is not to be carried out.
func leftAlone(p *plans.Plan) []aloneGroup {
	if len(p.Errors()) > 0 {
		return nil
	}
	var out []aloneGroup
	for _, reason := range []plans.Alone{plans.AloneNoDriver, plans.AloneUnknown, plans.AloneUnreached, plans.AloneTPID, plans.AloneNative, plans.AloneDiscards} {
		g := aloneGroup{Reason: reason}
		for i := range p.Devices {
			if d := &p.Devices[i]; d.LeftAlone == reason {
				g.Devices = append(g.Devices, d.Device)
				if !slices.Contains(g.Platforms, d.Platform) {
					g.Platforms = append(g.Platforms, d.Platform)
				}
			}
		}
		if len(g.Devices) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// String is the group in a sentence.
func (g aloneGroup) String() string {
	why := ""
	switch g.Reason {
	case plans.AloneNoDriver:
		list := "csig platforms"
		if len(g.Platforms) == 1 {
			list += " " + g.Platforms[0]
		}
		why = "without a driver (" + list + ")"
	case plans.AloneUnknown:
		why = "of a platform that csig does not know"
	case plans.AloneUnreached:
		why = "not reached, and taken as in the fleet file"
	case plans.AloneTPID:
		why = "not able to update tags of the domain's TPID"
	case plans.AloneNative:
		why = "set up by software of their own (level: native)"
	case plans.AloneDiscards:
		why = "not able to update tags, nor known to forward them"
	}
	return fmt.Sprintf("Left alone: %s %s: %s", count(len(g.Devices), "device"), why, briefly(g.Devices))
}

// planGroup is devices whose changes are alike.
type planGroup struct {
	names []string
	of    *plans.Device
}

// planGroups puts devices that are alike together; those without changes are
// left out unless they were asked for.
func planGroups(p *plans.Plan, only []string) (out []planGroup) {
	var shown []*plans.Device
	for i := range p.Devices {
		d := &p.Devices[i]
		if slices.Contains(only, d.Device) || len(only) == 0 && len(d.Changes) > 0 {
			shown = append(shown, d)
		}
	}
	key := func(d *plans.Device) string { return fmt.Sprintln(d.Platform, way(d), d.Level, d.Reason, d.Changes) }
	if len(only) > 0 {
		key = func(d *plans.Device) string { return d.Device }
	}
	for _, alike := range findings.Alike(shown, key) {
		g := planGroup{of: alike[0]}
		for _, d := range alike {
			g.names = append(g.names, d.Device)
		}
		out = append(out, g)
	}
	return out
}

// way is how a device is driven, without its address: what a plan can do to a
// device, and what happens when csig ends in the middle, depends on it.
func way(d *plans.Device) string {
	word, _, _ := strings.Cut(d.Via, " ")
	return strings.TrimSuffix(word, ",")
}

// planLegend explains the signs that the groups use.
func planLegend(groups []planGroup) string {
	used := map[string]bool{}
	for _, g := range groups {
		for _, c := range g.of.Changes {
			used[c.Kind] = true
			used["!"] = used["!"] || c.Disruptive != ""
		}
	}
	var out []string
	for _, l := range [][2]string{{"+", "create"}, {"~", "change"}, {"-", "remove"}, {"!", "ordinary traffic notices"}} {
		if used[l[0]] {
			out = append(out, l[0]+" "+l[1])
		}
	}
	return strings.Join(out, "  ")
}

// count writes "1 byte", "2 bytes", "2 entries".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// planMarkdown is a plan for a change ticket.
func planMarkdown(whole *plans.Plan, only []string) string {
	p := whole.Narrow(only)
	var b strings.Builder
	goal := "Roll out CSIG"
	if p.Goal == plans.TakeOff {
		goal = "Take CSIG off"
	}
	fmt.Fprintf(&b, "# %s: %s\n\n%s\n\n", goal, mdText(shownPath(p.Fleet)), planTotal(whole))
	for _, l := range leftAlone(whole) {
		b.WriteString(mdText(l.String()) + "\n\n")
	}
	if text := planNarrowed(p); text != "" {
		b.WriteString(mdText(text) + "\n\n")
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n| made | %s |\n%s| profile | `%.12s` |\n| inventory | `%.12s` |\n| plan | `%.12s` |\n",
		p.Created.Format("2006-01-02 15:04:05 MST"), targetRow(p), p.ProfileHash, p.InventoryHash, p.Integrity)
	if p.Offline {
		b.WriteString("\n**Offline**: no device was asked; apply needs a plan made online.\n")
	}
	if groups := planGroups(p, nil); len(groups) > 0 {
		b.WriteString("\n## Changes\n\n| devices | platform | level | change | ports |\n|---|---|---|---|---|\n")
		shown, left := atMost(groups, maxGroups)
		for _, g := range shown {
			for i, c := range g.of.Changes {
				names, platform, level := "", "", ""
				if i == 0 {
					names, platform, level = briefly(g.names), g.of.Platform, g.of.Level
				}
				what := c.Kind + " " + c.What
				if c.Detail != "" {
					what += ": " + c.Detail
				}
				if c.Disruptive != "" {
					what += " **" + c.Disruptive + "**"
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", mdText(names), mdText(platform), level, mdText(what), mdText(c.Ports))
			}
		}
		if left > 0 {
			fmt.Fprintf(&b, "| … and %d more groups of devices: csig plan --device | | | | |\n", left)
		}
	}
	if len(p.Stages) > 0 {
		b.WriteString("\n## Order\n\n")
		for i, s := range p.Stages {
			if len(s.Waves) == 0 {
				continue // none of its steps is shown
			}
			fmt.Fprintf(&b, "%d. **%s**: %s\n", i+1, s.Name, s.Why)
			for _, w := range s.Waves {
				var names []string
				for _, step := range w.Steps {
					names = append(names, step.Device)
				}
				fmt.Fprintf(&b, "   - %s: %s\n", mdText(w.Name), mdText(briefly(names)))
			}
		}
		b.WriteString("\nA health gate follows each wave. Undo at any time: `csig rollback JOURNAL`.\n")
	}
	return b.String() + findingsMarkdown(p.Findings)
}

// targetRow is a plan's target for the table of a change ticket; "" where there is none.
func targetRow(p *plans.Plan) string {
	if p.Target == nil {
		return ""
	}
	return "| target | " + mdText(strings.Join(p.Target, ", ")) + " |\n"
}

// mdText keeps a text from being read as markup, or as a link to another place than csig's pages.
func mdText(s string) string { return mdEscapes.Replace(s) }

var mdEscapes = strings.NewReplacer(
	docs.At, docs.At,
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "~", `\~`,
	"<", "&lt;", "&", "&amp;", "://", "&#58;//", "www.", "www&#46;", "\n", " ",
)
