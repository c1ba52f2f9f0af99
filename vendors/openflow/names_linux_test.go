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
	t.Parallel()
	const name, want = "Ten-GigabitEthe", "2 ports of the switch have this name, of which OpenFlow has 15 bytes: write their numbers in its place (2, 3)"
	l := newLab(t, 1, oftest.Faults{})
	for n := 2; n <= 3; n++ {
		l.Ports = append(l.Ports, l.AddWire(l.Bridge, "Ten-GigabitEthernet1-0-"+string(rune('0'+n)), n))
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
	refused("one table", openFlatAt(t, l.proxy.Addr(), forwarding(name)).Apply(t.Context(), setup))
	setup.Ports[0].Port = "3"
	d := openFlatAt(t, l.proxy.Addr(), forwarding("3"))
	if err := d.Apply(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Update(t.Context(), []vendors.PortUpdate{given("3", intent(quantize.MinABW, 12, 5))}, time.Minute); err != nil {
		t.Error(err)
	}
	if flows := l.Flow("dump-flows", "table=20"); !strings.Contains(flows, "output:3") || strings.Contains(flows, "output:2") {
		t.Error(flows)
	}
}
