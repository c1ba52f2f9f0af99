package openflow

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// standsStill has csig stand still for so long after n changes of a type: the switch answers what
// follows them that much later.
func standsStill(p *oftest.Proxy, typ uint8, n int, pause time.Duration) {
	p.Set(func(f *oftest.Faults) {
		f.After = func(m oftest.Message) {
			if m.Type() != typ {
				return
			}
			if n--; n == 0 {
				time.Sleep(pause)
			}
		}
	})
}

// patient has its driver wait for the switch as long as the test does.
func (l *flatLab) patient(t testing.TB) *flatLab {
	t.Helper()
	l.driver = l.open(t, func(cfg *FlatConfig) { cfg.Connect, cfg.Done = patient(t, l.proxy), nil })
	return l
}

// TestFlatStandsStill: csig stands still at each change of an update for longer than its
// values may last. It writes none with a timer of its own then, and takes back what it has
// written; the next update has its values, and nothing is reported as changed by others.
func TestFlatStandsStill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, true, nil).patient(t)
		l.apply(t, flatWant(inventory.Conservative, "p2"))
		values := [2]vendors.PortUpdate{given("p2", intent(quantize.MinABW, 12, 5)), given("p2", intent(quantize.MinABW, 13, 5))}
		was, next := 12, 13
		l.update(t, time.Minute, values[0])
		is := func(at string, s int) {
			t.Helper()
			l.Settled()
			if got := int(l.leave(t, best)[0]); got != s<<7|5 {
				t.Errorf("%s: the best tag leaves as %04x, want %04x\n%s", at, got, s<<7|5, l.state(t))
			}
		}
		for _, tc := range []struct {
			at  string
			typ uint8
			n   int
		}{
			{"the group is written", oftest.TypeGroupMod, 1},
			{"an entry is added", oftest.TypeFlowMod, 1},
			{"the third entry is added", oftest.TypeFlowMod, 3},
		} {
			standsStill(l.proxy, tc.typ, tc.n, 3*time.Second)
			res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{values[1]}, time.Second)
			if err == nil || !strings.Contains(err.Error(), "the lease would have ended") || res.Leased {
				t.Errorf("%s: %+v, %v", tc.at, res, err)
			}
			is(tc.at, was)
			if res := l.update(t, time.Minute, values[1]); res.Repaired != nil {
				t.Errorf("%s: %s", tc.at, res.Repaired)
			}
			is(tc.at+", and the next update", next)
			values[0], values[1], was, next = values[1], values[0], next, was
		}
		// It stands still before it has the connection.
		connect := l.driver.device.cfg.Connect
		l.driver.device.cfg.Connect = func(ctx context.Context) (*ofp.Conn, error) {
			time.Sleep(3 * time.Second)
			return connect(ctx)
		}
		l.proxy.Reset()
		if res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{values[1]}, time.Second); err == nil || res.Leased || l.proxy.Counts().FlowMods > 0 {
			t.Errorf("%+v, %v: %+v", res, err, l.proxy.Counts())
		}
		is("the connection is late", was)
		l.driver.device.cfg.Connect = connect
		// It is over at the very end of that time: 0 would be entries that stay.
		standsStill(l.proxy, oftest.TypeGroupMod, 1, 2*time.Second)
		l.update(t, time.Second, values[1])
		if state := l.state(t); !strings.Contains(state, "hard_timeout=1,") || strings.Contains(state, "0, priority=30001") || strings.Contains(state, "0, priority=30002") {
			t.Error(state)
		}
		values[0], values[1] = values[1], values[0]
		// What is left of the time is what the entries have.
		standsStill(l.proxy, oftest.TypeGroupMod, 1, 90*time.Second)
		l.update(t, time.Minute, values[1])
		if state := l.state(t); !strings.Contains(state, "hard_timeout=30") || strings.Contains(state, "hard_timeout=120") {
			t.Error(state)
		}
	})
}

