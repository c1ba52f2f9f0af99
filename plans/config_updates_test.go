package plans

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestConfigUpdates plans a device whose updates are changes of its configuration: refused
// without what the fleet file has to say, else with what they cost.
func TestConfigUpdates(t *testing.T) {
	none := vlanrules.Verdict{Level: vlanrules.Refused, Reason: "lines do not expire"}
	const assumed = "each update is a change of its configuration, at most one every 10s (assumed): at most 3240 lines an hour in accounting logs; no agent has observed the rate of bucket changes for 10 minutes, and it is assumed that all 3 change with each update"
	for name, tc := range map[string]struct {
		updates  inventory.Updates
		lease    inventory.Lease
		facts    func(*vendors.Facts)
		goal     Goal
		code     findings.Code
		level    findings.Level
		want     string
		measured time.Duration
	}{
		"not allowed":          {code: findings.UpdatesRefused, level: findings.Error, want: "each update of its signal is a change of its configuration (3 lines in accounting logs for each bucket), which the fleet file does not allow: allow it (updates: cli on the device, a group or defaults)"},
		"allowed":              {updates: inventory.UpdatesCLI, code: findings.UpdatesCost, level: findings.Info, want: assumed},
		"nothing withdraws it": {updates: inventory.UpdatesCLI, facts: func(f *vendors.Facts) { f.Lease = none }, code: findings.UpdatesRefused, level: findings.Error, want: "there is no lease (lines do not expire) and no dead-man on the device; accept that its last values stay advertised then (lease: none"},
		"accepted":             {updates: inventory.UpdatesCLI, lease: inventory.LeaseNone, facts: func(f *vendors.Facts) { f.Lease = none }, code: findings.UpdatesCost, level: findings.Info, want: assumed},
		"a dead-man":           {updates: inventory.UpdatesCLI, facts: func(f *vendors.Facts) { f.Lease, f.ConfigUpdates.DeadMan = none, "EEM applet" }, code: findings.UpdatesCost, level: findings.Info, want: assumed},
		"lease: none alone":    {lease: inventory.LeaseNone, code: findings.UpdatesRefused, level: findings.Error, want: "updates: cli"},
		"observed": {updates: inventory.UpdatesCLI, facts: func(f *vendors.Facts) {
			f.ConfigUpdates.Changes = vendors.That(20.0, vendors.Source{Mark: vendors.Ran, From: "5 changes in the 15m that its agent has run"})
		}, code: findings.UpdatesCost, level: findings.Info, want: ": about 60 lines an hour in accounting logs, at the rate of bucket changes that was observed (5 changes in the 15m that its agent has run)"},
		"measured to be slower": {updates: inventory.UpdatesCLI, facts: func(f *vendors.Facts) {
			f.Traits.MinUpdate = vendors.That(36*time.Second, vendors.Source{Mark: vendors.Ran, From: "csig qualify"})
		}, code: findings.UpdatesCost, level: findings.Info, want: "at most one every 36s (ran): at most 900 lines"},
		"slower than its lease": {facts: func(f *vendors.Facts) {
			f.ConfigUpdates, f.Traits.MinUpdate = nil, vendors.That(time.Hour, vendors.Source{Mark: vendors.Ran, From: "csig qualify"})
		}, code: findings.ScheduleTooFast, level: findings.Error, want: "an update of its rules takes up to 1h0m0s (ran), and a lease lasts"},
		"taken off":        {goal: TakeOff},
		"no configuration": {facts: func(f *vendors.Facts) { f.ConfigUpdates = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			f.Devices[0].Updates, f.Devices[0].Lease, f.Devices[0].Schedule = tc.updates, tc.lease, "@every 1s"
			for i := range f.Hosts {
				f.Hosts[i].MTU = 1508
			}
			p := made(t, f, func(d *inventory.Device) Observation {
				o := unseen(d)
				if d.Name != "leaf0" {
					return o
				}
				o.Facts.ConfigUpdates = &vendors.ConfigUpdates{Interval: vendors.That(10*time.Second, vendors.Source{Mark: vendors.Assumed, From: "the test"}), Lines: 3}
				if tc.facts != nil {
					tc.facts(&o.Facts)
				}
				if tc.goal == TakeOff {
					o.Setup = planstest.SetUp(d, 0x9900, 0)
				}
				return o
			}, Options{Goal: tc.goal, Now: time.Unix(1e9, 0)})
			var got findings.Finding
			for _, one := range p.Findings {
				if slices.Contains([]findings.Code{findings.UpdatesRefused, findings.UpdatesCost, findings.ScheduleTooFast}, one.Code) {
					got = one
				}
			}
			if got.Code != tc.code || got.Level != tc.level || !strings.Contains(got.Reason, tc.want) || tc.code != "" && got.Device != "leaf0" {
				t.Errorf("got %+v\nwant %s %s: %s", got, tc.level, tc.code, tc.want)
			}
			if stops := len(p.Errors()) > 0; stops != (tc.level == findings.Error) {
				t.Errorf("errors: %v", p.Errors())
			}
		})
	}
}
