package api_test

import (
	"fmt"
	"testing"

	"github.com/csig-agent/csig/agent/api"
)

// TestChanges: what differs between two statuses, and nothing else, is an event.
func TestChanges(t *testing.T) {
	runs := &api.Status{DataPlane: api.DataPlaneLeased, Ports: []api.Port{{Port: "p1", State: api.StateLive}, {Port: "p2", State: api.StateDown}}}
	stale := &api.Status{DataPlane: api.DataPlaneFallback, DataPlaneReason: "why", Ports: []api.Port{{Port: "p1", State: api.StateStale, Reason: "no answer"}, {Port: "p2", State: api.StateDown}}}
	waits := &api.Status{Waiting: "for a configuration", DataPlane: api.DataPlaneNone}
	for _, tc := range []struct {
		name    string
		was, is *api.Status
		want    string
	}{
		{"the first", nil, runs, "[ data_plane  leased ] [p1 state  live ] [p2 state  down ] "},
		{"the same", runs, runs, ""},
		{"a port falls back", runs, stale, "[ data_plane leased fallback why] [p1 state live stale no answer] "},
		{"it waits", runs, waits, "[ waiting  for a configuration ] [ data_plane leased none ] "},
		{"it runs", waits, runs, "[ waiting for a configuration  ] [ data_plane none leased ] [p1 state  live ] [p2 state  down ] "},
	} {
		got := ""
		for _, e := range api.Changes(tc.was, tc.is) {
			got += fmt.Sprintf("%v ", []string{e.Port, e.What, e.From, e.To, e.Reason})
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
