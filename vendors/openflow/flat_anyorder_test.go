package openflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFlatAnySetup: setups in any order, on both kinds of switches.
func TestFlatAnySetup(t *testing.T) {
	t.Parallel()
	with := func(change func(*vendors.Setup)) vendors.Setup {
		s := flatWant(inventory.Conservative, "p1", "p2")
		change(&s)
		return s
	}
	// What becomes of the best abw and pd with an agent; then of the best abw without one.
	const updated, old, worst, best = "0385 4286", "0ffe 407e", "; without an agent 007d", "; without an agent 0ffe"
	for _, ofdpa := range []bool{true, false} {
		t.Run(map[bool]string{true: "OF-DPA", false: "one table"}[ofdpa], func(t *testing.T) {
			vendorstest.AnyOrder(t, []vendorstest.Row{
				{Name: "nothing", Want: old + best},
				{Name: "no port", Setup: with(func(s *vendors.Setup) { s.Ports = nil }), Want: old + best},
				{Name: "update", Setup: with(func(*vendors.Setup) {}), Want: updated + worst},
				{Name: "passthrough", Setup: with(func(s *vendors.Setup) { s.Ports[1].Action = vlanrules.Passthrough }), Want: old + best},
				{Name: "the other port", Setup: with(func(s *vendors.Setup) { s.Ports = s.Ports[:1] }), Want: old + best},
				{Name: "one signal", Setup: with(func(s *vendors.Setup) { s.Signals = s.Signals[:1] }), Want: "0385 407e" + worst},
				{Name: "uec", Setup: with(func(s *vendors.Setup) { s.Layout = quantize.UEC }), Want: "038a 428c; without an agent 007a"},
				{Name: "passthrough when stale", Setup: with(func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }), Want: updated + best},
				{Name: "a profile", Setup: with(func(s *vendors.Setup) { s.Profile = strings.Repeat("a", 64) }), Want: updated + worst},
			}, 12, func(row *testing.T) vendorstest.Lab {
				l := newFlatLab(row, ofdpa, nil)
				return vendorstest.Lab{Driver: l.driver, Frames: l.frames, State: l.state,
					Writes: func(testing.TB) int { n := l.proxy.Counts(); return n.FlowMods + n.GroupMods }}
			})
		})
	}
}

// state is what the switch has of csig's, as text.
func (l *flatLab) state(testing.TB) string {
	var lines []string
	for line := range strings.Lines(l.Flow("dump-flows", "--no-stats") + l.Flow("dump-groups")) {
		if line = strings.TrimSpace(line); strings.Contains(line, "cookie=0x63736f66") || strings.Contains(line, "set_field") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// frames sends some through p2, with an agent's signal and without.
func (l *flatLab) frames(t testing.TB, setup vendors.Setup) string {
	t.Helper()
	updates := vendorstest.Updates(&setup, func(i int, sig quantize.Signal) vlanrules.Intent {
		return intent(sig, 7-uint8(2*i), 5+uint16(i))
	})
	if !setup.Nothing() {
		l.update(t, time.Minute, updates...)
	}
	l.Settled()
	got := l.leave(t, 31<<7|126, 2<<13|126)
	if !setup.Nothing() {
		if err := l.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Settled()
	}
	return fmt.Sprintf("%04x %04x; without an agent %04x", got[0], got[1], l.leave(t, 31<<7|126)[0])
}
