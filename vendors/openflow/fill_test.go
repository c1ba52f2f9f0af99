package openflow

import (
	"errors"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFill: the table takes what it has room for, the rules stay right meanwhile, and
// nothing of it remains, also of a process that is killed.
func TestFill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
		l.update(t, time.Minute, seven("p2"))
		const room = 700
		l.Limit(DefaultTable+tableLive, room)

		if n, full, err := l.driver.Fill(t.Context(), 500); n != 500 || full || err != nil {
			t.Fatalf("%d, %v, %v", n, full, err)
		}
		if n, full, err := l.driver.Fill(t.Context(), 1<<16); n != room || !full || err != nil {
			t.Fatalf("%d, %v, %v", n, full, err)
		}
		time.Sleep(2 * checkEvery) // the switch is read, and the fillers are no damage
		if res := l.update(t, time.Minute, seven("p2")); res.Repaired != nil {
			t.Errorf("repaired %q", res.Repaired)
		}
		l.is(t, "the table is full", 2, 7<<7|5)
		if err := l.driver.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.update(t, time.Minute, nine("p2"))
		l.is(t, "the table has room again", 2, 9<<7|5)

		// Another process, without Drain: the next agent removes them.
		other := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
		if n, _, err := other.Fill(t.Context(), 100); n != 100 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		time.Sleep(2 * checkEvery)
		if res := l.update(t, time.Minute, nine("p2")); res.Repaired == nil {
			t.Error("flows that match no port were not seen")
		}
		s, err := l.driver.read(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.own {
			if l.driver.pipe.isFiller(&s.own[i]) {
				t.Fatalf("a filler is left: %+v", s.own[i])
			}
		}
	})
}

// TestFillIsBounded: all flows of a fill go again, and a switch that takes too long to answer gets no
// more from then on.
func TestFillIsBounded(t *testing.T) { fillIsBounded(t, 2000, 2000) }

// TestLongFillIsBounded: nor does a switch without a limit get more than so many.
func TestLongFillIsBounded(t *testing.T) { fillIsBounded(t, 1_000_000, maxFill) }

func fillIsBounded(t *testing.T, most, want int) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		left := func() int {
			t.Helper()
			flows, err := l.driver.of.Flows(t.Context(), ofp.Filter{Table: DefaultTable + tableLive})
			if err != nil {
				t.Fatal(err)
			}
			return len(flows)
		}
		if n, full, err := l.driver.Fill(t.Context(), most); n != want || full || err != nil || left() != want {
			t.Fatalf("%d, %v, %v; the switch has %d", n, full, err, left())
		}
		if err := l.driver.Drain(t.Context()); err != nil || left() != 0 {
			t.Fatalf("%v; %d are left", err, left())
		}

		slow := l.open(t, Config{OrdinaryVLANs: NotHandedOver, Connect: patient(t, l.proxy)})
		standsStill(l.proxy, oftest.TypeFlowMod, 3*fillBatch-1, slowFill)
		n, full, err := slow.Fill(t.Context(), 1000)
		l.proxy.Set(func(f *oftest.Faults) { f.After = nil })
		busy := (*vendors.BusyError)(nil)
		if n != 3*fillBatch || full || !errors.As(err, &busy) || busy.Took != slowFill || left() != n {
			t.Errorf("%d, %v, %v; the switch has %d", n, full, err, left())
		}
	})
}
