package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// Bounds of what a text lists before it only counts.
const (
	maxGroups   = 40
	maxFindings = 30
)

// atMost is the beginning of a list, and how many are left out.
func atMost[T any](list []T, most int) (shown []T, left int) {
	n := min(most, len(list))
	return list[:n], len(list) - n
}

// places are ports of devices, devices or hosts, for a person: what is alike of
// many is said once.
type places struct {
	names []string            // devices or hosts, in order
	ports map[string][]string // of devices; none: the device as a whole
	peers []string            // at the other ends, where it is about them
	Count int
}

func (p *places) add(name string, ports ...string) {
	if p.ports == nil {
		p.ports = map[string][]string{}
	}
	if _, known := p.ports[name]; !known {
		p.names = append(p.names, name)
	}
	p.ports[name] = append(p.ports[name], ports...)
	p.Count += max(1, len(ports))
}

// list names every place, devices with the same ports together; names shortens a
// list of names.
func (p *places) list(names func([]string) string) (out []string) {
	for _, devices := range findings.Alike(p.names, func(name string) string { return names(p.ports[name]) }) {
		switch ports := names(p.ports[devices[0]]); {
		case ports == "":
			out = append(out, names(devices))
		case len(devices) == 1 && !strings.Contains(ports, " "):
			out = append(out, devices[0]+":"+ports)
		default:
			out = append(out, names(devices)+" ("+ports+")")
		}
	}
	return out
}

// Places names every place.
func (p *places) Places() []string { return p.list(vendors.Names) }

// Where is every place, "" for the fleet as a whole.
func (p *places) Where() string { return between(strings.Join(p.Places(), ", "), p.To()) }

// where is Where, shortened where there are many places.
func (p *places) where() string {
	text := strings.Join(p.Places(), ", ")
	if strings.Count(text, ", ") >= 2*maxNames {
		list, left := atMost(p.list(briefly), maxNames)
		text = strings.Join(list, ", ")
		if left > 0 {
			text += fmt.Sprintf(", … (%s places)", quantize.FormatCount(p.Count))
		}
	}
	return between(text, p.To())
}

// To names the peers: few by name, many by families of names.
func (p *places) To() string {
	peers := slices.Clone(p.peers)
	slices.SortFunc(peers, inventory.CompareNames)
	return briefly(slices.Compact(peers))
}

// between is "place to peers"; either may be "".
func between(place, peers string) string {
	if place == "" || peers == "" {
		return place + peers
	}
	return place + " to " + peers
}

// findingGroup is findings that differ in their place alone.
type findingGroup struct {
	Level   findings.Level
	Code    findings.Code
	Message string
	places
}

// findingGroups puts findings that differ in their place alone together, errors
// first, and what is only to be known last.
func findingGroups(list []findings.Finding) (out []*findingGroup) {
	type key struct {
		code    findings.Code
		message string
	}
	for _, level := range []findings.Level{findings.Error, findings.Warning, findings.Info} {
		of := slices.DeleteFunc(slices.Clone(list), func(f findings.Finding) bool { return f.Level != level })
		for _, alike := range findings.Alike(of, func(f findings.Finding) key { return key{f.Code, f.Reason} }) {
			g := &findingGroup{Level: level, Code: alike[0].Code, Message: alike[0].Reason}
			for _, f := range alike {
				g.peers = append(g.peers, f.Peers...)
				if f.Device != "" {
					g.add(f.Device, f.Ports...)
				}
			}
			out = append(out, g)
		}
	}
	return out
}

// fewer puts groups of one level and one code together where there are too many groups to read.
// The first message stands for all of them.
func fewer(groups []*findingGroup) (out []*findingGroup) {
	if len(groups) <= maxFindings {
		return groups
	}
	for _, alike := range findings.Alike(groups, func(g *findingGroup) findings.Code { return g.Code }) {
		one := alike[0]
		for _, g := range alike[1:] {
			for _, name := range g.names {
				one.add(name, g.ports[name]...)
			}
			one.peers = append(one.peers, g.peers...)
		}
		if n := len(alike) - 1; n > 0 {
			one.Message += fmt.Sprintf(" (and %s like it, with other details)", quantize.FormatCount(n))
		}
		out = append(out, one)
	}
	return out
}

// findingsByLevel are the groups that a text lists, those of a level together.
func findingsByLevel(list []findings.Finding) [][]*findingGroup {
	out := findings.Alike(findingGroups(list), func(g *findingGroup) findings.Level { return g.Level })
	for i := range out {
		out[i] = fewer(out[i])
	}
	return out
}

func findingsText(list []findings.Finding, columns int) string {
	var b strings.Builder
	for _, groups := range findingsByLevel(list) {
		fmt.Fprintf(&b, "\n%s\n", map[findings.Level]string{findings.Error: "Errors", findings.Warning: "Warnings", findings.Info: "Notes"}[groups[0].Level])
		shown, left := atMost(groups, maxFindings)
		for _, g := range shown {
			b.WriteString("  " + wrap(suffixed(g.where(), ": ")+g.Message, columns-2, 4))
		}
		if left > 0 {
			fmt.Fprintf(&b, "  … %d more: see them with --device or --json\n", left)
		}
	}
	return b.String()
}

func findingsMarkdown(list []findings.Finding) string {
	var b strings.Builder
	for i, groups := range findingsByLevel(list) {
		if i == 0 {
			b.WriteString("\n## Findings\n\n")
		}
		shown, left := atMost(groups, maxFindings)
		for _, g := range shown {
			fmt.Fprintf(&b, "- %s: %s\n", g.Level, mdText(suffixed(g.where(), ": ")+g.Message))
		}
		if left > 0 {
			fmt.Fprintf(&b, "- and %d more of level %s: see them with --device\n", left, groups[0].Level)
		}
	}
	return b.String()
}

// requirementGroup is requirements that differ in their place alone.
type requirementGroup struct {
	*assess.Requirement // one of them
	places
}

// requirementGroups puts requirements that differ in their place alone together,
// what is wrong first.
func requirementGroups(a *assess.Assessment) (out []*requirementGroup) {
	key := func(r assess.Requirement) string {
		return fmt.Sprintln(r.Rule, r.Force, len(r.Hosts) == 0, r.What, r.Why, r.Status)
	}
	for _, alike := range findings.Alike(a.Requirements, key) {
		g := &requirementGroup{Requirement: &alike[0]}
		for _, r := range alike {
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
		out = append(out, g)
	}
	slices.SortStableFunc(out, func(x, y *requirementGroup) int {
		return slices.Index(assess.Statuses, x.Status) - slices.Index(assess.Statuses, y.Status)
	})
	return out
}

// groupTitle names devices that are alike, with how they are driven and their level.
func groupTitle(names []string, platform, via, level, reason string) string {
	text := briefly(names)
	if len(names) > 1 {
		text += fmt.Sprintf(" (%d alike)", len(names))
	}
	return text + ": " + platform + suffix(", ", via) + ", " + level + suffix(": ", reason)
}
