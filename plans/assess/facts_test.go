package assess

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
)

// TestFactsInAssessments: what was measured of a model takes the place of what is assumed
// and read, says so, and is asked for where a driver never ran on hardware.
func TestFactsInAssessments(t *testing.T) {
	no, yes, refresh := false, true, 3*time.Second
	most := 9236
	measured := &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900},
		Loses: &[]string{"DEI"}, ECN: &no, CounterRefresh: &refresh, UpdateExact: &yes}
	noRule := &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900}, MaxFrame: &most}
	for name, tc := range map[string]struct {
		facts    *inventory.Facts
		optIn    bool
		identity vendors.Identity
		want     []string // parts of the device's findings, in order
		notes    string
		refresh  string
	}{
		"nothing measured": {want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "csig apply does not set it up: its driver is experimental: never on a switch, and no facts are of its model; measure its model"}, refresh: "unknown"},
		"opted in":         {optIn: true, want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "its driver is experimental (never on a switch), and no facts are of its model"}, refresh: "unknown"},
		"measured": {facts: measured, want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN"},
			notes: "ECN is not marked behind the tag (ran on M32 1.2, 2026-11-22); it refreshes its counters at most every 3s (ran on M32 1.2, 2026-11-22)", refresh: "ran on M32 1.2, 2026-11-22"},
		"no rule tried": {facts: noRule, want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "csig apply does not set it up: its driver is experimental: never on a switch, and facts m32 do not show that its rules are right: they have no update_exact; measure its model"},
			notes: "frames with the tag of up to 9236 bytes without the FCS pass (ran on M32 1.2, 2026-11-22)", refresh: "unknown"},
		"of another version": {facts: measured, identity: vendors.Identity{Version: "1.3"},
			want: []string{"facts m32 are not used: they are of M32 1.2, and it runs 1.3: qualify it again", "so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "csig apply does not set it up"}, refresh: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 0, 1)
			d := &f.Devices[0]
			d.Facts, d.Experimental, d.Interval = tc.facts, tc.optIn, 10*time.Second
			a := assessed1(f, func(*inventory.Device) Evidence {
				e := Evidence{Basis: BasisProbe, Observation: plans.Observation{Facts: planstest.Able, Experimental: "never on a switch"}, Counters: Freshness{Source: "snmp"}}
				e.Facts.Identity = tc.identity
				return e
			})
			var got []string
			for _, f := range a.Findings {
				if f.Device != "" {
					got = append(got, f.Reason)
				}
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			for _, want := range tc.want {
				if !slices.ContainsFunc(got, func(reason string) bool { return strings.Contains(reason, want) }) || len(got) != len(tc.want) {
					t.Errorf("got  %q\nwant %q", got, tc.want)
				}
			}
			if notes := strings.Join(a.Devices[0].Notes, "; "); notes != tc.notes || a.Devices[0].Signal.Refresh != tc.refresh {
				t.Errorf("notes %q, refresh %q", notes, a.Devices[0].Signal.Refresh)
			}
			if used := strings.Contains(a.Devices[0].Update.Reason, "ran on M32 1.2, 2026-11-22"); used != (tc.notes != "") {
				t.Errorf("update: %+v", a.Devices[0].Update)
			}
		})
	}
}

// What csig qualify saw of the counters' refresh is an upper bound: it does not make the
// interval of counters longer that were read and are live.
func TestMeasuredRefreshOfLiveCounters(t *testing.T) {
	refresh := 3 * time.Second
	q := &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900}, CounterRefresh: &refresh}
	shortest := func(facts *inventory.Facts, c Freshness) int64 {
		f := planstest.Fabric(1, 0, 1)
		f.Devices[0].Facts = facts
		return assessed1(f, func(*inventory.Device) Evidence {
			return Evidence{Basis: BasisProbe, Observation: plans.Observation{Facts: planstest.Able}, Counters: c}
		}).Devices[0].Signal.ShortestNS
	}
	live := Freshness{Source: "linux", Readings: 10, Kind: "live"}
	if with, without := shortest(q, live), shortest(nil, live); with != without || with >= refresh.Nanoseconds() {
		t.Errorf("the shortest honest interval of live counters is %d ns, and %d ns without facts", with, without)
	}
	if got := shortest(q, Freshness{Source: "snmp"}); got != refresh.Nanoseconds() {
		t.Errorf("of counters that were not read it is %d ns", got)
	}
}
