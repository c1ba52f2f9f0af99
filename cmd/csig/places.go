package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/plans"
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

// masked is a text without the name of the far end that it is about.
func masked(text, far string) string {
	if far == "" {
		return text
	}
	return strings.ReplaceAll(text, far, "\x00")
}

// unmasked puts the names of far ends back.
func unmasked(text string, far []string) string {
	if !strings.Contains(text, "\x00") {
		return text
	}
	var p places
	slices.SortFunc(far, vendors.CompareNames)
	for _, name := range slices.Compact(far) {
		p.add(name)
	}
	return strings.ReplaceAll(text, "\x00", p.short())
}

// findingGroup is findings that differ in their place alone, or in the far end
// of it.
type findingGroup struct {
	Severity, Message string
	places
}

// Where is every place, "" for the fleet as a whole.
func (f *findingGroup) Where() string { return f.all() }

// findingGroups puts findings that differ in their place alone together, errors
// first.
func findingGroups(findings []plans.Finding) []*findingGroup {
	type key struct{ severity, message string }
	at := map[key]*findingGroup{}
	far := map[key][]string{}
	var order []key
	for _, severity := range []string{plans.SeverityError, plans.SeverityWarning} {
		for _, f := range findings {
			if f.Severity != severity {
				continue
			}
			k := key{severity, masked(f.Message, f.Far)}
			if at[k] == nil {
				order = append(order, k)
				at[k] = &findingGroup{Severity: severity}
			}
			far[k] = append(far[k], f.Far)
			switch {
			case f.Port != "":
				at[k].add(f.Device, f.Port)
			case f.Device != "":
				at[k].add(f.Device)
			}
		}
	}
	out := make([]*findingGroup, 0, len(order))
	for _, k := range order {
		at[k].Message = unmasked(k.message, far[k])
		out = append(out, at[k])
	}
	return out
}

// requirementGroup is requirements that differ in their place alone, or in the
// far end of it.
type requirementGroup struct {
	of  *plans.Requirement // one of them
	why string
	places
}