// TestExpiresMeanwhile: the values of a port that is not in an update end while the
// update goes on: it does not renew them.
func TestExpiresMeanwhile(t *testing.T) {
	run(t, "one table", func(t *testing.T) {
		l := newFlatLab(t, true, nil).patient(t)
		l.apply(t, flatWant(inventory.Conservative, "p1", "p2"))
		l.update(t, 100*time.Second, given("p1", intent(quantize.MinABW, 12, 5)), given("p2", intent(quantize.MinABW, 12, 5)))
		time.Sleep(150 * time.Second)
		standsStill(l.proxy, oftest.TypeGroupMod, 1, 51*time.Second)
		l.update(t, time.Minute, given("p1", intent(quantize.MinABW, 9, 5)))
		if got := int(l.leave(t, best)[0]); got != stale {
			t.Errorf("the best tag leaves as %04x\n%s", got, l.state(t))
		}
	})
	run(t, "three tables", func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		l.driver = l.open(t, Config{OrdinaryVLANs: NotHandedOver, Connect: patient(t, l.proxy)})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2", "p3")...))
		l.update(t, 100*time.Second, seven("p2"), nine("p3"))
		time.Sleep(90 * time.Second)
		standsStill(l.proxy, oftest.TypeFlowMod, 1, 11*time.Second)
		l.update(t, time.Minute, nine("p2"))
		l.is(t, "it is given a value", 2, 9<<7|5)
		l.is(t, "it is given nothing", 3, stale)
	})
}

// TestFlatConnectionIsAnEpoch: on a new connection the values of a port that is given none
// are not renewed, however long they still last.
func TestFlatConnectionIsAnEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, false, nil)
		l.apply(t, flatWant(inventory.Conservative, "p1", "p2"))
		values := []vendors.PortUpdate{given("p1", intent(quantize.MinABW, 12, 5)), given("p2", intent(quantize.MinABW, 12, 5))}
		timers := func(seconds int) int { // of p2's flows
			return strings.Count(l.state(t), fmt.Sprintf("hard_timeout=%d, priority=30002,in_port=1,", seconds)) + strings.Count(l.state(t), fmt.Sprintf("hard_timeout=%d, priority=30001,in_port=1,", seconds))
		}
		l.update(t, 30*time.Second, values...)
		time.Sleep(time.Second)
		l.update(t, time.Minute, values[0])
		if n := timers(120); n == 0 {
			t.Errorf("one connection: it is not renewed\n%s", l.state(t))
		}
		l.update(t, 30*time.Second, values...)
		l.proxy.Cut()
		synctest.Wait() // it has ended
		l.update(t, time.Minute, values[0])
		if was, is := timers(60), timers(120); was == 0 || is > 0 {
			t.Errorf("%d flows have the timer of before, %d a new one\n%s", was, is, l.state(t))
		}
	})
}

// TestFlatGroups: another process changes a group that no flow refers to, between two reads
// of the switch. The update whose flows refer to it writes it.
func TestFlatGroups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, true, nil)
		l.apply(t, flatWant(inventory.Conservative, "p2"))
		l.update(t, time.Minute, given("p2", intent(quantize.MinABW, 12, 5)))
		l.update(t, time.Minute, given("p2", intent(quantize.MinABW, 13, 5)))
		row := rowBand1
		if from, _ := l.driver.ports[0].flat.live(); from == rowBand1 {
			row = rowBand0
		}
		l.Flow("mod-group", fmt.Sprintf("group_id=%d,type=indirect,bucket=actions=set_field:%d->vlan_vid,group:%d", rewriteGroup(2, quantize.MinABW, row), 0x1000|30<<7|5, unfiltered(2)))
		l.update(t, time.Minute, given("p2", intent(quantize.MinABW, 12, 5)))
		l.Settled()
		if got := l.leave(t, best)[0]; got != 12<<7|5 {
			t.Errorf("the best tag leaves as %04x\n%s", got, l.state(t))
		}
	})
}

// TestFlatNothingRepaired: what an update could not restore is not reported as restored.
func TestFlatNothingRepaired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, false, nil)
		l.apply(t, flatWant(inventory.Conservative, "p2"))
		u := given("p2", intent(quantize.MinABW, 12, 5))
		l.update(t, time.Minute, u)
		l.Flow("del-flows", "cookie=0x63736f6600000000/0xffffffff00000000")
		time.Sleep(checkEvery)
		c := &crasher{proxy: l.proxy}
		c.after(1)
		res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{u}, time.Minute)
		if err == nil || res.Repaired != nil || !c.stop() {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
