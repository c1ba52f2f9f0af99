package plans

import (
	"errors"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// What a device refuses while it is looked at takes nothing off it: the operator
// says so, by its level or by taking csig off everywhere.
func TestRefusalIsNoLevel(t *testing.T) {
	refusing := func(d *inventory.Device) Observation {
		s := unseen(d)
		if had(0x9900, 0)(&s, d); d.Name == "leaf0" {
			s.Facts.Update = vlanrules.Verdict{Level: vlanrules.Refused, Reason: "p4rt_app runs"}
		}
		return s
	}
	for name, tc := range map[string]struct {
		level   inventory.Support
		goal    Goal
		removed bool
	}{
		"auto":            {inventory.LevelAuto, RollOut, false},
		"told so":         {inventory.LevelDiscard, RollOut, true},
		"told to pass on": {inventory.LevelPassthrough, RollOut, true},
		"taken off":       {inventory.LevelAuto, TakeOff, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			f.Devices[0].Level.Support = tc.level
			for i := range f.Hosts {
				f.Hosts[i].CSIG = tc.level != inventory.LevelDiscard
			}
			for i := range f.Devices {
				for k := range f.Devices[i].Ports {
					if tc.level == inventory.LevelDiscard {
						f.Devices[i].Ports[k].Action = vlanrules.Strip
					}
				}
			}
			p := made(t, f, refusing, Options{Goal: tc.goal})
			d := p.Device("leaf0")
			removed := false
			for _, c := range d.Changes {
				removed = removed || c.Kind == string(vendors.Remove)
			}
			if removed != tc.removed || (len(p.Errors()) > 0) == tc.removed || p.Empty() == tc.removed {
				t.Errorf("%+v\n%v\n%s", d.Changes, p.Errors(), outline(p))
			}
			if !tc.removed && (d.Level != "unknown" || p.Totals != (Totals{})) {
				t.Errorf("its level is %s; %+v", d.Level, p.Totals)
			}
		})
	}
}

func TestLeftAlone(t *testing.T) {
	book := vendors.Source{Mark: vendors.Read, From: "a book"}
	for name, tc := range map[string]struct {
		level inventory.Support
		seen  func(s *Observation, d *inventory.Device)
		want  Alone
	}{
		"driven": {inventory.LevelAuto, func(*Observation, *inventory.Device) {}, ""},
		"no driver": {inventory.LevelAuto, func(s *Observation, _ *inventory.Device) {
			*s = Observation{NoDriver: "csig has no driver for Plan 9", Facts: vendors.Facts{Update: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "no"}}}
		}, AloneNoDriver},
		"unknown": {inventory.LevelPassthrough, func(s *Observation, _ *inventory.Device) {
			*s = Observation{Err: &vendors.PermanentError{Err: &vendors.NoDriverError{Platform: "plan9", Err: errors.New("no answer")}}}
		}, AloneUnknown},
		"silent": {inventory.LevelPassthrough, func(s *Observation, _ *inventory.Device) { *s = Observation{Err: errors.New("no answer")} }, AloneUnreached},
		"another TPID": {inventory.LevelAuto, func(s *Observation, _ *inventory.Device) {
			s.Facts.Traits.TPIDs = vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x88a8}}, book)
		}, AloneTPID},
		"native":                     {inventory.LevelNative, func(*Observation, *inventory.Device) {}, AloneNative},
		"native, with rules of csig": {inventory.LevelNative, had(0x9900, 0), ""},
		"passes on, as it is told":   {inventory.LevelPassthrough, func(*Observation, *inventory.Device) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			f.Devices[2].Level.Support = tc.level
			p := made(t, f, func(d *inventory.Device) Observation {
				s := unseen(d)
				if d.Name == "spine0" {
					tc.seen(&s, d)
				}
				return s
			}, Options{})
			if d := p.Device("spine0"); d.LeftAlone != tc.want || len(p.Errors()) > 0 {
				t.Errorf("%q, want %q: %v", d.LeftAlone, tc.want, p.Errors())
			}
			if d := p.Device("leaf0"); d.LeftAlone != "" {
				t.Errorf("the leaf, too: %q", d.LeftAlone)
			}
		})
	}
}

// disturbing is a platform whose ports disturb ordinary traffic when they go.
type disturbing struct{}

func (*disturbing) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	var out []vendors.Change
	for o, p := range vendors.PortPairs(have.Ports, want.Ports) {
		if p == nil {
			out = append(out, vendors.Change{Kind: vendors.Remove, Port: o.Port, Disruptive: "its TPID changes"})
		}
	}
	return out, nil
}

// What a driver says of a port that goes holds where all of them go.
func TestRemovalOfAllIsAsDisruptive(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	p := made(t, f, func(d *inventory.Device) Observation {
		s := unseen(d)
		had(0x9900, 0)(&s, d)
		s.Differ = &disturbing{}
		return s
	}, Options{Goal: TakeOff})
	if p.Totals.Disruptive != 8 || len(p.Errors()) > 0 {
		t.Errorf("%+v %v", p.Totals, p.Errors())
	}
	for _, c := range p.Device("leaf1").Changes {
		if c.Ports != "" && (c.Disruptive != "its TPID changes" || !strings.Contains(c.Detail, "leave as they are")) {
			t.Errorf("%+v", c)
		}
	}
}
