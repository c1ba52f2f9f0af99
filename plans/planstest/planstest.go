// Package planstest has fleets and devices for the tests of plans, assess and
// rollout.
package planstest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Fabric is leaves with hosts below spines, every leaf connected to every
// spine.
func Fabric(leaves, spines, hosts int) *inventory.Fleet {
	f := &inventory.Fleet{Path: "fabric.yaml"}
	f.Profile.TPID, f.Profile.Layout = 0x9900, quantize.Draft00
	f.Profile.Signals = map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}}
	f.Policy.OnStale = inventory.Conservative
	lm := map[quantize.Signal]uint16{quantize.MinABW: 1}
	port := func(d *inventory.Device, name, peer, far string) {
		d.Ports = append(d.Ports, inventory.Port{Name: name, Action: vlanrules.Update, LM: lm, Peer: inventory.Peer{Device: peer, Port: far}})
	}
	for l := range leaves {
		d := inventory.Device{Name: fmt.Sprintf("leaf%d", l), Platform: "linux"}
		for h := range hosts {
			name := fmt.Sprintf("h%d-%d", l, h)
			port(&d, fmt.Sprintf("swp%d", h+1), name, "")
			f.Hosts = append(f.Hosts, inventory.Host{Name: name, CSIG: true})
		}
		for s := range spines {
			port(&d, fmt.Sprintf("up%d", s+1), fmt.Sprintf("spine%d", s), fmt.Sprintf("down%d", l+1))
		}
		f.Devices = append(f.Devices, d)
	}
	for s := range spines {
		d := inventory.Device{Name: fmt.Sprintf("spine%d", s), Platform: "linux"}
		for l := range leaves {
			port(&d, fmt.Sprintf("down%d", l+1), fmt.Sprintf("leaf%d", l), fmt.Sprintf("up%d", s+1))
		}
		f.Devices = append(f.Devices, d)
	}
	return f
}

// Able are the facts of a device that can do everything: verdicts of zero are full.
var Able = vendors.Facts{Platform: "linux", Rules: vlanrules.Caps{MatchPCP: true}, Others: 4}

// Differ compares setups, and refuses one without signals.
type Differ struct{}

// Diff lists what differs.
func (Differ) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if len(want.Signals) == 0 {
		return nil, errors.New("a setup without signals")
	}
	var out []vendors.Change
	if have.TPID != want.TPID || have.Layout != want.Layout || have.OnStale != want.OnStale || !slices.Equal(have.Signals, want.Signals) {
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "domain"})
	}
	if !slices.Equal(have.Ports, want.Ports) {
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "ports", Detail: fmt.Sprint(have.Ports, " -> ", want.Ports)})
	}
	return out, nil
}

// SetUp is the setup of a device of Fabric(2, 1, 2) with other TPIDs.
func SetUp(d *inventory.Device, tpid, wide uint16) vendors.Setup {
	f := Fabric(2, 1, 2)
	s := vendors.SetupOf(&f.Profile, f.Policy, d)
	s.TPID, s.WideTPID, s.Others = tpid, wide, nil
	s.DropOthers()
	return s
}
