package openflow

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRepairs looks at frames after every message of a repair: none passes untouched,
// and what is sent to the stale table meets all of it.
func TestRepairs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		const marker = 99 // frames to it leave by p2 whatever csig's tables have
		l.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=output:2", marker))
		l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
		var mu sync.Mutex // guards what and looked
		what, looked := "", 0
		look := func(oftest.Message) {
			mu.Lock()
			defer mu.Unlock()
			l.Settled()
			looked++
			l.seq++
			l.Send(1, frame(l.seq, 2, best), frame(l.seq, marker, noTag))
			for { // without rules for the port it is dropped
				b := l.Receive(2)
				if seq, _, ok := parsed(b, marker); ok && seq == l.seq {
					return
				}
				if _, got, ok := parsed(b, 2); !ok || got != 7<<7|5 && got != stale {
					t.Errorf("%s: after %d messages the best tag leaves as %04x (%x)\n%s", what, looked, got, b, l.flows())
					return
				}
			}
		}
		cases := []struct {
			what   string
			change func()
		}{
			{"live flows", func() { l.Flow("del-flows", "table=11,metadata=2/0xfff") }},
			{"entries", func() { l.Flow("del-flows", "table=11,metadata=2/0xfff,vlan_tci=0x1000/0x1000") }},
			{"a value", func() { l.Flow("mod-flows", "table=11,metadata=2/0xfff,actions=output:2") }},
			{"what is below the live entries", func() { l.Flow("del-flows", "--strict", "table=11,priority=1,metadata=2/0xfff") }},
			{"stale flows", func() { l.Flow("del-flows", "table=12") }},
			{"live and stale flows", func() { l.Flow("del-flows", "table=11"); l.Flow("del-flows", "table=12") }},
			{"the lease", func() {
				l.Flow("del-flows", "--strict", "table=10,priority=101")
				l.Flow("del-flows", "--strict", "table=10,priority=102")
			}},
			{"the first table", func() { l.Flow("del-flows", "table=10") }},
		}
		for _, faults := range []oftest.Faults{{After: look}, late(look)} {
			l.driver = l.open(t, Config{OrdinaryVLANs: NotHandedOver, AckDelay: faults.AckToWire})
			l.update(t, time.Minute, seven("p2"))
			for _, tc := range cases {
				tc.change()
				mu.Lock()
				what, looked = tc.what, 0
				mu.Unlock()
				l.proxy.Set(func(f *oftest.Faults) { *f = faults })
				time.Sleep(checkEvery)
				res := l.update(t, time.Minute, seven("p2"))
				carriedOut(t, l.driver)
				l.proxy.Set(func(f *oftest.Faults) { *f = oftest.Faults{} })
				if !strings.Contains(res.Repaired.String(), "table 1") && !strings.Contains(res.Repaired.String(), "lease") {
					t.Errorf("%s: it is not reported: %q", tc.what, res.Repaired)
				}
				mu.Lock()
				if looked == 0 {
					t.Errorf("%s: nothing was written", tc.what)
				}
				mu.Unlock()
				l.is(t, tc.what, 2, 7<<7|5)
				if strings.Contains(l.flows(), fmt.Sprintf("priority=%d", priorityFallback)) {
					t.Errorf("%s: the port is still sent to the stale table\n%s", tc.what, l.flows())
				}
			}
		}
	})
}

// TestPortLeaves: flows of a number whose port has left are deleted, and a port that has
// it next gets none of them.
func TestPortLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 4, oftest.Faults{})
		l.apply(t, setupFor(append(ports(vlanrules.Update, "p2"), ports(vlanrules.Strip, "p3")...)...))
		l.update(t, time.Minute, seven("p2"))
		for _, name := range []string{"p2", "p3", "p4"} {
			l.RemovePort(name)
		}
		time.Sleep(checkEvery)
		var gone *vendors.PortError // that strips
		if res, err := l.driver.Update(t.Context(), nil, time.Minute); !errors.As(err, &gone) || gone.Port != "p3" || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		for n := 2; n <= 4; n++ {
			if flows := l.flows(); strings.Contains(flows, fmt.Sprintf("metadata=0x%d/0xfff", n)) {
				t.Errorf("number %d has left, and has flows:\n%s", n, flows)
			}
		}
		l.AddPort("p5", 3)
		time.Sleep(checkEvery)
		if res, err := l.driver.Update(t.Context(), nil, time.Minute); !errors.As(err, &gone) || gone.Port != "p3" || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		l.is(t, "a port that is in no setup has the number of one that strips", 3, best)
	})
}

// TestConnectionIsAnEpoch: a port that is given nothing after the connection was lost
// falls back, however long the lease still lasts.
func TestConnectionIsAnEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2", "p3")...))
		l.update(t, time.Minute, seven("p2"), nine("p3"))
		l.update(t, time.Minute, seven("p2"))
		l.is(t, "it is given nothing", 3, 9<<7|5)
		l.proxy.Cut()
		synctest.Wait() // it has ended
		l.update(t, time.Minute, seven("p2"))
		l.is(t, "it is given a value", 2, 7<<7|5)
		l.is(t, "it is given nothing on the new connection", 3, stale)
	})
}
