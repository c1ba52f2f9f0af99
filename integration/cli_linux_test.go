package integration

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

const cliText = `
format: csig.fleet/v1
profile: {name: cli, tpid: 0x%04x, interval: 6s, signals: {abw: {buckets: log-100M, initial_s: 30}}}
policy: {on_stale: conservative, schedule: "@every 1s"}
vlan_tpids: [0x8100]
devices:
  - name: sw1
    platform: %s
    experimental: true
    updates: cli
    %s
    address: 127.0.0.1
    management:
      ssh: {user: %s, port: %d, password: {file: %s}, known_hosts: %s}
      daemon: {at: here, socket: DIR/sw1.sock}
      %s
    counters: %s
    ports: [{name: p2, speed: 100M, lm: 5}]
`

// cliSwitch is a fake of a switch with a command line, on a data plane.
type cliSwitch struct {
	shell   func() clitest.Shell
	running func() string
	saves   func() int
}

// cliPlatform is how a platform takes its part in the test.
type cliPlatform struct {
	tpid       uint16
	inner      bool // CSIG's tag is behind a VLAN tag
	management string
	gnmi       bool // counters by gNMI, in place of a real snmpd
	deadMan    bool // the switch has one; else lease: none
	start      func(t testing.TB, p *plane.Plane, here *fabric.Node) cliSwitch
}

var cliPlatforms = map[string]cliPlatform{
	"comware": {tpid: 0x9900, inner: true, deadMan: true, start: func(t testing.TB, p *plane.Plane, here *fabric.Node) cliSwitch {
		sw := comwaretest.New("sw1", "p1", "p2", "p3")
		sw.Changed = func(list []comwaretest.Port) []int { return programPlane(t, p, sw.Customer, list) }
		runClock(t, func(by time.Duration) { sw.Pass(by, prober(here)) })
		return cliSwitch{sw.Shell, sw.Running, sw.Saves}
	}},
	"vrp": {tpid: 0x9100, start: func(t testing.TB, p *plane.Plane, _ *fabric.Node) cliSwitch {
		sw := vrptest.New("sw1", "p1", "p2", "p3")
		sw.Changed = func(list []vrptest.Port) []int {
			in, err := vrptest.Program(p, list)
			if err != nil {
				t.Error(err)
			}
			return in
		}
		return cliSwitch{sw.Shell, sw.Running, sw.Saves}
	}},
	"eos": {tpid: 0x9900, gnmi: true, deadMan: true, management: `eos: {forwarding: [{in_port: p1, eth_dst: "02:00:00:00:00:02", port: p2}]}`, start: func(t testing.TB, p *plane.Plane, _ *fabric.Node) cliSwitch {
		ports := []string{"p1", "p2", "p3"}
		sw := eostest.New("sw1", ports...)
		sw.Changed = func(flows []eostest.Flow) int {
			n, err := eostest.Program(p, 0x9900, ports, flows)
			if err != nil {
				t.Error(err)
			}
			return n
		}
		runClock(t, sw.Pass)
		return cliSwitch{sw.Shell, sw.Running, sw.Saves}
	}},
}

// TestLongCLI is the whole way of a switch with a command line: counters from a real snmpd, or
// from OpenConfig's gNMI server, an agent elsewhere, rules over SSH into a fake, and frames
// through its data plane. S and LM at the receiver are the truth. Where the switch has a
// dead-man, it fires within the time it states when the agent is stopped or killed; elsewhere
// an agent that ends writes the worst bucket.
func TestLongCLI(t *testing.T) {
	t.Parallel()
	for name, platform := range cliPlatforms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			platform.wholeWay(t, name)
		})
	}
}

