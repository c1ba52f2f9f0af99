package main

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// statement is one thing that is known of a platform.
type statement struct {
	label, text string
	vendors.Source
}

// statements is all that is known of a platform, in the order of reading.
func statements(p *platformResult) []statement {
	t := &p.Traits
	var out []statement
	put := func(label, text string, s vendors.Source) {
		if s.Known() {
			out = append(out, statement{label, text, s})
		}
	}
	put("update", abilityText(p.Update), t.UpdateSource)
	put("wide tags", abilityText(p.Wide), t.WideSource)
	put("forward, unasked", strings.Replace(abilityText(p.Passthrough), "degraded:", "depends:", 1), t.PassthroughSource)
	put("strip", string(t.Strip.Is)+byDriver(p), t.Strip.Source)
	put("native", orNone(t.Native.Is), t.Native.Source)
	put("access", t.Access.Is, t.Access.Source)
	put("VID match", string(t.MatchVID.Is), t.MatchVID.Source)
	put("PCP match", string(t.MatchPCP.Is), t.MatchPCP.Source)
	put("DEI match", string(t.MatchDEI.Is), t.MatchDEI.Source)
	put("key", string(t.Key.Is), t.Key.Source)
	put("stage", string(t.Stage.Is), t.Stage.Source)
	put("can set", fieldsText(t.Sets.Is), t.Sets.Source)
	put("loses", fieldsText(t.Loses.Is), t.Loses.Source)
	put("tag seen", string(t.Position.Is), t.Position.Source)
	front := "none"
	if t.VLANs.Is > 0 {
		front = fmt.Sprintf("up to %d", t.VLANs.Is)
	}
	put("VLAN tags in front", front, t.VLANs.Source)
	put("VIDs", vidsText(t.VIDs.Is), t.VIDs.Source)
	put("table", tableRoom(t.Table.Is), t.Table.Source)
	put("transaction", string(t.Txn.Is), t.Txn.Source)
	put("auto-revert", orNone(t.Revert.Is), t.Revert.Source)
	put("lease", abilityText(p.Lease), t.LeaseSource)
	if f := p.Fencing; f != nil {
		put("former owners fenced", strings.Replace(abilityText(f.Verdict), "refused:", "no:", 1), f.Source)
	}
	put("shortest update", t.MinUpdate.Is.String(), t.MinUpdate.Source)
	put("survives a reboot", yesNo(t.Survives.Is), t.Survives.Source)
	put("TPIDs", tpidsText(t.TPIDs.Is), t.TPIDs.Source)
	change := "not disruptive"
	if t.TPIDChange.Is != "" {
		change = "disruptive: " + t.TPIDChange.Is
	}
	put("change of TPID", change, t.TPIDChange.Source)
	put("VLAN TPIDs, unasked", listText(t.VLANTPIDs.Is), t.VLANTPIDs.Source)
	put("bridging VLAN apart from the VID", yesNo(t.Independent.Is), t.Independent.Source)
	put("learning unaffected", yesNo(t.Learning.Is), t.Learning.Source)
	put("tag survives routing", yesNo(t.Routed.Is), t.Routed.Source)
	put("parses past the tag", yesNo(t.Parses.Is), t.Parses.Source)
	put("hashes take in", fieldsText(t.Hash.Is), t.Hash.Source)
	put("DEI is drop precedence", yesNo(t.DropDEI.Is), t.DropDEI.Source)
	put("PCP chooses the queue", yesNo(t.TrustPCP.Is), t.TrustPCP.Source)
	return out
}

// byDriver notes that a platform's means are not csig's.
func byDriver(p *platformResult) string {
	if p.Strip.Level != vlanrules.Refused || p.Traits.Strip.Is == vendors.StripNone {
		return ""
	}
	return ", but not by csig: " + p.Strip.Reason
}

