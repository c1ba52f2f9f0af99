package openflow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestControllerLost has a switch lose csig, or the operator's own controller while csig
// stays, in both fail modes. What csig cannot prevent is a switch in fail-standalone mode
// that has lost every controller which it dials, csig not among them: it deletes all flows
// and forwards by itself, past those that csig writes again. csig reports that.
func TestControllerLost(t *testing.T) {
	t.Parallel()
	const (
		dialed = iota // the switch dials csig, and no other controller
		beside        // it dials csig and the operator's controller
		dials         // csig dials; the switch dials the operator's controller alone
	)
	for name, tc := range map[string]struct {
		mode string
		csig int
		then []int // tags with which the best one leaves after the loss, one after the other
	}{
		"secure, csig is gone":                                           {"secure", dialed, []int{stale}},
		"standalone, csig is gone":                                       {"standalone", dialed, []int{stale, best}},
		"secure, the operator's controller is gone":                      {"secure", dials, []int{7<<7 | 5}},
		"standalone, the operator's controller is gone, csig dialed":     {"standalone", beside, []int{7<<7 | 5}},
		"standalone, the operator's controller is gone, csig has dialed": {"standalone", dials, []int{best}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sw := oftest.StartSwitchHere(t, 2)
			l := &lab{Bench: sw}
			sw.Vsctl("set-fail-mode", sw.Bridge, tc.mode)
			sw.Vsctl("set", "bridge", sw.Bridge, "other-config:datapath-id=00000000000000a1")
			var controllers []string
			listening := func() *ofp.Session { // a controller that the switch dials
				var s *ofp.Session
				var at string
				err := error(syscall.EADDRINUSE)
				for errors.Is(err, syscall.EADDRINUSE) {
					at = fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)) // none that connections take
					s, err = ofp.Open(ofp.Config{Listen: at, Plain: true, From: "127.0.0.1", Datapath: 0xa1})
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				controllers = append(controllers, "tcp:"+at)
				return s
			}
			var csig, lost *ofp.Session
			if tc.csig != dials {
				csig = listening()
				lost = csig
			}
			if tc.csig != dialed {
				lost = listening()
			}
			if tc.csig == dials {
				l.proxy = oftest.Start(t, oftest.Options{Bench: sw}, oftest.Faults{})
				var err error
				if csig, err = ofp.Open(ofp.Config{Connect: l.proxy.Addr(), Plain: true}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { csig.Close() })
			}
			var make []string
			ids := ""
			for i, target := range controllers {
				make = append(make, "--", fmt.Sprintf("--id=@c%d", i), "create", "controller", fmt.Sprintf("target=%q", target), "inactivity_probe=5000", "max_backoff=1000")
				ids += fmt.Sprintf(",@c%d", i)
			}
			sw.Vsctl(append(make, "--", "set", "bridge", sw.Bridge, "controller="+ids[1:])...)
			connected := func(s *ofp.Session) (*ofp.Conn, error) {
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				return s.Conn(ctx)
			}
			if _, err := connected(lost); err != nil {
				t.Fatal(err)
			}
			d, err := Open(Config{OrdinaryVLANs: NotHandedOver,
				Connect: func(context.Context) (*ofp.Conn, error) { return connected(csig) }})
			if err != nil {
				t.Fatal(err)
			}
			l.driver = d
			l.apply(t, setupFor(ports(vlanrules.Update, "p2")...)) // and the switch is connected
			l.handOver(2)                                          // it may forget what it had when it connects for the first time
			lease := 2 * time.Second
			if lost != csig {
				lease = time.Minute
			}
			l.update(t, lease, seven("p2"))
			l.is(t, "all are connected", 2, 7<<7|5)
			if err := lost.Close(); err != nil {
				t.Fatal(err)
			}
			pass := func(by time.Duration) { // of the switch's time, and of csig's
				sw.Appctl("time/warp", fmt.Sprint(by.Milliseconds()))
				d.checked, d.pathRead = d.checked.Add(-by), d.pathRead.Add(-by)
				l.Settled()
			}
			for i, want := range tc.then {
				limit, got := time.Now().Add(soon), 0
				for got != want && time.Now().Before(limit) {
					pass(500 * time.Millisecond)
					got = l.leaves(t, 2, best)
				}
				if got != want {
					t.Errorf("a controller is gone, %d: the best tag leaves as %04x, want %04x\n%s", i, got, want, l.flows())
				}
			}
			last, deleted := tc.then[len(tc.then)-1], 0
			for range 20 { // longer than three inactivity probes take
				pass(time.Second)
				if lost != csig {
					res, err := d.Update(t.Context(), []vendors.PortUpdate{seven("p2")}, time.Minute)
					if err != nil || !res.Leased {
						t.Fatalf("%+v, %v", res, err)
					}
					if res.Repaired != nil { // it deletes all flows, and forwards by itself
						deleted++
						if !strings.Contains(res.Repaired.String(), "fail-standalone") || res.Facts == nil || !strings.Contains(res.Facts.Update.Reason, "no flow hands frames to table 10") {
							t.Errorf("%+v", res)
						}
					}
				}
				l.is(t, "a controller is gone for long", 2, last)
			}
			if byItself := lost != csig && last == best; byItself != (deleted == 1) {
				t.Errorf("csig has found %d times that its flows were gone", deleted)
			}
		})
	}
}
