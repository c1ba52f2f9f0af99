package openflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSetupsInAnyOrder brings a switch from every setup to every setup.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	with := func(action vlanrules.Action, change func(*vendors.Setup)) vendors.Setup {
		s := setupFor(vendors.PortSetup{Port: "p2", Action: action}, vendors.PortSetup{Port: "p3", Action: vlanrules.Update})
		if change != nil {
			change(&s)
		}
		return s
	}
	// What becomes of the best abw and pd, and of a frame without a tag, with an agent;
	// then of the best abw without one.
	const (
		updated  = "0385 4286 none"
		old      = "0ffe 407e none"
		worst    = "; without a lease 007d"
		best     = "; without a lease 0ffe"
		untagged = "; without a lease none"
	)
	vendorstest.AnyOrder(t, []vendorstest.Row{
		{Name: "nothing", Want: old + best},
		{Name: "no port", Setup: with(0, func(s *vendors.Setup) { s.Ports = nil }), Want: old + best},
		{Name: "update", Setup: with(vlanrules.Update, nil), Want: updated + worst},
		{Name: "passthrough", Setup: with(vlanrules.Passthrough, nil), Want: old + best},
		{Name: "strip", Setup: with(vlanrules.Strip, nil), Want: "none none none" + untagged},
		{Name: "the other port", Setup: with(0, func(s *vendors.Setup) { s.Ports = s.Ports[1:] }), Want: old + best},
		{Name: "one signal", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Signals = s.Signals[:1] }), Want: "0385 407e none" + worst},
		{Name: "uec", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Layout = quantize.UEC }), Want: "038a 428c none; without a lease 007a"},
		{Name: "passthrough when stale", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }), Want: updated + best},
		{Name: "strip when stale", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }), Want: updated + untagged},
		{Name: "a profile", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Profile = strings.Repeat("a", 64) }), Want: updated + worst},
		{Name: "wide tags and another TPID", Setup: with(vlanrules.Update, func(s *vendors.Setup) {
			s.WideTPID, s.Others = 0x9901, []vendors.OtherTPID{{TPID: 0x9902, Wide: true}}
		}), Want: updated + worst},
	}, 12, func(row *testing.T) vendorstest.Lab {
		l := newLab(row, 3, oftest.Faults{})
		l.apply(row, with(vlanrules.Update, nil)) // the flows that send on what is handed over stay from here on
		if err := l.driver.Remove(row.Context()); err != nil {
			row.Fatal(err)
		}
		return vendorstest.Lab{Driver: l.driver, Frames: l.frames,
			State:  func(testing.TB) string { return l.flows() },
			Writes: func(testing.TB) int { return l.proxy.Counts().FlowMods }}
	})
}

// frames sends some through p2, with an agent's signal and without.
func (l *lab) frames(t testing.TB, setup vendors.Setup) string {
	t.Helper()
	updates := vendorstest.Updates(&setup, func(i int, sig quantize.Signal) vlanrules.Intent {
		return intent(sig, 7-uint8(2*i), 5+uint16(i))
	})
	if !setup.Nothing() {
		l.update(t, time.Minute, updates...)
	}
	text := func(tci int) string {
		if got := l.leaves(t, 2, tci); got != noTag {
			return fmt.Sprintf("%04x", got)
		}
		return "none"
	}
	l.Settled()
	out := fmt.Sprintf("%s %s %s", text(31<<7|126), text(2<<13|126), text(noTag))
	if !setup.Nothing() {
		if err := l.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Settled()
	}
	return out + "; without a lease " + text(31<<7|126)
}
