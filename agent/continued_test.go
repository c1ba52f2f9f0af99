package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSignalsOfAnotherProfile: until its first cycle, an agent reports what the
// one before it had programmed only where the profile is the same.
func TestSignalsOfAnotherProfile(t *testing.T) {
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			src, drv := &script{rate: 300e6}, &recorder{}
			old := newTest(t, src, drv)
			cycles(t, old, 3)
			cfg := testConfig(t, src, drv)
			if !same {
				log, err := quantize.Preset(quantize.MinABWC, "log")
				if err != nil {
					t.Fatal(err)
				}
				cfg.Profile.Signals[quantize.MinABWC] = quantize.SignalProfile{Buckets: log}
			}
			a, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			a.continueFrom(old, true)
			want := []api.Signal{}
			if same {
				want = old.Status().Ports[0].Signals
			}
			if got := a.Status().Ports[0].Signals; !reflect.DeepEqual(got, want) || same && len(got) != 2 {
				t.Errorf("same profile %v: %+v, want %+v", same, got, want)
			}
		})
	}
}

// TestSourceOfAnotherConfiguration: what decides how counters are read opens
// them again.
func TestSourceOfAnotherConfiguration(t *testing.T) {
	for _, tc := range []struct {
		name, old, new string
		sources        int
	}{
		{"the locator", "lm: 5", "lm: 7", 1},
		{"the buckets", "log-1G", "log-10G", 1},
		{"the TPID", "0x9900", "0x9901", 1},
		{"the TPID, to one that the kernel moves", "format: csig.fleet/v1\nprofile:\n  name: test\n  tpid: 0x9900", "format: csig.fleet/v1\nvlan_tpids: [0x8100]\nprofile:\n  name: test\n  tpid: 0x88a8", 2},
		{"the port", "swp1", "swp2", 2},
		{"the speed", "speed: 1G", "speed: 10G", 2},
		{"one port more", "lm: 5}", "lm: 5}\n      - {name: swp2, speed: 1G, lm: 6}", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, &recorder{}, nil)
				k.begin(t)
				defer k.close(t)
				k.configure(t, deviceText)
				k.configure(t, changed(tc.old, tc.new))
				if k.sources != tc.sources {
					t.Errorf("%d sources, want %d", k.sources, tc.sources)
				}
			})
		})
	}
}

// TestSightingOverAChange: a setup that was gone is restored with the next
// configuration; a fallback stays one until a cycle ends it.
func TestSightingOverAChange(t *testing.T) {
	withoutLease := vendors.Facts{Lease: vlanrules.Verdict{Level: vlanrules.Refused}}
	for _, tc := range []struct {
		name      string
		clear     bool
		want, now string
	}{
		{"gone", true, api.DataPlaneAbsent, api.DataPlaneFrozen},
		{"fallen back", false, api.DataPlaneFallback, api.DataPlaneFallback},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, drv := &script{}, &recorder{facts: withoutLease}
				old := newTest(t, src, drv)
				cycles(t, old, 3)
				src.device = errors.New("no counters")
				if tc.clear {
					drv.clear()
				}
				cycles(t, old, 8)
				if s := old.Status(); s.DataPlane != tc.want || (drv.released == 0) != tc.clear {
					t.Fatalf("%s: %s, released %d times", s.DataPlane, s.DataPlaneReason, drv.released)
				}
				a, err := New(testConfig(t, src, drv))
				if err != nil {
					t.Fatal(err)
				}
				a.facts = withoutLease
				a.continueFrom(old, true)
				if s := a.Status(); s.DataPlane != tc.now {
					t.Errorf("the next configuration: %s (%s), want %s", s.DataPlane, s.DataPlaneReason, tc.now)
				}
			})
		})
	}
}

