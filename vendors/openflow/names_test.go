package openflow

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSharedNames: of long names OpenFlow has the same 15 bytes. The name of several ports is
// refused with their numbers, by which they go.
func TestSharedNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const name, want = "Ten-GigabitEthe", "2 ports of the switch have this name, of which OpenFlow has 15 bytes: write their numbers in its place (2, 3)"
		l := newLab(t, 1, oftest.Faults{})
		for n := 2; n <= 3; n++ {
			l.AddPort("Ten-GigabitEthernet1-0-"+string(rune('0'+n)), n)
		}
		l.handOver(3)
		refused := func(driver string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", driver, err)
			}
		}
		facts, err := l.driver.Probe(t.Context())
		if err != nil || !slices.Equal(facts.Ports, []string{"2", "3", "p1"}) || !strings.Contains(strings.Join(facts.Notes, "\n"), "go by their numbers: 2, 3") {
			t.Errorf("%q, %q, %v", facts.Ports, facts.Notes, err)
		}
		err = l.driver.Apply(t.Context(), setupFor(ports(vlanrules.Update, name)...))
		var port *vendors.PortError
		if refused("three tables", err); !errors.As(err, &port) || port.Port != name {
			t.Errorf("%v", err)
		}
		l.apply(t, setupFor(ports(vlanrules.Update, "2")...))
		l.update(t, time.Minute, seven("2"))
		l.is(t, "by its number", 2, 7<<7|5)
		l.is(t, "the other one", 3, best)

		forwarding := func(port string) func(*FlatConfig) {
			return func(cfg *FlatConfig) {
				cfg.OFDPA, cfg.Table, cfg.Forwarding = false, 20, []Forwarding{{InPort: "p1", Port: port}}
			}
		}
		setup := flatWant(inventory.Conservative, name)
		refused("one table", openFlatAt(t, l.proxy.Dial, forwarding(name)).Apply(t.Context(), setup))
		setup.Ports[0].Port = "3"
		d := openFlatAt(t, l.proxy.Dial, forwarding("3"))
		if err := d.Apply(t.Context(), setup); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Update(t.Context(), []vendors.PortUpdate{given("3", intent(quantize.MinABW, 12, 5))}, time.Minute); err != nil {
			t.Error(err)
		}
		if flows := l.Flow("dump-flows", "table=20"); !strings.Contains(flows, "output:3") || strings.Contains(flows, "output:2") {
			t.Error(flows)
		}
	})
}

// TestNameIsLost: a port that updates or strips does not pass tags when the switch calls it
// otherwise, as when a second port of a long name comes: it falls back, or goes on stripping,
// until a port has its name again or the setup is without it. A driver that starts then finds
// the same.
func TestNameIsLost(t *testing.T) {
	const name = "Ten-GigabitEthe"
	for _, action := range []vlanrules.Action{vlanrules.Update, vlanrules.Strip} {
		run(t, action.String(), func(t *testing.T) {
			l := newLab(t, 1, oftest.Faults{})
			add := func(n int) { l.AddPort("Ten-GigabitEthernet1-0-"+string(rune('0'+n)), n) }
			add(2)
			l.handOver(3)
			l.apply(t, setupFor(ports(action, name)...))
			held := noTag
			if action == vlanrules.Update {
				l.update(t, time.Minute, seven(name))
				l.is(t, "the only one of its name", 2, 7<<7|5)
				held = stale
			} else {
				l.is(t, "the only one of its name", 2, held)
			}
			add(3)
			// The other one does not come first: it is given no setup, and has no other name for the
			// port than the one that it finds.
			for i, what := range []string{"the same driver", "another driver"} {
				d := l.driver
				if i > 0 {
					d = l.open(t, Config{OrdinaryVLANs: NotHandedOver})
				}
				time.Sleep(checkEvery)
				var list []vendors.PortUpdate
				if action == vlanrules.Update {
					list = append(list, seven(name))
				}
				_, err := d.Update(t.Context(), list, time.Minute)
				if d == l.driver && (err == nil || !strings.Contains(err.Error(), "2 ports of the switch have this name")) {
					t.Errorf("%s: %v", what, err)
				}
				l.is(t, what+", of a port that has lost its name", 2, held)
				l.is(t, what+", of one that it never had", 3, best)
			}
			l.apply(t, setupFor())
			l.is(t, "without it in the setup", 2, best)
		})
	}
}

// rename has the switch call a port otherwise.
func (l *lab) rename(from, to string, number int) {
	l.RemovePort(from)
	l.AddPort(to, number)
}

// TestNameMoves: where the name of a port goes to another one, and where flows are lost while
// no port has it, the one that had it does not pass tags; the other one has its values.
func TestNameMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		setup := setupFor(ports(vlanrules.Update, "p2")...)
		l.apply(t, setup)
		l.update(t, time.Minute, seven("p2"))
		l.is(t, "as it was", 2, 7<<7|5)
		update := func() {
			time.Sleep(checkEvery)
			if _, err := l.driver.Update(t.Context(), []vendors.PortUpdate{seven("p2")}, time.Minute); err == nil || !strings.Contains(err.Error(), "px") && !strings.Contains(err.Error(), "no such port") {
				t.Errorf("%v", err)
			}
		}
		l.rename("p2", "px", 2)
		update()
		l.is(t, "renamed", 2, stale)
		for _, table := range []string{"table=10", "table=11", "table=12"} {
			l.Flow("del-flows", table)
		}
		update()
		l.is(t, "renamed, and the flows are lost", 2, stale)
		l.rename("p3", "p2", 3)
		update()
		l.is(t, "its name is another port's", 2, stale)
		update()
		l.is(t, "its name is another port's, later", 2, stale)
		l.is(t, "the port that has the name", 3, 7<<7|5)
		if err := l.driver.Apply(t.Context(), setup); err == nil || !strings.Contains(err.Error(), "it was called p2") {
			t.Errorf("%v", err)
		}
		l.is(t, "applied again", 2, stale)
		l.apply(t, setupFor())
		l.is(t, "without it in the setup", 2, best)
	})
}
