package plans

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// wardFile is a fleet of one switch with a host below it.
const wardFile = `
format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x9900
  interval: 100ms
  signals:
    abw: {buckets: %s}
devices:
  - name: s1
    platform: linux
    local: true
    ports:
`

// ward is a device with a daemon: its configuration is the ports' actions under
// the buckets that the setup names, else the fleet's.
type ward struct {
	planstest.Differ
	buckets string
	fail    error
}

func (w *ward) Configured(want vendors.Setup) (vendors.Setup, error) {
	buckets := w.buckets
	if f, err := inventory.Parse("x", []byte(want.Config)); want.Config != "" && err == nil {
		for _, s := range f.Profile.Signals {
			buckets = s.Buckets.Preset
		}
	}
	want.Config = fmt.Sprintf(wardFile, buckets)
	for i, p := range want.Ports {
		want.Config += fmt.Sprintf("      - {name: %s, lm: %d, action: %s}\n", p.Port, i+1, p.Action)
	}
	return want, w.fail
}

func TestConfigurationsArePartOfThePlan(t *testing.T) {
	text := fmt.Sprintf(wardFile, "log-10G") + "      - {name: swp1, lm: 1, peer: h1}\n      - {name: swp2, lm: 2, peer: \"s2:swp1\"}\n"
	text += "  - {name: s2, platform: linux, level: passthrough, ports: [{name: swp1, action: passthrough, peer: \"s1:swp2\"}]}\n"
	f, err := inventory.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w := &ward{buckets: "log-10G"}
	full, err := w.Configured(WantOf(f, f.Profile.Hash(), &f.Devices[0], Level{Support: inventory.LevelSoftware}))
	if err != nil {
		t.Fatal(err)
	}
	other := full
	other.Config = strings.Replace(full.Config, "log-10G", "log-1G", 1)
	other.Profile = strings.Repeat("0", 64)
	locator := full
	locator.Config = strings.Replace(full.Config, "lm: 2", "lm: 9", 1)
	bare := full
	bare.Config = ""
	for _, tc := range []struct {
		name  string
		have  vendors.Setup
		goal  Goal
		steps string // stage, buckets and actions of each
	}{
		{"from nothing", vendors.Setup{}, RollOut, "fence log-10G strip; ready log-10G strip update; open log-10G update update; "},
		{"as it is", full, RollOut, ""},
		{"another locator", locator, RollOut, "change log-10G update update; "},
		{"without a daemon's configuration", bare, RollOut, "change log-10G update update; "},
		{"another profile", other, RollOut, "fence log-1G strip update; ready log-10G strip update; open log-10G update update; "},
		{"back to nothing", full, TakeOff, "fence log-10G strip update; ready log-10G strip; open nothing; "},
		{"a configuration, and nothing on the device", vendors.Setup{Config: full.Config}, TakeOff, "change nothing; "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := made(t, f, func(d *inventory.Device) Observation {
				if d.Name != "s1" {
					return unseen(d)
				}
				return Observation{Facts: planstest.Able, Differ: w, Setup: tc.have}
			}, Options{Goal: tc.goal})
			var got string
			for _, s := range p.Stages {
				for _, wave := range s.Waves {
					for _, step := range wave.Steps {
						got += s.Name + " " + summary(t, &step.Want) + "; "
					}
				}
			}
			if got != tc.steps {
				t.Errorf("%s\nwant %s\n%v", got, tc.steps, p.Findings)
			}
			if want := p.Devices[0].Config; (want == "") != (tc.goal == TakeOff) || tc.goal != TakeOff && want != full.Config {
				t.Errorf("the plan says that it will run\n%s", want)
			}
		})
	}

	w.fail = errors.New("no such port")
	p := made(t, f, func(d *inventory.Device) Observation { return Observation{Facts: planstest.Able, Differ: w} }, Options{})
	if len(p.Errors()) == 0 || !strings.Contains(p.Errors()[0].Reason, "the configuration of its daemon: no such port") {
		t.Errorf("%v", p.Findings)
	}
}

// summary is a setup's configuration in a few words; it has to be that of its
// ports.
func summary(t *testing.T, s *vendors.Setup) string {
	t.Helper()
	if s.Nothing() {
		return "nothing"
	}
	f, err := inventory.Parse("x", []byte(s.Config))
	if err != nil {
		t.Fatal(err)
	}
	var out string
	for _, sp := range f.Profile.Signals {
		out = sp.Buckets.Preset
	}
	if len(f.Devices[0].Ports) != len(s.Ports) {
		t.Errorf("setup %+v, configuration\n%s", s.Ports, s.Config)
	}
	for _, action := range []vlanrules.Action{vlanrules.Strip, vlanrules.Update} {
		for _, p := range s.Ports {
			q, ok := f.Devices[0].Port(p.Port)
			if !ok || q.Action != p.Action {
				t.Errorf("port %s: setup %s, configuration %+v", p.Port, p.Action, q)
			}
			if p.Action == action {
				out += " " + action.String()
			}
		}
	}
	return out
}
