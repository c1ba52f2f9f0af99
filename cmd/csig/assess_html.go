package main

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/csig-agent/csig/assess"
	"github.com/csig-agent/csig/vendors"
)

//go:embed assess.html
var assessPage string

// page is what the template shows.
type page struct {
	*assess.Assessment
	Total, OfflineText string
	Levels             []levelRow
	Statuses           []statusRow
	Groups             []pageGroup
	Required           []pageRequirement
	Found              []*findingGroup
}

type levelRow struct {
	Name string
	assess.LevelCounts
}

type statusRow struct {
	Status, Meaning string
	Count           int
}

type pageGroup struct {
	Names, Level, Platform, Reason, Basis string
	Count                                 int
	Lines                                 []pageLine
}

type pageLine struct{ What, Text string }

type pageRequirement struct {
	*assess.Requirement
	Places []string
	To     string // peers
	Count  int
}

// assessHTML writes an assessment as one page that needs nothing else.
func assessHTML(w io.Writer, a *assess.Assessment) error {
	t, err := template.New("assess").Funcs(template.FuncMap{"join": strings.Join, "short": func(s string) string { return s[:min(12, len(s))] }}).Parse(assessPage)
	if err != nil {
		return err
	}
	r := &a.Totals.Requirements
	p := page{
		Assessment: a, Total: assessTotal(a), OfflineText: assessOffline, Found: findingGroups(a.Findings),
		Levels: []levelRow{{"devices", a.Totals.Devices}, {"ports", a.Totals.Ports}},
		Statuses: []statusRow{
			{assess.StatusImpossible, "the device cannot do it", r.Impossible},
			{assess.StatusUnmet, "the fleet file has it otherwise", r.Unmet},
			{assess.StatusUnchecked, "csig cannot check from here", r.Unchecked},
			{assess.StatusChoice, "for the operator to decide", r.Choice},
			{assess.StatusPlanned, "csig plan and csig apply see to it", r.Planned},
			{assess.StatusMet, "as it has to be", r.Met},
		},
	}
	for _, g := range assessGroups(a, false) {
		one := pageGroup{vendors.Names(g.names), g.of.Level, g.of.Platform, g.of.Reason, basisText(g.of.Basis), len(g.names), nil}
		for _, l := range g.lines {
			one.Lines = append(one.Lines, pageLine{l.what, l.text})
		}
		p.Groups = append(p.Groups, one)
	}
	for _, g := range requirementGroups(a) {
		p.Required = append(p.Required, pageRequirement{g.of, g.list(vendors.Names), peerNames(g.peers), g.n})
	}
	return t.Execute(w, p)
}

// basisText returns how a device's level is known.
func basisText(b assess.Basis) string {
	switch b {
	case assess.BasisProbe:
		return "the device was asked"
	case assess.BasisPlatform:
		return "its platform's facts"
	}
	return "the fleet file alone"
}
