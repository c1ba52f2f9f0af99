package sonic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSetupsInAnyOrder brings a switch from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	with := func(change func(*vendors.Setup)) vendors.Setup {
		s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
		change(&s)
		return s
	}
	// The TPID of Ethernet0, and what becomes of the best abw and pd there, with an
	// agent; then of the best abw without one.
	const (
		updated = "0385 4287"
		worst   = "; without a lease 007d"
		old     = "0ffe 407e; without a lease 0ffe"
	)
	rows := []vendorstest.Row{
		{Name: "nothing", Want: "8100 " + old},
		{Name: "no port", Setup: with(func(s *vendors.Setup) { s.Ports = nil }), Want: "8100 " + old},
		{Name: "update", Setup: with(func(*vendors.Setup) {}), Want: "88a8 " + updated + worst},
		{Name: "passthrough", Setup: with(func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Passthrough }), Want: "88a8 " + old},
		{Name: "the other port", Setup: with(func(s *vendors.Setup) { s.Ports = s.Ports[1:] }), Want: "8100 " + old},
		{Name: "more ports", Setup: setupOf(quantize.Draft00, "Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"), Want: "88a8 " + updated + worst},
		{Name: "another TPID", Setup: with(func(s *vendors.Setup) { s.TPID = 0x9100 }), Want: "9100 " + updated + worst},
		{Name: "one signal", Setup: with(func(s *vendors.Setup) { s.Signals = s.Signals[:1] }), Want: "88a8 0385 407e" + worst},
		{Name: "uec", Setup: with(func(s *vendors.Setup) { s.Layout = quantize.UEC }), Want: "88a8 038a 428e; without a lease 007a"},
		{Name: "passthrough when stale", Setup: with(func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }), Want: "88a8 " + updated + "; without a lease 0ffe"},
		{Name: "another profile", Setup: with(func(s *vendors.Setup) { s.Profile = strings.Repeat("b", 64) }), Want: "88a8 " + updated + worst},
	}
	vendorstest.AnyOrder(t, rows, 3, func(t *testing.T) vendorstest.Lab {
		l := newLab(t, sonictest.R202511, "Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")
		return vendorstest.Lab{Driver: l.Driver, State: l.state, Frames: l.frames}
	})
}

// state is the record, the ports' TPIDs and the entries' keys. The table itself
// stays when it is larger than it has to be.
func (l *lab) state(t testing.TB) string {
	t.Helper()
	l.sw.Settle()
	r := l.sw.Redis
	lines := []string{r.Hash(6, recordKey)[recordSetup]}
	for _, port := range []string{"Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"} {
		lines = append(lines, port+" "+l.tpid(port))
	}
	keys := r.Keys(0, rows+aclTable+":*")
	for _, k := range keys {
		lines = append(lines, fmt.Sprint(k, " ", r.Hash(0, k)))
	}
	slices.Sort(lines)
	if all, _ := l.sw.Entries(""); all != len(keys) {
		t.Errorf("the switch has %d entries, of %d rows", all, len(keys))
	}
	return strings.Join(lines, "\n")
}

// tpid is a port's in CONFIG_DB: what is given back comes to the ASIC a little later.
func (l *lab) tpid(port string) string {
	return cmp.Or(strings.TrimPrefix(l.sw.Redis.Hash(4, portKey(port))["tpid"], "0x"), "8100")
}

// frames sends tags out of Ethernet0, with an agent's signal and without.
func (l *lab) frames(t testing.TB, setup vendors.Setup) string {
	t.Helper()
	updates := vendorstest.Updates(&setup, func(_ int, sig quantize.Signal) vlanrules.Intent {
		return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: 7 - uint8(sig), LM: 5 + uint16(sig)}
	})
	if !setup.Nothing() {
		if _, err := l.Update(t.Context(), updates, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	with := l.sw.EgressAll("Ethernet0", []quantize.TCI{31<<7 | 126, 2<<13 | 126})
	if !setup.Nothing() {
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	without := l.sw.EgressAll("Ethernet0", []quantize.TCI{31<<7 | 126})
	return fmt.Sprintf("%s %04x %04x; without a lease %04x", l.tpid("Ethernet0"), with[0], with[1], without[0])
}
