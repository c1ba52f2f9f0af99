package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	csigagent "github.com/csig-agent/csig/agent"
	ofcounters "github.com/csig-agent/csig/counters/openflow"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors/openflow"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// TestLongOpenFlowCadence runs the agent with 64 ports and two signals each on a switch of
// OpenFlow 1.3 every second, on one connection. The loads change the bucket of each signal of
// each port in every cycle. No cycle may be skipped or fail, and no lease may end: also where
// the switch carries out in any order, and later, what it has acknowledged.
func TestLongOpenFlowCadence(t *testing.T) {
	const (
		period = time.Second
		cycles = 5
		delay  = 50 * time.Millisecond
	)
	for _, tc := range []struct {
		name   string
		faults oftest.Faults
	}{
		{"in order", oftest.Faults{}},
		{"late and in any order", oftest.Faults{Reorder: 7, AckToWire: delay}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // beside the other alone
			sw := oftest.StartSwitch(t, cadencePorts)
			var took []time.Duration
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a, proxy := switchAgent(t, sw, cadencePorts, period, tc.faults.AckToWire, func(a *csigagent.Agent) {
				if took = append(took, time.Duration(a.Status().Cycle.ProgramNS)); len(took) == cycles {
					cancel()
				}
			})
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			proxy.Set(func(f *oftest.Faults) { *f = tc.faults })
			proxy.Reset()
			if err := a.Run(ctx); err != nil {
				t.Fatal(err)
			}
			c, sent := a.Status().Cycle, proxy.Counts()
			t.Logf("%d cycles every %v, %d skipped, %d failed, %d leases missed; a cycle: %d messages, %d flow-mods, %d barriers; programmed within %v at most, %v in the median",
				c.Count, period, c.Skipped, c.Failed, c.Lapses, sent.Messages/cycles, sent.FlowMods/cycles, sent.Barriers/cycles, slices.Max(took).Round(time.Millisecond), took[len(took)/2].Round(time.Millisecond))
			if c.Count < cycles || c.Skipped+c.Failed+c.Lapses > 0 {
				t.Errorf("%d cycles, %d skipped, %d failed (%s), %d leases missed", c.Count, c.Skipped, c.Failed, c.LastError, c.Lapses)
			}
			if sent.FlowMods/cycles < cadencePorts {
				t.Errorf("%d flow-mods a cycle, fewer than there are ports: the buckets stand still", sent.FlowMods/cycles)
			}
		})
	}
}

// switchAgent is an agent that has not started, of a switch of OpenFlow 1.3 behind a proxy, whose
// ports carry loads that change in every cycle.
func switchAgent(t *testing.T, sw *oftest.Switch, ports int, period, ackDelay time.Duration, onCycle func(*csigagent.Agent)) (*csigagent.Agent, *oftest.Proxy) {
	t.Helper()
	here := newHost(t, "here")
	proxy, _ := proxyIn(t, here, oftest.Options{Bridge: sw.Path()})
	var text strings.Builder
	fmt.Fprintf(&text, `
format: csig.fleet/v1
profile: {name: cadence, tpid: 0x88a8, interval: %v, signals: {abw: {buckets: log-10G}, abwc: {buckets: log}}}
vlan_tpids: [0x8100]
devices:
  - name: hw1
    platform: openflow
    experimental: true
    address: 127.0.0.1
    management: {openflow: {plaintext: true, ordinary_vlans: not-handed-over}, daemon: {at: here, socket: /run/csig/hw1.sock}}
    ports:
`, period)
	names := make([]string, ports)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i+1)
		fmt.Fprintf(&text, "      - {name: %s, speed: 10G, lm: {abw: %d, abwc: %d}}\n", names[i], 1+i, 1+i)
		sw.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=write_metadata:%d/0xfff,goto_table:10", i+1, i+1))
	}
	fleet, err := inventory.Parse("cadence.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	connect, done := ofp.Dialed(func(ctx context.Context) (c net.Conn, err error) {
		err = here.Do(func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, "tcp", proxy.Addr())
			return err
		})
		return c, err
	}, ofp.Version13)
	t.Cleanup(func() { _ = done() }) // the switch is gone by then
	source, err := ofcounters.New(ofcounters.Config{Switch: "hw1", Ports: names, Live: true, Connect: connect})
	if err != nil {
		t.Fatal(err)
	}
	driver, err := openflow.Open(openflow.Config{OrdinaryVLANs: openflow.NotHandedOver, AckDelay: ackDelay, Connect: connect})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	var a *csigagent.Agent
	a, err = csigagent.New(csigagent.Config{
		Profile: fleet.Profile, Policy: fleet.Policy, Device: fleet.Devices[0],
		Source: &loaded{Source: source}, Driver: driver, Log: logrus.NewEntry(log),
		OnCycle: func() { onCycle(a) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, proxy
}