func (c *cliPlatform) wholeWay(t *testing.T, name string) {
	p := plane.New(t, 3)
	here := newHost(t, "here")
	sw := c.start(t, p, here)
	before := sw.running()
	var cli *clitest.Server
	if err := here.Do(func() error { cli = clitest.New(t, sw.shell); return nil }); err != nil {
		t.Fatal(err)
	}
	counters, lease := "", ""
	if c.gnmi {
		counters = fmt.Sprintf("{source: gnmi, gnmi: {plaintext: true, port: %d, target: %s}}", serveCounters(t, here, p, 2, "p2"), gnmitest.Behind)
	} else {
		startSnmpd(t, p.Node(), snmpdPort, nil, "")
		relayUDP(t, here, p.Node(), snmpdPort)
		counters = fmt.Sprintf("{source: snmp, snmp: {version: 2c, port: %d, community: {file: DIR/community}}}", snmpdPort)
	}
	if !c.deadMan {
		lease = "lease: none"
	}
	l := cli.Login
	op := newOperator(t, here, fmt.Sprintf(cliText, c.tpid, name, lease, l.User, l.Port, l.Password.File, l.KnownHosts, c.management, counters))
	writeFile(t, filepath.Join(op.dir, "community"), []byte("public\n"))
	a := op.agent("sw1")
	// Counters that rest say nothing, and csig apply lets a dead-man fire first.
	load := p.Load(t, 2, cliLoads[0])
	plan := filepath.Join(op.dir, "up.plan")
	op.run(2, "plan", "-i", op.fleet, "-o", plan)
	op.run(0, "apply", plan, "--soak", "50ms")

	sent := []plane.Tag{{TPID: c.tpid, TCI: 30<<7 | 126}}
	if c.inner {
		sent = append([]plane.Tag{{TPID: 0x8100, TCI: 1}}, sent...)
	}
	leaves := func() quantize.Tag {
		t.Helper()
		got := p.Exchange(t, 2, [][]plane.Tag{sent}, nil)[0]
		if len(got) != len(sent) {
			t.Fatalf("%04x", got)
		}
		return quantize.Draft00.Unpack(quantize.TCI(got[len(got)-1].TCI))
	}
	await := func(what string, s uint8, lm uint16, within time.Duration) {
		t.Helper()
		var got quantize.Tag
		for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if got = leaves(); got.S == uint32(s) && got.LM == lm {
				return
			}
		}
		status, err := a.client.Status(t.Context())
		if err == nil {
			text, _ := json.Marshal(status) //nolint:errchkjson // it came as JSON
			t.Logf("the agent's status: %s", text)
		}
		t.Fatalf("%s: S %d and LM %d at the receiver, want %d and %d after %v (%v)", what, got.S, got.LM, s, lm, within, err)
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
	await("a load", truth(cliLoads[0]), 5, 3*patience)
	if err := load.SetRate(cliLoads[1]); err != nil {
		t.Fatal(err)
	}
	await("another load", truth(cliLoads[1]), 5, 3*patience)

	if !c.deadMan {
		if err := a.signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		await("the agent has ended", worst, stale, time.Minute)
	} else {
		c.silent(t, a, await, truth(cliLoads[1]))
	}
	if out := op.run(0, "off", "-i", op.fleet); !strings.Contains(out, "its daemon does not answer") {
		t.Errorf("csig off:\n%s", out)
	}
	if after := sw.running(); after != before || sw.saves() > 0 {
		t.Errorf("saved %d times, left:\n%s", sw.saves(), after)
	}
}

// worst and stale are what a port falls back to.
const worst, stale = 0, 125

// silent stops an agent, and then kills it: the dead-man fires in time.
func (c *cliPlatform) silent(t *testing.T, a *agent, await func(what string, s uint8, lm uint16, within time.Duration), live uint8) {
	t.Helper()
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
			await("the agent runs again", live, 5, 2*time.Minute)
		}
	}
	<-a.ended
}

// serveCounters runs OpenConfig's own gNMI server at a host, with what a port of a plane has
// sent, read from the kernel twice a second.
func serveCounters(t testing.TB, here *fabric.Node, p *plane.Plane, port int, name string) (at int) {
	t.Helper()
	for flagName, value := range map[string]string{"log_dir": t.TempDir(), "stderrthreshold": "FATAL"} { // of the server's log
		if err := flag.Set(flagName, value); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := p.Port(port).Counters()
	if err != nil {
		t.Fatal(err)
	}
	g, srv := gnmitest.NewGateway(t, "")
	var l net.Listener
	if err := here.Do(func() (err error) { l, err = net.Listen("tcp", "127.0.0.1:0"); return err }); err != nil {
		t.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	pb.RegisterGNMIServer(grpcServer, srv)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { _ = grpcServer.Serve(l) })
	wg.Go(func() {
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			c, err := reader.Read()
			if err != nil {
				t.Error(err)
				return
			}
			g.Port(c.At, name, c.Bytes+4*c.Frames, c.Frames) // the kernel counts no FCS
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		grpcServer.Stop()
		wg.Wait()
		reader.Close()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// cliLoads are in the midst of buckets.
var cliLoads = [2]uint64{50e6, 79_800_000}

// programPlane hands what a configuration means to the data plane.
func programPlane(t testing.TB, p *plane.Plane, inner uint16, list []comwaretest.Port) []int {
	var out []plane.Port
	for _, port := range list {
		hw := plane.Port{Outer: port.Service, Inner: inner}
		for _, r := range port.Outbound {
			rule := plane.Rule{OuterPCP: r.ServicePCP, InnerPCP: r.CustomerPCP, SetOuter: r.RemarkService, SetInner: r.RemarkCustomer}
			for _, v := range r.Service {
				rule.Outer = append(rule.Outer, plane.Range(v))
			}
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

// prober sends a switch's probes from a host.
func prober(here *fabric.Node) func(address string) bool {
	return func(address string) (answered bool) {
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
}

// runClock lets time go by on a switch as it does here.
func runClock(t testing.TB, pass func(time.Duration)) {
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				pass(50 * time.Millisecond)
			}
		}
	}()
}
