package openflow

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/openflow/ofp"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLongControllerLost has the switch connect to csig, and lose it: the lease ends in
// both fail modes. With fail-standalone the switch then forwards by itself, past every
// flow, which csig cannot prevent.
func TestLongControllerLost(t *testing.T) {
	for _, mode := range []string{"secure", "standalone"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := &lab{Switch: oftest.StartSwitch(t, 2)}
			l.Vsctl("set-fail-mode", l.Bridge, mode)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			free := ln.Addr().(*net.TCPAddr)
			ln.Close()
			l.Vsctl("set", "bridge", l.Bridge, "other-config:datapath-id=00000000000000a1")
			session, err := ofp.Open(ofp.Config{Listen: free.String(), Plain: true, Datapath: 0xa1})
			if err != nil {
				t.Fatal(err)
			}
			d, err := Open(Config{OrdinaryVLANs: NotHandedOver, Done: session.Close, Connect: func(ctx context.Context) (*ofp.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, soon)
				defer cancel()
				return session.Conn(ctx)
			}})
			if err != nil {
				t.Fatal(err)
			}
			l.driver = d
			l.Vsctl("set-controller", l.Bridge, fmt.Sprintf("tcp:127.0.0.1:%d", free.Port), "--", "set", "controller", l.Bridge, "inactivity_probe=5000", "max_backoff=1000")
			l.handOver(2)
			l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
			l.handOver(2) // a switch that connects for the first time may forget what it had
			l.update(t, 2*time.Second, seven("p2"))
			l.is(t, "csig is connected", 2, 7<<7|5)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			l.expect(t, "csig is gone", 2, stale)
			if mode == "secure" {
				for range 30 { // longer than the inactivity probes take
					<-time.After(time.Second)
					l.is(t, "csig is gone for long", 2, stale)
				}
				return
			}
			l.expect(t, "the switch forwards by itself", 2, best)
		})
	}
}
