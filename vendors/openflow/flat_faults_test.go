package openflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFlatRefuses: what is not declared, not there or too large is refused by name and
// with its numbers, and nothing is written.
func TestFlatRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, true, nil)
		if _, err := OpenFlat(FlatConfig{OFDPA: true}); err == nil || !strings.Contains(err.Error(), "declare the forwarding flows") {
			t.Errorf("%v", err)
		}
		strip := flatWant(inventory.Conservative, "p2")
		strip.Ports[0].Action = vlanrules.Strip
		before := l.Flow("dump-flows", "--no-stats")
		for _, tc := range []struct {
			name   string
			change func(*FlatConfig)
			setup  vendors.Setup
			want   string
		}{
			{"a port without a forwarding flow", func(c *FlatConfig) { c.Forwarding = flatForwarding[:1] }, flatWant(inventory.Conservative, "p1", "p2"), "port p1: no declared flow forwards there"},
			{"a port without a group", func(c *FlatConfig) { c.Forwarding = append(flatForwarding, Forwarding{InPort: "p3", Port: "p3"}) }, flatWant(inventory.Conservative, "p3"), "port p3: it has no L2 Unfiltered Interface group (0xb0000003)"},
			{"flows that overlap", func(c *FlatConfig) { c.Forwarding = append(flatForwarding, Forwarding{Port: "p3"}) }, flatWant(inventory.Conservative, "p2"), "take the same frames"},
			{"a table that is too small", func(c *FlatConfig) { c.Entries = 98 }, flatWant(inventory.Conservative, "p1", "p2"), "table 60 is too small: csig needs 96 entries (46 for each of 2 forwarding flows, and 4), 3 flows in it are the operator's, and it has room for 98"},
			{"a priority that is taken", func(c *FlatConfig) { c.Priority = 4 }, flatWant(inventory.Conservative, "p2"), "flow of priority 5"},
			{"ordinary VLANs", func(c *FlatConfig) { c.OrdinaryVLANs = "" }, flatWant(inventory.Conservative, "p2"), "ordinary_vlans"},
			{"strip", nil, strip, "port p2: a match does not see the TPID"},
		} {
			d := l.open(t, tc.change)
			err := d.Apply(t.Context(), tc.setup)
			var permanent *vendors.PermanentError
			if !errors.As(err, &permanent) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
		if after := l.Flow("dump-flows", "--no-stats"); after != before {
			t.Errorf("%s\nbefore\n%s", after, before)
		}
		f, err := l.open(t, func(c *FlatConfig) { c.Entries, c.Forwarding = 300, flatForwarding[:1] }).Probe(t.Context())
		if err != nil || len(f.PortIssues) != 2 || f.PortIssues[0].Port != "p1" || !strings.Contains(strings.Join(f.Notes, "\n"), "one signal needs 26 entries (23 for each of 1 forwarding flow, and 3), and two need 49 entries") || !strings.Contains(strings.Join(f.Notes, "\n"), "room for 300") {
			t.Errorf("%+v, %v", f, err)
		}
	})
}

// TestFlatFull: csig needs of the table what it counts. With so much room no update finds
// it full; with less Apply refuses it, where it is told, and else it is an error of the
// port, whose tags have the value of before or the new one.
func TestFlatFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, true, nil)
		setup := flatWant(inventory.Conservative, "p2")
		theirs := strings.Count(l.Flow("dump-flows", "table=60"), "cookie=")
		l.apply(t, setup)
		room := theirs + l.driver.f.entries().need
		largest := func(lm uint16) vendors.PortUpdate { // values with the most entries
			return given("p2", intent(quantize.MinABW, 30, lm), intent(quantize.MaxPD, 1, lm))
		}
		l.update(t, time.Minute, largest(5))
		l.Limit(TableACL, room)
		l.update(t, time.Minute, largest(6))
		l.Limit(TableACL, room-1)
		var broken *vendors.PortError
		res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{largest(7)}, time.Minute)
		if !errors.As(err, &broken) || broken.Port != "p2" || !strings.Contains(err.Error(), "table is full") || res.Ports != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		l.Settled()
		if got := l.leave(t, 0x0fff); got[0] != 30<<7|6 && got[0] != 30<<7|7 {
			t.Errorf("%04x", got)
		}
		for entries, want := range map[int]string{room: "", room - 1: fmt.Sprintf("table 60 is too small: csig needs %d entries (46 for each of 1 forwarding flow, and %d), %d flows in it are the operator's, and it has room for %d", room-theirs, room-theirs-46, theirs, room-1)} {
			err := l.open(t, func(c *FlatConfig) { c.Entries = entries }).Apply(t.Context(), setup)
			var permanent *vendors.PermanentError
			if (err != nil) != (want != "") || err != nil && (!errors.As(err, &permanent) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%d entries: %v", entries, err)
			}
		}
		l.Limit(TableACL, room)
		l.update(t, time.Minute, largest(7))
		l.Settled()
		if got := l.leave(t, 0x0fff); got[0] != 30<<7|7 {
			t.Errorf("%04x", got)
		}
	})
}

// TestFlatLate: a change that is refused after its barrier was answered is an error,
// and is made again.
func TestFlatLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, true, nil)
		l.apply(t, flatWant(inventory.Conservative, "p2"))
		n := 0
		l.proxy.Set(func(f *oftest.Faults) {
			f.RejectLate = func(m oftest.Message) *oftest.Late {
				if m.Type() == oftest.TypeFlowMod && m[25] == 0 {
					if n++; n == 2 {
						return &oftest.Late{Refusal: oftest.NotPermitted}
					}
				}
				return nil
			}
		})
		u := given("p2", intent(quantize.MinABW, 12, 5), intent(quantize.MaxPD, 9, 6))
		var errs []error
		for range 3 {
			synctest.Wait() // the refusal has come
			if _, err := l.driver.Update(t.Context(), []vendors.PortUpdate{u}, time.Minute); err != nil {
				errs = append(errs, err)
			}
		}
		var broken *vendors.PortError
		if err := errors.Join(errs...); !errors.As(err, &broken) || broken.Port != "p2" {
			t.Errorf("%v", err)
		}
		l.update(t, time.Minute, u)
		l.compare(t, sample(), u.Intents...)
	})
}
