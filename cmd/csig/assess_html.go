package main

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
)

//go:embed assess.html
var assessPage string

// page is what the template shows.
type page struct {
	*plans.Assessment
	Total, OfflineText string
	Levels             []levelRow
	Statuses           []statusRow
	Groups             []pageGroup
	Required           []pageRequirement
	Found              []*findingGroup
}

type levelRow struct {
	Name string
	plans.LevelCounts
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
	*plans.Requirement
	Places []string
	To     string // peers
	Count  int
}

// assessHTML writes an assessment as one page that needs nothing else.
func assessHTML(w io.Writer, a *plans.Assessment) error {
	t, err := template.New("assess").Funcs(template.FuncMap{"join": strings.Join, "short": func(s string) string { return s[:min(12, len(s))] }}).Parse(assessPage)
	if err != nil {
		return err
	}
	r := &a.Totals.Requirements
	p := page{
		Assessment: a, Total: assessTotal(a), OfflineText: assessOffline, Found: findingGroups(a.Findings),
		Levels: []levelRow{{"devices", a.Totals.Devices}, {"ports", a.Totals.Ports}},
		Statuses: []statusRow{
			{plans.StatusImpossible, "the device cannot do it", r.Impossible},
			{plans.StatusUnmet, "the fleet file has it otherwise", r.Unmet},
			{plans.StatusUnchecked, "csig cannot check from here", r.Unchecked},
			{plans.StatusChoice, "for the operator to decide", r.Choice},
			{plans.StatusPlanned, "csig plan and csig apply see to it", r.Planned},
			{plans.StatusMet, "as it has to be", r.Met},
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
func basisText(b plans.Basis) string {
	switch b {
	case plans.BasisProbe:
		return "the device was asked"
	case plans.BasisPlatform:
		return "its platform's facts"
	}
	return "the fleet file alone"
}
