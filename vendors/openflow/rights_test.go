package openflow

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestWithoutRights has a switch refuse what csig may not do, of flows and of groups, on each
// kind of switch: Update and Apply say so, what was there expires into the stale values, and
// values are back as soon as csig may write again.
func TestWithoutRights(t *testing.T) {
	eperm, slave, groups := oftest.Refusal{Type: 1, Code: 5}, oftest.Refusal{Type: 1, Code: 10}, oftest.Refusal{Type: 6, Code: 14}
	of := func(typ uint8, r oftest.Refusal) func(oftest.Message) *oftest.Refusal {
		return func(m oftest.Message) *oftest.Refusal {
			if m.Type() == typ {
				return &r
			}
			return nil
		}
	}
	for name, tc := range map[string]struct {
		flat, ofdpa bool
		refuse      func(oftest.Message) *oftest.Refusal
		want        oftest.Refusal
	}{
		"three tables, no right":  {false, false, of(oftest.TypeFlowMod, eperm), eperm},
		"three tables, a slave":   {false, false, of(oftest.TypeFlowMod, slave), slave},
		"one table, no right":     {true, false, of(oftest.TypeFlowMod, eperm), eperm},
		"one table, a slave":      {true, false, of(oftest.TypeFlowMod, slave), slave},
		"OF-DPA, a slave":         {true, true, of(oftest.TypeFlowMod, slave), slave},
		"OF-DPA, none for groups": {true, true, of(oftest.TypeGroupMod, groups), groups},
	} {
		run(t, name, func(t *testing.T) {
			var d vendors.Driver
			var proxy *oftest.Proxy
			var leaves func() int
			setup, other := setupFor(ports(vlanrules.Update, "p2")...), setupFor(ports(vlanrules.Update, "p2")...)
			other.OnStale = inventory.StalePassthrough
			if tc.flat {
				l := newFlatLab(t, tc.ofdpa, nil)
				d, proxy, leaves = l.driver, l.proxy, func() int { l.Settled(); return int(l.leave(t, best)[0]) }
			} else {
				l := newLab(t, 2, oftest.Faults{})
				d, proxy, leaves = l.driver, l.proxy, func() int { l.Settled(); return l.leaves(t, 2, best) }
			}
			if err := d.Apply(t.Context(), setup); err != nil {
				t.Fatal(err)
			}
			if res, err := d.Update(t.Context(), []vendors.PortUpdate{seven("p2")}, time.Second); err != nil || !res.Leased {
				t.Fatalf("%+v, %v", res, err)
			}
			proxy.Set(func(f *oftest.Faults) { f.Refuse = tc.refuse })
			refused := func(what string, err error) {
				t.Helper()
				var e *ofp.Error
				if !errors.As(err, &e) || e.Type != tc.want.Type || e.Code != tc.want.Code {
					t.Errorf("%s: %v", what, err)
				}
			}
			for round := range 2 {
				res, err := d.Update(t.Context(), []vendors.PortUpdate{nine("p2")}, time.Second)
				named := map[string]bool{}
				vendors.EachPort(err, func(port string, _ error) { named[port] = true })
				if refused(fmt.Sprint("update ", round), err); res.Leased && !named["p2"] {
					t.Errorf("update %d: %+v, %v", round, res, err)
				}
			}
			lasts := time.Second
			if tc.flat { // two of them
				lasts *= 2
			}
			if got := leaves(); got != 7<<7|5 {
				t.Errorf("the best tag leaves as %04x", got)
			}
			if time.Sleep(lasts); leaves() != stale {
				t.Errorf("later the best tag leaves as %04x", leaves())
			}
			proxy.Set(func(f *oftest.Faults) { f.Refuse = of(oftest.TypeFlowMod, tc.want) })
			refused("apply", d.Apply(t.Context(), other))
			proxy.Set(func(f *oftest.Faults) { f.Refuse = nil })
			if err := d.Apply(t.Context(), setup); err != nil {
				t.Fatal(err)
			}
			if res, err := d.Update(t.Context(), []vendors.PortUpdate{nine("p2")}, time.Minute); err != nil || !res.Leased {
				t.Errorf("%+v, %v", res, err)
			}
			if got := leaves(); got != 9<<7|5 {
				t.Errorf("csig may write again: the best tag leaves as %04x", got)
			}
		})
	}
}
