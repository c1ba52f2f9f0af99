package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/agent/api"
)

// manyPorts is a status of 64 ports; the one that is down and the one that is refused are
// at the end of the file.
func manyPorts() *api.Status {
	s := sampleStatus()
	live := s.Ports[0]
	s.Ports = nil
	for i := range 64 {
		p := live
		p.Port = fmt.Sprintf("swp%d", i+1)
		switch i {
		case 20:
			p.ABWCPPM = 123000
		case 60:
			p = api.Port{Port: p.Port, State: api.StateDown, Reason: "the link is down"}
		case 62:
			p = api.Port{Port: p.Port, State: api.StateRefused, Reason: "its table is full"}
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// What is wrong is in the window, however small.
func TestStatusInAWindow(t *testing.T) {
	for _, c := range []struct{ columns, rows, ports int }{{80, 24, 10}, {40, 12, 4}, {132, 50, 34}, {30, 8, 1}} {
		t.Run(fmt.Sprintf("%dx%d", c.columns, c.rows), func(t *testing.T) {
			s := manyPorts()
			text := fitStatus(s, statusText(s, c.columns-1, 0), 0, c.columns-1, c.rows-1)
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if len(lines) > c.rows-1 {
				t.Errorf("%d lines", len(lines))
			}
			shown := 0
			for _, l := range lines {
				if utf8.RuneCountInString(l) >= c.columns {
					t.Errorf("%d columns: %q", utf8.RuneCountInString(l), l)
				}
				if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(f[0], "swp") && !strings.HasSuffix(f[0], ":") {
					if shown++; shown == 1 && f[0] != "swp63" || shown == 2 && f[0] != "swp61" {
						t.Errorf("port %d is %s", shown, f[0])
					}
				}
			}
			if shown < c.ports {
				t.Errorf("%d ports, want %d or more", shown, c.ports)
			}
			if one := strings.Join(strings.Fields(text), " "); !strings.Contains(one, "64 ports: 1 refused, 1 down, 62 live") || !strings.Contains(one, fmt.Sprintf("and %d ports more", 64-shown)) {
				t.Errorf("the counts are missing in\n%s", text)
			}
			if t.Failed() {
				t.Log("\n" + text)
			}
		})
	}
	s := manyPorts()
	if text := statusText(s, 80, 3); !strings.Contains(text, "\nswp63  refused") || !strings.Contains(text, "and 61 ports more (--rows 0 shows all)") || strings.Contains(text, "\nswp2 ") {
		t.Errorf("--rows 3:\n%s", text)
	}
	down := api.Port{Port: "swp1", State: api.StateDown, WindowEnd: &s.Time}
	if table, _ := portTable([]api.Port{down}, false, 0); strings.Join(strings.Fields(table[1]), " ") != "swp1 down - 0 0 0.0% - -" {
		t.Errorf("a capacity that is not known: %q", table[1])
	}
	if all := statusText(sampleStatus(), 79, 0); fitStatus(sampleStatus(), all, 0, 79, 60) != all {
		t.Error("what fits is changed")
	}
}

// elsewhere makes a status that of a controller which is not the owner, whose own is so old.
func elsewhere(age time.Duration, state string) func(*api.Status) {
	return func(s *api.Status) {
		own := *s
		own.Ports[0].State = state
		*s = api.Status{Waiting: "no controller drives tor1", Time: own.Time.Add(age), Elsewhere: &own}
	}
}

// Exit codes are those of monitoring plugins.
func TestStatusForMonitoring(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*api.Status)
		code int
		want string
	}{
		{"all live", func(*api.Status) {}, checkOK, "tor1: 1 port: 1 live; least ABW/C 87.7% at swp1"},
		{"a link down", func(s *api.Status) { s.Ports = append(s.Ports, api.Port{Port: "swp9", State: api.StateDown}) }, checkWarning, "swp9 is down"},
		{"a port that is refused", func(s *api.Status) {
			s.Ports = append(s.Ports, api.Port{Port: "swp8", State: api.StateDown}, api.Port{Port: "swp9", State: api.StateRefused, Reason: "its table is full"})
		}, checkCritical, "swp9 is refused (its table is full)"},
		{"every port refused", func(s *api.Status) { s.Ports[0] = api.Port{Port: "swp1", State: api.StateRefused} }, checkCritical, "1 port: 1 refused"},
		{"stale", func(s *api.Status) { s.Ports[0].State = api.StateStale }, checkCritical, "1 stale"},
		{"a state of a later version", func(s *api.Status) { s.Ports[0].State = "odd" }, checkCritical, "1 odd"},
		{"strip and passthrough", func(s *api.Status) {
			s.Ports = []api.Port{{Port: "swp1", State: api.StateStrip}, {Port: "swp2", State: api.StatePassthrough}}
		}, checkOK, "1 passthrough, 1 strip"},
		{"a lease that ended", func(s *api.Status) { s.DataPlane = api.DataPlaneFallback }, checkCritical, "ENDED"},
		{"a shadow", func(s *api.Status) { s.DataPlane = api.DataPlaneShadow }, checkWarning, "SHADOW"},
		{"cycles that fail", func(s *api.Status) { s.Cycle.LastError = "no netlink" }, checkCritical, "no netlink"},
		{"a bad file", func(s *api.Status) { s.Reload = &api.Reload{Error: "f.yaml:3:1: what"} }, checkWarning, "f.yaml:3:1"},
		{"no drift", func(s *api.Status) { s.Drift = &api.Drift{} }, checkOK, "1 live"},
		{"drift", func(s *api.Status) { s.Drift = &api.Drift{Differences: []api.Difference{{Port: "swp1", What: "gone"}}} }, checkWarning, "drift, 1 difference: port swp1: gone"},
		{"drift that is not checked", func(s *api.Status) { s.Drift = &api.Drift{Error: "no answer"} }, checkWarning, "drift not checked: no answer"},
		{"a cycle that hangs", func(s *api.Status) { s.Cycle.Hangs = true }, checkCritical, "no cycle ends"},
		{"a setup that is not complete", func(s *api.Status) { s.SetupIncomplete = true }, checkWarning, "the setup is not complete"},
		{"waits", func(s *api.Status) { s.Waiting = "for a configuration" }, checkWarning, "waits: for a configuration"},
		{"another controller drives it", elsewhere(12*time.Second, api.StateLive), checkOK, "the owner's: tor1: 1 port: 1 live"},
		{"no controller drives it", elsewhere(2*time.Hour, api.StateLive), checkWarning, "waits: no controller drives tor1; the owner's last status, 2h0m0s ago: tor1: 1 port: 1 live"},
		{"no controller drives it, and it was stale", elsewhere(2*time.Hour, api.StateStale), checkCritical, "waits: no controller drives tor1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sampleStatus()
			s.Ports, s.Cycle.LastError, s.Drift = s.Ports[:1], "", nil
			s.Cycle.LeaseEnds = s.Time.Add(100e6)
			c.edit(s)
			if code, why := judgeStatus(s); code != c.code || !strings.Contains(why, c.want) {
				t.Errorf("%d %q, want %d with %q", code, why, c.code, c.want)
			}
		})
	}
}
