package integration

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
)

const comwareText = `
format: csig.fleet/v1
profile: {name: cli, tpid: 0x9900, interval: 6s, signals: {abw: {buckets: log-100M, initial_s: 30}}}
policy: {on_stale: conservative, schedule: "@every 1s"}
vlan_tpids: [0x8100]
devices:
  - name: sw1
    platform: comware
    experimental: true
    updates: cli
    address: 127.0.0.1
    management:
      ssh: {user: %s, port: %d, password: {file: %s}, known_hosts: %s}
      daemon: {at: here, socket: DIR/sw1.sock}
    counters: {source: snmp, snmp: {version: 2c, port: %d, community: {file: DIR/community}}}
    ports: [{name: p2, speed: 100M, lm: 5}]
`

// TestLongComware is the whole way of a switch with a command line: counters from a real
// snmpd, an agent elsewhere, rules over SSH into a fake of Comware, and frames through its
// data plane. S and LM at the receiver are the truth; when the agent is stopped the
// dead-man on the switch fires within the time it states.
func TestLongComware(t *testing.T) {
	p := plane.New(t, 3)
	sw := comwaretest.New("sw1", "p1", "p2", "p3")
	sw.Changed = func(list []comwaretest.Port) []int { return programPlane(t, p, sw.Customer, list) }
	before := sw.Running()
	here := newHost(t, "here")
	var cli *clitest.Server
	if err := here.Do(func() error { cli = clitest.New(t, sw.Shell); return nil }); err != nil {
		t.Fatal(err)
	}
	startSnmpd(t, p.Node(), snmpdPort, nil, "")
	relayUDP(t, here, p.Node(), snmpdPort)
	runClock(t, here, sw)

	l := cli.Login
	op := newOperator(t, here, fmt.Sprintf(comwareText, l.User, l.Port, l.Password.File, l.KnownHosts, snmpdPort))
	if err := os.WriteFile(filepath.Join(op.dir, "community"), []byte("public\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := op.agent("sw1")
	// Counters that rest say nothing, and csig apply lets the dead-man fire first.
	load := p.Load(t, 2, comwareLoads[0])
	plan := filepath.Join(op.dir, "up.plan")
	op.run(2, "plan", "-i", op.fleet, "-o", plan)
	op.run(0, "apply", plan, "--soak", "50ms")

	best := uint16(30<<7 | 126)
	leaves := func() quantize.Tag {
		t.Helper()
		got := p.Exchange(t, 2, [][]plane.Tag{{{TPID: 0x8100, TCI: 1}, {TPID: 0x9900, TCI: best}}}, nil)[0]
		if len(got) != 2 {
			t.Fatalf("%04x", got)
		}
		return quantize.Draft00.Unpack(quantize.TCI(got[1].TCI))
	}
	await := func(what string, s uint8, lm uint16, within time.Duration) {
		t.Helper()
		var got quantize.Tag
		for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if got = leaves(); got.S == uint32(s) && got.LM == lm {
				return
			}
		}
		t.Fatalf("%s: S %d and LM %d at the receiver, want %d and %d after %v", what, got.S, got.LM, s, lm, within)
	}
	table, err := quantize.Preset(quantize.MinABW, "log-100M")
	if err != nil {
		t.Fatal(err)
	}
	truth := func(load uint64) uint8 {
		t.Helper()
		s, other := table.Bucket(100e6-load*98/100), table.Bucket(100e6-load*102/100)
		if s != other {
			t.Fatalf("a load of %d is near the edge of buckets %d and %d", load, s, other)
		}
		return s
	}
	const worst, stale = 0, 125
	await("a load", truth(comwareLoads[0]), 5, time.Minute)
	if err := load.SetRate(comwareLoads[1]); err != nil {
		t.Fatal(err)
	}
	await("another load", truth(comwareLoads[1]), 5, time.Minute)

	s, err := a.client.Status(t.Context())
	if err != nil || s.DeadMan == nil || s.DeadMan.State != api.DeadManArmed {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		if err := a.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		await("after "+signal.String(), worst, stale, time.Duration(s.DeadMan.AfterNS))
		if signal == syscall.SIGSTOP {
			if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			await("the agent runs again", truth(comwareLoads[1]), 5, 2*time.Minute)
		}
	}
	if out := op.run(0, "off", "-i", op.fleet); !strings.Contains(out, "its daemon does not answer") {
		t.Errorf("csig off:\n%s", out)
	}
	if after := sw.Running(); after != before || sw.Saves() > 0 {
		t.Errorf("saved %d times, left:\n%s", sw.Saves(), after)
	}
}

// comwareLoads are in the midst of buckets.
var comwareLoads = [2]uint64{50e6, 79_800_000}

// programPlane hands what a configuration means to the data plane.
func programPlane(t testing.TB, p *plane.Plane, inner uint16, list []comwaretest.Port) []int {
	var out []plane.Port
	for _, port := range list {
		hw := plane.Port{Outer: port.Service, Inner: inner}
		for _, r := range port.Outbound {
			rule := plane.Rule{OuterPCP: r.ServicePCP, InnerPCP: r.CustomerPCP, SetOuter: r.RemarkService, SetInner: r.RemarkCustomer}
			for _, v := range r.Customer {
				rule.Inner = append(rule.Inner, plane.Range(v))
			}
			hw.Rules = append(hw.Rules, rule)
		}
		out = append(out, hw)
	}
	in, err := p.Program(out)
	if err != nil {
		t.Error(err)
	}
	return in
}

// relayUDP has a port of one namespace's loopback answered by that of another.
func relayUDP(t testing.TB, from, to *fabric.Node, port uint16) {
	t.Helper()
	at := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}
	var in, out *net.UDPConn
	err := from.Do(func() (err error) { in, err = net.ListenUDP("udp", at); return err })
	if err == nil {
		err = to.Do(func() (err error) { out, err = net.DialUDP("udp", nil, at); return err })
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards client
	var client *net.UDPAddr
	wg.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, addr, err := in.ReadFromUDP(b)
			if err != nil {
				return
			}
			mu.Lock()
			client = addr
			mu.Unlock()
			_, _ = out.Write(b[:n]) // what is lost is asked for again
		}
	})
	wg.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, err := out.Read(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			mu.Lock()
			to := client
			mu.Unlock()
			if err == nil && to != nil {
				_, _ = in.WriteToUDP(b[:n], to)
			}
		}
	})
	t.Cleanup(func() {
		in.Close()
		out.Close()
		wg.Wait()
	})
}

// runClock lets time go by on a switch as it does here, and sends its probes.
func runClock(t testing.TB, here *fabric.Node, sw *comwaretest.Switch) {
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	probe := func(address string, _ time.Duration) (answered bool) {
		_ = here.Do(func() error { // a probe that cannot be sent is one that failed
			c, err := net.Dial("udp", address)
			if err != nil {
				return err
			}
			defer c.Close()
			b := make([]byte, 100)
			if _, err = c.Write(b); err == nil {
				err = c.SetReadDeadline(time.Now().Add(1500 * time.Millisecond))
			}
			if err == nil {
				_, err = c.Read(b)
			}
			answered = err == nil
			return err
		})
		return answered
	}
	go func() {
		defer close(done)
		last := time.Now()
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				now := time.Now()
				sw.Pass(now.Sub(last), probe)
				last = now
			}
		}
	}()
}
