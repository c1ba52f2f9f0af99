package device

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
)

// TestObservePanics: a driver that panics is its device's error in plan and assess.
func TestObservePanics(t *testing.T) {
	registry := &all.Registry{}
	for _, name := range []string{"bad", "good"} {
		registry.Register(name, all.Platform{
			Title: name,
			Open: func(vendors.Config) (vendors.Driver, error) {
				if name == "bad" {
					var none []int
					_ = none[len(name)]
				}
				return nil, &vendors.PermanentError{Err: vendors.ErrNotYet}
			},
			Offline: func() vendors.Facts { return vendors.Facts{} },
			Diff:    func(_, _ vendors.Setup) ([]vendors.Change, error) { return nil, nil },
		})
	}
	r := &Opener{ReadOnly: true, Registry: registry, Fleet: &inventory.Fleet{Devices: []inventory.Device{{Name: "a", Platform: "bad", Local: true}, {Name: "b", Platform: "good", Local: true}}}}
	seen, err := r.ObserveAll(t.Context(), 2, time.Minute, nil)
	if err != nil || len(seen) != 2 {
		t.Fatalf("%v, %v", seen, err)
	}
	if err := seen["a"].Err; err == nil || !strings.Contains(err.Error(), "please report it: runtime error: index out of range") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if err := seen["b"].Err; err == nil || strings.Contains(err.Error(), "defect") {
		t.Errorf("got %v", err)
	}
}

// TestUnproven: apply refuses a plan that an older csig made for a device of an experimental
// platform, unless the fleet file names facts or opts in.
func TestUnproven(t *testing.T) {
	yes := true
	for name, tc := range map[string]struct {
		dev    inventory.Device
		goal   plans.Goal
		refuse bool
	}{
		"experimental":  {inventory.Device{Platform: "sonic"}, plans.RollOut, true},
		"opted in":      {inventory.Device{Platform: "sonic", Experimental: true}, plans.RollOut, false},
		"measured":      {inventory.Device{Platform: "sonic", Facts: &inventory.Facts{Strip: new(bool), UpdateExact: &yes}}, plans.RollOut, false},
		"no rule tried": {inventory.Device{Platform: "sonic", Facts: &inventory.Facts{Passthrough: &yes}}, plans.RollOut, true},
		"taken off":     {inventory.Device{Platform: "sonic"}, plans.TakeOff, false},
		"of hardware":   {inventory.Device{Platform: "linux"}, plans.RollOut, false},
	} {
		tc.dev.Name = "a"
		o := NewOpener(&inventory.Fleet{Devices: []inventory.Device{tc.dev}})
		want := vendors.Setup{TPID: 0x88a8, Ports: []vendors.PortSetup{{Port: "Ethernet0", Action: vlanrules.Update}}}
		p := &plans.Plan{Goal: tc.goal, Stages: []plans.Stage{{Waves: []plans.Wave{{Steps: []plans.Step{{Device: "a", Want: want}}}}}}}
		if err := o.Unproven(p); (err != nil) != tc.refuse || tc.refuse && !strings.Contains(err.Error(), "device a: its driver is experimental: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUpdatesOfOlderPlan: apply refuses a plan that an older csig made for a device whose
// updates are changes of configuration, unless the fleet file allows those.
func TestUpdatesOfOlderPlan(t *testing.T) {
	every := vendors.That(10*time.Second, vendors.Source{Mark: vendors.Assumed, From: "the test"})
	facts := func() vendors.Facts {
		return vendors.Facts{ConfigUpdates: &vendors.ConfigUpdates{Interval: every, Lines: 3}}
	}
	for _, tc := range []struct {
		updates inventory.Updates
		action  vlanrules.Action
		refuse  bool
	}{{"", vlanrules.Update, true}, {inventory.UpdatesCLI, vlanrules.Update, false}, {"", vlanrules.Strip, false}} {
		o := NewOpener(&inventory.Fleet{Devices: []inventory.Device{{Name: "a", Platform: "lines", Updates: tc.updates}}})
		o.Registry = new(all.Registry)
		o.Registry.Register("lines", all.Platform{Title: "Lines", Offline: facts})
		want := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, Ports: []vendors.PortSetup{{Port: "1", Action: tc.action}}}
		p := &plans.Plan{Goal: plans.RollOut, Stages: []plans.Stage{{Waves: []plans.Wave{{Steps: []plans.Step{{Device: "a", Want: want}}}}}}}
		if err := o.Unproven(p); (err != nil) != tc.refuse || tc.refuse && !strings.Contains(err.Error(), "device a: each update of its signal is a change of its configuration") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// TestVia has plans show how each device is reached, and as which user.
func TestVia(t *testing.T) {
	admin := &inventory.SSH{User: "admin", Port: 22, Sudo: &inventory.Sudo{Password: inventory.Secret{File: "/etc/csig/sudo"}}}
	for _, row := range []struct {
		want string
		how  inventory.Management
	}{
		{"ssh root@192.0.2.1", inventory.Management{SSH: &inventory.SSH{User: "root"}}},
		{"ssh admin@192.0.2.1, sudo", inventory.Management{SSH: admin}},
		{"daemon /run/csig/agent.sock over ssh 192.0.2.1", inventory.Management{SSH: admin, Daemon: &inventory.Daemon{Socket: "/run/csig/agent.sock"}}},
		{"ssh root@192.0.2.1:2222", inventory.Management{SSH: &inventory.SSH{User: "root", Port: 2222}}},
		{"netns /run/netns/s1", inventory.Management{NetNS: "/run/netns/s1"}},
	} {
		if got := Via(&inventory.Device{Address: "192.0.2.1", Management: row.how}); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}
