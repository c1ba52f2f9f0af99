package openflow

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// tooMuch is more than csig reads of an answer, in bytes.
const tooMuch = 33 << 20

// direct has a driver reach the switch past the proxy, which would copy it all twice more.
func direct(sw *oftest.Memory, cfg Config) Config {
	cfg.Connect, cfg.Done = ofp.Dialed(sw.Dial, ofp.Version13)
	return cfg
}

// TestRemoveUnread: of a switch with more flows than csig reads its own are removed all the
// same, and no other.
func TestRemoveUnread(t *testing.T) {
	for _, tc := range []struct {
		name   string
		table  uint8
		cookie uint64
		seen   string
	}{
		{"csig's, where its values are", DefaultTable + tableLive, cookie, "the switch has more than 131072 flows of csig's"},
		{"csig's, elsewhere", 20, cookie, "the switch has more than 131072 flows of csig's"},
		{"the operator's", 0, 0, "of an answer csig takes 32 MiB: csig off deletes csig's flows by their cookie, without reading them; "},
	} {
		if tc.table == 20 && !vendorstest.Long(t) {
			continue
		}
		run(t, tc.name, func(t *testing.T) {
			sw := inMemory(3)
			l := labOf(t, sw, 3, oftest.Faults{})
			l.driver = l.open(t, direct(sw, Config{OrdinaryVLANs: NotHandedOver}))
			l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
			l.update(t, time.Minute, seven("p2"))
			stay := sw.Bloat(tc.table, tc.cookie, tooMuch)
			if s, err := l.driver.Observe(t.Context()); err != nil || !strings.Contains(s.Damaged, tc.seen) || s.Nothing() {
				t.Errorf("%+v, %v", s, err)
			}
			if _, err := l.driver.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), byCookie) {
				t.Errorf("csig says no next step: %v", err)
			}
			for range fewer(t, 2, 1) {
				if err := l.driver.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if tc.cookie == cookie {
				stay = 0
			}
			if n := sw.Count(); n != stay+3+3 { // the operator's, and those that send on what is handed over
				t.Errorf("%d flows stay, want %d", n, stay+3+3)
			}
			if n := strings.Count(l.flows(), "table=10, priority=290,metadata="); n != 3 {
				t.Errorf("flows that send on what is handed over:\n%s", l.flows())
			}
			l.is(t, "without csig", 2, best)
		})
	}
}

// TestFlatRemoveUnread is TestRemoveUnread of a switch with one table.
func TestFlatRemoveUnread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sw := inMemory(3)
		l := flatLabOf(t, sw, false, func(cfg *FlatConfig) { cfg.Config = direct(sw, cfg.Config) })
		sw.Bloat(0, cookie, tooMuch)
		if s, err := l.driver.Observe(t.Context()); err != nil || !strings.Contains(s.Damaged, "more than 131072 flows of csig's") {
			t.Errorf("%+v, %v", s, err)
		}
		if err := l.driver.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := sw.Count(); n != 2 {
			t.Errorf("%d flows stay, want the operator's two", n)
		}
	})
}