func abilityText(a vlanrules.Verdict) string {
	if a.Level == vlanrules.Full {
		return "yes"
	}
	return a.Level.String() + suffix(": ", a.Reason)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func fieldsText(f vendors.Fields) string {
	var out []string
	for _, field := range f {
		out = append(out, string(field))
	}
	return orNone(strings.Join(out, ", "))
}

func listText(l vendors.TPIDList) string {
	var out []string
	for _, tpid := range l {
		out = append(out, fmt.Sprintf("0x%04x", tpid))
	}
	return orNone(strings.Join(out, ", "))
}

func tpidsText(t vendors.TPIDs) string {
	text := "any"
	if !t.Any {
		text = listText(t.List)
	}
	switch {
	case t.AtMost > 0:
		text += fmt.Sprintf("; at most %d at a time", t.AtMost)
	case t.Scope != "":
		text += "; as many as it takes"
	}
	switch t.Scope {
	case vendors.ScopePort, vendors.ScopeChip:
		text += " for each " + string(t.Scope)
	case vendors.ScopeGlobal:
		text += " for the whole device"
	}
	return text
}

func vidsText(v vendors.VIDs) string {
	text := fmt.Sprintf("%d to %d", v.First, v.Last)
	for _, r := range v.Reserved {
		text += fmt.Sprintf(", without %d to %d", r.First, r.Last)
	}
	return text
}

func tableRoom(t vendors.Table) string {
	text := "no limit is known"
	if t.Entries > 0 {
		text = count(t.Entries, "entry")
	}
	return text + suffix("; shared by ", t.Sharers)
}

// sourcesOf numbers the sources of statements, each once.
func sourcesOf(all []statement) (list []vendors.Source, number map[vendors.Source]int) {
	number = map[vendors.Source]int{}
	for _, s := range all {
		if number[s.Source] == 0 {
			list = append(list, s.Source)
			number[s.Source] = len(list)
		}
	}
	return list, number
}

// platformText is one platform for a person.
func platformText(p *platformResult, columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", p.Platform, p.Title)
	b.WriteString(wrap(driverText(p), columns, 0) + "\n")
	known := statements(p)
	sources, number := sourcesOf(known)
	for _, s := range known {
		b.WriteString("  " + wrap(fmt.Sprintf("%s: %s [%d]", s.label, s.text, number[s.Source]), columns-2, 4))
	}
	for k, v := range p.TagDepths {
		b.WriteString("  " + wrap(fmt.Sprintf("behind %s: %s", count(k, "VLAN tag"), abilityText(v)), columns-2, 4))
	}
	if len(p.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range p.Notes {
		b.WriteString("  " + wrap("note: "+n, columns-2, 4))
	}
	b.WriteString("\nSources\n")
	for i, s := range sources {
		b.WriteString(wrap(fmt.Sprintf("%5s %-8s%s", fmt.Sprintf("[%d]", i+1), s.Mark, s.From), columns, 14))
	}
	return b.String()
}

func driverText(p *platformResult) string {
	switch {
	case p.Experimental != "":
		return "csig has a driver for it, which is experimental: " + p.Experimental + "."
	case p.Driver:
		return "csig has a driver for it."
	}
	return "csig has no driver for it; nothing of this was tried on a device."
}

// platformsMarkdown is docs/platforms.md.
func platformsMarkdown(found *platformsResult) string {
	var b strings.Builder
	b.WriteString("# Platforms\n\n<!-- Made by csig platforms --markdown (go test ./cmd/csig -run TestPlatformsPage -update): the facts are in vendors/. -->\n\n")
	b.WriteString("What csig knows of each platform that a fleet file may name, and how it is known: **ran** was\ntried with csig, **read** is from the platform's own text or source, **assumed** was inferred and is\nto be confirmed on a device. Where a statement is missing, nothing is known.\n\n")
	b.WriteString("| " + strings.Join(platformHead, " | ") + " |\n|" + strings.Repeat("---|", len(platformHead)) + "\n")
	for i := range found.Platforms {
		p := &found.Platforms[i]
		row := platformRow(p)
		row[0] = "[" + row[0] + "](#" + row[0] + ")"
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	b.WriteString("\n" + wrap(platformLegend, 96, 0) + "\n" + wrap(driversText(found), 96, 0))
	for i := range found.Platforms {
		p := &found.Platforms[i]
		fmt.Fprintf(&b, "\n## %s\n\n%s. %s\n\n| | | known by |\n|---|---|---|\n", p.Platform, mdText(p.Title), driverText(p))
		known := statements(p)
		sources, number := sourcesOf(known)
		for _, s := range known {
			fmt.Fprintf(&b, "| %s | %s | %s (%d) |\n", s.label, mdText(s.text), s.Mark, number[s.Source])
		}
		for k, v := range p.TagDepths {
			fmt.Fprintf(&b, "| behind %s | %s | |\n", count(k, "VLAN tag"), mdText(abilityText(v)))
		}
		if len(p.Notes) > 0 {
			b.WriteString("\n")
		}
		for _, n := range p.Notes {
			b.WriteString("- " + mdText(n) + "\n")
		}
		b.WriteString("\nSources:\n\n")
		for i, s := range sources {
			fmt.Fprintf(&b, "%d. **%s**: %s\n", i+1, s.Mark, mdText(s.From))
		}
	}
	return b.String()
}
