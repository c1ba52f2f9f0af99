package ovs

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSetupsInAnyOrder brings a real bridge from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	ports := func(action vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "swp1", Action: action}, {Port: "swp2", Action: vlanrules.Update}}
	}
	with := func(action vlanrules.Action, change func(*vendors.Setup)) vendors.Setup {
		s := setupFor(quantize.Draft00, ports(action)...)
		if change != nil {
			change(&s)
		}
		return s
	}
	// What becomes of the best abw and pd, and of a VLAN's tag, with an agent; then
	// of the best abw without one.
	const (
		updated  = "0385 4287, VLAN 0fff"
		old      = "0ffe 407e, VLAN 0fff"
		worst    = "; without a lease 007d"
		best     = "; without a lease 0ffe"
		untagged = "; without a lease none"
	)
	vendorstest.AnyOrder(t, []vendorstest.Row{
		{Name: "nothing", Want: old + best},
		{Name: "no port", Setup: with(0, func(s *vendors.Setup) { s.Ports = nil }), Want: old + best},
		{Name: "update", Setup: with(vlanrules.Update, nil), Want: updated + worst},
		{Name: "passthrough", Setup: with(vlanrules.Passthrough, nil), Want: old + best},
		{Name: "strip", Setup: with(vlanrules.Strip, nil), Want: "none none, VLAN 0fff" + untagged},
		{Name: "the other port", Setup: with(0, func(s *vendors.Setup) { s.Ports = s.Ports[1:] }), Want: old + best},
		{Name: "one signal", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Signals = s.Signals[:1] }), Want: "0385 407e, VLAN 0fff" + worst},
		{Name: "uec", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Layout = quantize.UEC }), Want: "038a 428e, VLAN 0fff; without a lease 007a"},
		{Name: "passthrough when stale", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }), Want: updated + best},
		{Name: "strip when stale", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }), Want: updated + untagged},
		{Name: "a profile", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Profile = strings.Repeat("a", 64) }), Want: updated + worst},
		{Name: "wide tags too", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.WideTPID = 0x9901 }), Want: updated + worst},
	}, 6, func(t *testing.T) vendorstest.Lab {
		s := newSandwich(t)
		s.AddWire("csig", "swp2", 2)
		apply(t, s.driver, with(vlanrules.Update, nil)) // the flows that join swp1 and its patch stay from here on
		if err := s.driver.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		return vendorstest.Lab{Driver: s.driver, State: s.state, Frames: s.frames}
	})
}

// TestLongSetupsInAnyOrder is TestSetupsInAnyOrder from every setup to every setup.
func TestLongSetupsInAnyOrder(t *testing.T) { TestSetupsInAnyOrder(t) }

// state is the bridge's flows, and which ports have a VLAN.
func (s *sandwich) state(t testing.TB) string {
	t.Helper()
	socket, err := net.Dial("unix", filepath.Join(s.Dir, "csig.mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ofp.NewConn(t.Context(), socket, ofp.Version14)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	flows, err := c.Flows(t.Context(), ofp.Filter{Table: ofp.AllTables})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range flows {
		lines = append(lines, flowText(&flows[i]))
	}
	lines = append(lines, s.Rows("Port", "name", "vlan_mode")...)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// frames sends some through swp1, with an agent's signal and without.
func (s *sandwich) frames(t testing.TB, setup vendors.Setup) string {
	t.Helper()
	updates := vendorstest.Updates(&setup, func(_ int, sig quantize.Signal) vlanrules.Intent {
		return bucket(sig, 7-uint8(sig), 5+uint16(sig))
	})
	if !setup.Nothing() {
		update(t, s.driver, time.Minute, updates...)
	}
	s.settle()
	out := fmt.Sprintf("%s %s, VLAN %s", s.leaves(t, tag{tpidCSIG, 31<<7 | 126}), s.leaves(t, tag{tpidCSIG, 2<<13 | 126}), s.leaves(t, tag{tpidVLAN, 31<<7 | 127}))
	if !setup.Nothing() {
		if err := s.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settle()
	}
	return out + "; without a lease " + s.leaves(t, tag{tpidCSIG, 31<<7 | 126})
}

// leaves is the tag with which a frame leaves that comes with this one.
func (s *sandwich) leaves(t testing.TB, with tag) string {
	t.Helper()
	switch b := s.pass(with); {
	case b == nil:
		return "lost"
	case string(b) == string(frame(1)):
		return "none"
	default:
		got := tag{with.tpid, uint16(b[14])<<8 | uint16(b[15])}
		if string(b) != string(frame(1, got)) {
			t.Fatalf("a frame with %x leaves as %x", with, b)
		}
		return fmt.Sprintf("%04x", got.tci)
	}
}