// TestLogOfARepairedLapse: where rules had to be restored, it is not known
// what the ports did when the lease ended.
func TestLogOfARepairedLapse(t *testing.T) {
	for _, repaired := range []string{"", "table 60", "a restart"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			src, drv := &script{}, &recorder{}
			a := newTest(t, src, drv)
			a.log.Logger.SetOutput(&out)
			cycles(t, a, 3)
			if n := a.Status().Cycle.Repairs; n != 0 {
				t.Errorf("%d repairs", n)
			}
			drv.update = errors.New("busy") // it cannot be updated, and is not read
			drv.blind = errors.New("busy")
			cycles(t, a, 5)
			drv.update, drv.restarted = nil, repaired == "a restart"
			if repaired != "" {
				drv.repaired = vendors.Repairs{{Object: "flows", Text: repaired}}
			}
			cycles(t, a, 1)
			drv.repaired, drv.restarted = nil, false
			cycles(t, a, 1)
			text, n := out.String(), a.Status().Cycle.Repairs
			if gone := strings.Contains(text, "rules were missing or changed"); gone != (repaired != "") || gone != (n == 1) || repaired != "" && !strings.Contains(text, repaired) {
				t.Errorf("repaired %q: %d repairs, the log:\n%s", repaired, n, text)
			}
			if others := strings.Contains(text, "changed by another process"); others != (repaired == "table 60") {
				t.Errorf("repaired %q: the log:\n%s", repaired, text)
			}
		})
	}
}

// TestShortcomings lists what the device does not do of what it is asked for, and
// nothing else.
func TestShortcomings(t *testing.T) {
	refused := func(why string) vlanrules.Verdict {
		return vlanrules.Verdict{Level: vlanrules.Refused, Reason: why}
	}
	facts := vendors.Facts{Lease: refused("no timers"), Strip: refused("no BPF"), Wide: refused("no room")}
	facts.TagDepths = append(facts.TagDepths, vlanrules.Verdict{}, refused("one tag"))
	for _, tc := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"plain", func(*Config) {}, "lease: no timers|tags behind 1 VLAN tags: one tag"},
		{"wide", func(c *Config) { c.Profile.WideTPID = 0x9901 }, "lease: no timers|wide tags: no room|tags behind 1 VLAN tags: one tag"},
		{"strip", func(c *Config) {
			c.Device.Ports = append(c.Device.Ports, inventory.Port{Name: "swp2", Action: vlanrules.Strip}, inventory.Port{Name: "swp3", Action: vlanrules.Strip})
		}, "lease: no timers|strip: no BPF|tags behind 1 VLAN tags: one tag"},
	} {
		cfg := testConfig(t, &script{}, &recorder{})
		tc.edit(&cfg)
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.facts = facts
		var got []string
		for _, v := range a.Status().Verdicts {
			got = append(got, v.What+": "+v.Reason)
		}
		if text := strings.Join(got, "|"); text != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, text, tc.want)
		}
	}
}

// TestEndedAutoRevert: a timer that ends beside a confirmation, or beside the
// daemon's end, does nothing.
func TestEndedAutoRevert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, &recorder{}, nil)
		k.begin(t)
		k.configure(t, deviceText)
		k.arm(t)
		first := k.pending
		k.configure(t, changed("lm: 5", "lm: 7"))
		k.revert(first)
		if got := k.runs(t); got != "7" {
			t.Errorf("behind its end it runs %q", got)
		}
		k.arm(t)
		k.close(t)
		k.revert(k.pending)
		if _, err := os.Stat(k.revertFile()); err != nil {
			t.Errorf("the next start does not go back: %v", err)
		}
	})
}

// TestStartBesideForeignFiles: a file of a user's that has the name of one of
// csig's stops the start, and stays.
func TestStartBesideForeignFiles(t *testing.T) {
	for name, says := range map[string]string{".removing": "move it away", ".armed": "cannot be restored"} {
		t.Run(name, func(t *testing.T) {
			drv := &recorder{}
			k := newKeeper(t, drv, nil)
			path := k.cfg.File + name
			if name == ".armed" { // one that cannot even be read
				path = filepath.Join(path, "a user's")
				if err := os.Mkdir(k.cfg.File+name, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, []byte(deviceText), 0o600); err != nil {
				t.Fatal(err)
			}
			k.begin(t)
			defer k.close(t)
			if why := k.Status().Waiting; !strings.Contains(why, k.cfg.File+name) || !strings.Contains(why, says) {
				t.Errorf("it waits %s", why)
			}
			if text, e := os.ReadFile(path); e != nil || string(text) != deviceText || drv.removed != 0 {
				t.Errorf("it is %q, %v; %d removals", text, e, drv.removed)
			}
		})
	}
}
