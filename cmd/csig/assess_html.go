package main

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/vendors"
)

//go:embed assess.html
var assessPage string

// page is what the template shows.
type page struct {
	*assess.Assessment
	Total, OfflineText string
	NotReadText        string
	LevelTable         [][]string
	Statuses           []string
	Groups             []assessGroup
	Required           []*requirementGroup
	Found              []*findingGroup
}

// statusMeaning is what the states of a requirement mean.
var statusMeaning = map[string]string{
	assess.StatusImpossible: "the device cannot do it",
	assess.StatusUnmet:      "the fleet file has it otherwise",
	assess.StatusUnchecked:  "csig cannot check from here",
	assess.StatusChoice:     "for the operator to decide",
	assess.StatusPlanned:    "csig plan and csig apply see to it",
	assess.StatusMet:        "as it has to be",
}

// assessHTML writes an assessment as one page that needs nothing else.
func assessHTML(w io.Writer, a *assess.Assessment) error {
	t, err := template.New("assess").Funcs(template.FuncMap{
		"join": strings.Join, "short": func(s string) string { return s[:min(12, len(s))] }, "names": vendors.Names,
		"basis": basisText, "meaning": func(status string) string { return statusMeaning[status] },
	}).Parse(assessPage)
	if err != nil {
		return err
	}
	return t.Execute(w, page{
		Assessment: a, Total: assessTotal(a), OfflineText: assessOffline, NotReadText: assessNotRead(a), LevelTable: levelTable(a, "all"), Statuses: assess.Statuses,
		Groups: assessGroups(a, false), Required: requirementGroups(a), Found: findingGroups(a.Findings),
	})
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
