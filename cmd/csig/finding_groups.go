package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/assess"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// places are ports of devices, devices or hosts, for a person: what is alike of
// many is said once.
type places struct {
	names []string            // devices or hosts, in order
	ports map[string][]string // of devices; none: the device as a whole
	n     int
}

func (p *places) add(name string, ports ...string) {
	if p.ports == nil {
		p.ports = map[string][]string{}
	}
	if _, known := p.ports[name]; !known {
		p.names = append(p.names, name)
	}
	p.ports[name] = append(p.ports[name], ports...)
	p.n += max(1, len(ports))
}

// list names every place, devices with the same ports together; names shortens a
// list of names.
func (p *places) list(names func([]string) string) []string {
	alike := map[string][]string{}
	var order []string
	for _, name := range p.names {
		ports := names(p.ports[name])
		if alike[ports] == nil {
			order = append(order, ports)
		}
		alike[ports] = append(alike[ports], name)
	}
	var out []string
	for _, ports := range order {
		switch devices := alike[ports]; {
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

// all is every place; short leaves some out where they are many.
func (p *places) all() string { return strings.Join(p.list(vendors.Names), ", ") }

func (p *places) short() string {
	if all := p.all(); strings.Count(all, ", ") < 2*maxNames {
		return all
	}
	list := p.list(briefly)
	if len(list) > maxNames {
		return fmt.Sprintf("%s, … (%s places)", strings.Join(list[:maxNames], ", "), thousands(p.n))
	}
	return strings.Join(list, ", ")
}

// peerNames are the other ends of ports, for a person: few by name, many by
// families of names.
func peerNames(peers []string) string {
	peers = slices.Clone(peers)
	slices.SortFunc(peers, inventory.CompareNames)
	return briefly(slices.Compact(peers))
}

// findingGroup is findings that differ in their place alone.
type findingGroup struct {
	Level   findings.Level
	Code    findings.Code
	Message string
	places
	peers []string
}

// Where is every place, "" for the fleet as a whole.
func (f *findingGroup) Where() string { return between(f.all(), peerNames(f.peers)) }

// where is Where, shortened where there are many places.
func (f *findingGroup) where() string { return between(f.short(), peerNames(f.peers)) }

// between is "place to peers"; either may be "".
func between(place, peers string) string {
	if place == "" || peers == "" {
		return place + peers
	}
	return place + " to " + peers
}

// findingGroups puts findings that differ in their place alone together, errors
// first.
func findingGroups(list []findings.Finding) []*findingGroup {
	type key struct {
		code    findings.Code
		message string
	}
	var out []*findingGroup
	for _, level := range []findings.Level{findings.Error, findings.Warning} {
		at := map[key]*findingGroup{}
		for _, f := range list {
			if f.Level != level {
				continue
			}
			k := key{f.Code, f.Reason}
			g := at[k]
			if g == nil {
				g = &findingGroup{Level: level, Code: f.Code, Message: f.Reason}
				at[k] = g
				out = append(out, g)
			}
			g.peers = append(g.peers, f.Peers...)
			if f.Device != "" {
				g.add(f.Device, f.Ports...)
			}
		}
	}
	return out
}

// fewer puts groups of one code together where there are too many groups to read.
// The first message stands for all of them.
func fewer(groups []*findingGroup) []*findingGroup {
	if len(groups) <= maxFindings {
		return groups
	}
	type key struct {
		level findings.Level
		code  findings.Code
	}
	at := map[key]*findingGroup{}
	alike := map[key]int{}
	var out []*findingGroup
	for _, g := range groups {
		k := key{g.Level, g.Code}
		if at[k] == nil {
			at[k] = &findingGroup{Level: g.Level, Code: g.Code, Message: g.Message}
			out = append(out, at[k])
		}
		alike[k]++
		for _, name := range g.names {
			at[k].add(name, g.ports[name]...)
		}
		at[k].peers = append(at[k].peers, g.peers...)
	}
	for k, g := range at {
		if n := alike[k]; n > 1 {
			g.Message += fmt.Sprintf(" (and %s like it, with other details)", thousands(n-1))
		}
	}
	return out
}

// shownFindings are the groups that a text lists, and how many of each level it
// leaves out.
func shownFindings(list []findings.Finding) (shown []*findingGroup, left map[findings.Level]int) {
	left = map[findings.Level]int{}
	seen := map[findings.Level]int{}
	for _, g := range fewer(findingGroups(list)) {
		if seen[g.Level]++; seen[g.Level] > maxFindings {
			left[g.Level]++
			continue
		}
		shown = append(shown, g)
	}
	return shown, left
}

// requirementGroup is requirements that differ in their place alone.
type requirementGroup struct {
	of *assess.Requirement // one of them
	places
	peers []string // where the reason is about them
}

func (g *requirementGroup) where() string { return between(g.short(), peerNames(g.peers)) }
