package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// The interval is longer than net-snmp keeps its interface table, 3 s.
const legacyText = `
format: csig.fleet/v1
profile:
  name: legacy
  tpid: 0x88a8
  interval: 6s
  signals:
    abw: {buckets: log-100M, initial_s: 30} # command lines can match no VID 4095
policy: {on_stale: conservative, schedule: "@every 1s"}
vlan_tpids: [0x8100]
defaults:
  counters: {source: snmp, snmp: {version: 2c, port: 1161, community: {file: DIR/community}}}
devices:
  - name: s1
    platform: openflow
    experimental: true
    address: ADDRESS1
    management:
      openflow: {port: 6653, plaintext: true, ordinary_vlans: not-handed-over}
      daemon: {at: here, socket: DIR/s1.sock}
    ports: [{name: p2, speed: 50M, lm: 5, peer: "s2:p1"}]
  - name: s2
    platform: comware
    experimental: true
    updates: cli
    address: 127.0.0.1
    management:
      LOGIN2
      daemon: {at: here, socket: DIR/s2.sock}
      comware: {tag: outer}
    counters: {source: snmp, snmp: {version: 2c, port: 1163, community: {file: DIR/community}}}
    ports:
      - {name: p1, speed: 50M, action: passthrough, peer: "s1:p2"}
      - {name: p2, speed: 50M, lm: 6, peer: "s3:p1"}
  - name: s3
    platform: eos
    experimental: true
    updates: cli
    address: 127.0.0.1
    management:
      LOGIN3
      daemon: {at: here, socket: DIR/s3.sock}
      eos: {forwarding: [{in_port: p1, port: p2}]}
    counters: {source: snmp, snmp: {version: 2c, port: 1164, community: {file: DIR/community}}}
    ports:
      - {name: p1, speed: 50M, action: passthrough, peer: "s2:p2"}
      - {name: p2, speed: 50M, lm: 7, peer: "s4:p1"}
  - name: s4
    platform: ovs
    address: ADDRESS4
    management:
      ovs: {bridge: csig, run_dir: RUN}
      SSH
      daemon: {at: here, socket: DIR/s4.sock}
    ports:
      - {name: p1, speed: 50M, action: passthrough, peer: "s3:p2"}
      - {name: p2, speed: 50M, lm: 8, peer: h2}
hosts: [{name: h2, csig: true}]
`

// legacy is a row of four switches that run no csig, each with an snmpd, and the machine that
// drives them over links apart from the row. s2 and s3 are the fakes of Comware's and EOS's
// command lines, with data planes of nftables; s4 faces a host, and can strip:
//
//	h1 ── s1 ── s2 ── s3 ── s4 ── h2
//	l1 ──┘  l2 ──┘  l3 ──┘  l4 ──┘    l1 loads the cable s1–s2, up to l2; … l4 the cable s4–h2
type legacy struct {
	mixedPath
	op      *operator
	of      *ovstest.Switch  // s1
	running [2]func() string // configurations of s2 and s3
	own     []*mixedPath     // frames through the update of one switch alone
}

// flows are those of both switches.
func (p *legacy) flows() string {
	one := p.of.Ofctl("-O", "OpenFlow13", "--no-stats", "dump-flows", "csig")
	return one + p.ovs.Ofctl("--no-stats", "dump-flows", "csig")
}

func newLegacy(t *testing.T) *legacy {
	t.Helper()
	p := &legacy{mixedPath: mixedPath{loads: make([]*fabric.Load, 4), agents: make([]*agent, 4)}}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &row{t: t, dir: t.TempDir(), net: byte(nets.Add(1))}
	t.Cleanup(func() {
		for _, l := range p.loads {
			if l == nil {
				continue
			}
			if err := l.Stop(); err != nil {
				t.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	nodes := map[string]*fabric.Node{}
	for _, name := range []string{"operator", "h1", "h2", "l1", "l2", "l3", "l4", "s1", "s2", "s3", "s4"} {
		add := r.AddHost // the bridges of s1 and s4 are Open vSwitch's
		if name == "s2" || name == "s3" {
			add = r.AddSwitch
		}
		n, err := add(name)
		check(err)
		nodes[name] = n
	}
	r.from = nodes["operator"]
	for i := range 4 {
		r.switches = append(r.switches, nodes[fmt.Sprint("s", i+1)])
	}
	s1, s4 := r.switches[0], r.switches[3]
	connect := func(a, ap, b, bp string) (*fabric.Port, *fabric.Port) {
		x, y, err := r.Connect(fabric.End{Node: nodes[a], Port: ap}, fabric.End{Node: nodes[b], Port: bp}, 0)
		check(err)
		return x, y
	}
	p.h1, _ = connect("h1", "eth0", "s1", "p1")
	var load, ends, out, side []*fabric.Port // the last two of switches
	for i := range 4 {
		name, next, at := fmt.Sprint("s", i+1), fmt.Sprint("s", i+2), "p1"
		if i == 3 {
			next, at = "h2", "eth0"
		}
		x, y := connect(name, "p2", next, at)
		out, p.h2 = append(out, x), y
		l, q := connect(fmt.Sprint("l", i+1), "eth0", name, "p3")
		load, side = append(load, l), append(side, q)
		check(x.Shape(capacity))
	}
	h2 := p.h2
	ends = append(append(ends, load[1:]...), h2) // of each load
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check(r.WaitUp(ctx))

	of := ovstest.Start(t, inNode(s1))
	p.of = of
	p.ovs = ovstest.Start(t, inNode(s4))
	numbered(of, "p1", "p2", "p3")
	of.Vsctl("set-controller", "csig", "ptcp:6653")
	of.Vsctl("set-fail-mode", "csig", "secure")
	for _, to := range []*fabric.Port{h2, ends[0]} { // the operator's flows
		of.Ofctl("-O", "OpenFlow13", "add-flow", "csig", "table=0,priority=10,dl_dst="+to.MAC.String()+",actions=write_metadata:2/0xfff,goto_table:10")
	}
	bridged(p.ovs, "p1", "p2", "p3")
	for mac, port := range map[string]string{h2.MAC.String(): "n-p2", ends[2].MAC.String(): "n-p3"} {
		p.ovs.Appctl("fdb/add", "br0", port, "1", mac)
	}
	for i := 1; i < 3; i++ {
		s := r.switches[i]
		check(errors.Join(s.Forward(h2.MAC, out[i]), s.Forward(ends[i].MAC, out[i]), s.Forward(ends[i-1].MAC, side[i])))
	}

	at := map[int]string{0: "", 3: ""}
	for i := range at {
		at[i] = r.manage(i)
		startSnmpd(t, r.switches[i], snmpdPort, nil, fmt.Sprintf("agentaddress udp:%s:%d\n", at[i], snmpdPort))
	}
	logins := p.fakes(t, r)
	l := sshtest.Start(t, sshtest.Options{Address: at[3], Start: func(cmd *exec.Cmd) error { return s4.Do(cmd.Start) }}).Login
	ssh := fmt.Sprintf("ssh: {user: %s, port: %d, key: %s, known_hosts: %s}", l.User, l.Port, l.Key, l.KnownHosts)
	p.op = newOperator(t, r.from, strings.NewReplacer("ADDRESS1", at[0], "ADDRESS4", at[3], "RUN", p.ovs.Dir, "SSH", ssh, "LOGIN2", logins[0], "LOGIN3", logins[1]).Replace(legacyText))
	check(os.WriteFile(filepath.Join(p.op.dir, "community"), []byte("public\n"), 0o600))
	var err error
	p.fleet, err = inventory.Load(p.op.fleet)
	check(err)

	for i, l := range load {
		p.loads[i], err = fabric.StartLoad(l, ends[i].MAC, 0)
		check(err)
		p.own = append(p.own, p.between(t, l, ends[i]))
	}
	whole := p.between(t, p.h1, h2)
	p.tx, p.rx = whole.tx, whole.rx
	return p
}

// between prepares frames from one host to another.
func (p *legacy) between(t *testing.T, from, to *fabric.Port) *mixedPath {
	t.Helper()
	o := &mixedPath{}
	err := from.Node().Do(func() (err error) {
		o.tx, err = probe.NewSender(probe.SenderConfig{Interface: from.Name, Dst: to.MAC, Profile: &p.fleet.Profile, Signals: []quantize.Signal{quantize.MinABW}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.tx.Close() })
	err = to.Node().Do(func() (err error) {
		o.rx, err = probe.NewListener(probe.ListenerConfig{Interface: to.Name, Profile: &p.fleet.Profile, RunID: o.tx.RunID()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.rx.Close() })
	return o
}

// fakes starts the command lines of s2 and s3 on their data planes, at the operator's loopback,
// where their snmpd answer, too.
func (p *legacy) fakes(t *testing.T, r *row) (logins []string) {
	t.Helper()
	ports := []string{"p1", "p2", "p3"}
	comware := comwaretest.New("s2", ports...)
	planes := []*plane.Plane{plane.On(r.switches[1]), plane.On(r.switches[2])}
	comware.Changed = func(list []comwaretest.Port) []int { return programPlane(t, planes[0], comware.Customer, list) }
	comware.Type("interface p1", "qinq ethernet-type service-tag 88a8") // the operator's
	runClock(t, func(by time.Duration) { comware.Pass(by, prober(r.from)) })
	eos := eostest.New("s3", ports...)
	eos.Changed = func(flows []eostest.Flow) int {
		n, err := eostest.Program(planes[1], 0x88a8, ports, flows)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	runClock(t, eos.Pass)
	p.running = [2]func() string{comware.Running, eos.Running}
	for i, open := range []func() clitest.Shell{comware.Shell, eos.Shell} {
		var cli *clitest.Server
		if err := r.from.Do(func() error { cli = clitest.New(t, open); return nil }); err != nil {
			t.Fatal(err)
		}
		port := snmpdPort + 2 + uint16(i)
		startSnmpd(t, r.switches[1+i], port, nil, "")
		relayUDP(t, r.from, r.switches[1+i], port)
		l := cli.Login
		logins = append(logins, fmt.Sprintf("ssh: {user: %s, port: %d, password: {file: %s}, known_hosts: %s}", l.User, l.Port, l.Password.File, l.KnownHosts))
	}
	return logins
}

// until sends frames until one arrives as wanted.
func (p *legacy) until(t *testing.T, what string, ok func(quantize.Tag) bool) {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		got := p.send(t, quantize.MinABW)
		if ok(got) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: at h2 a tag has %+v", what, got)
		}
	}
}

// legacyWay has a controller drive switches that run no csig, by OpenFlow and over SSH,
// with counters of an snmpd each: S and LM at h2 are those of the busy hop, which moves. When
// the controller is killed, each falls back within the time that it states, the next controller
// goes on, and csig off removes all.
func legacyWay(t *testing.T) {
	p := newLegacy(t)
	op, names := p.op, []string{"s1", "s2", "s3", "s4"}
	before := [2]string{p.running[0](), p.running[1]()}
	for _, l := range p.loads { // counters that rest say nothing
		if err := l.SetRate(capacity / 5); err != nil {
			t.Fatal(err)
		}
	}
	p.agents = op.controller(names...)
	plan := filepath.Join(op.dir, "up.plan")
	op.run(2, "plan", "-i", op.fleet, "-o", plan)
	op.run(0, "apply", plan, "--soak", "50ms")
	live := func() {
		t.Helper()
		for i, name := range names {
			p.agents[i].await("that "+name+" is live", func(s *api.Status) bool {
				return slices.ContainsFunc(s.Ports, func(q api.Port) bool { return len(q.Signals) > 0 && q.State == api.StateLive })
			})
		}
	}
	live()

	b := &bed{fleet: p.fleet}
	mid := midLoads(t, b, 5)
	truth := func(busy int) {
		t.Helper()
		loads := []uint64{mid[1], mid[1], mid[1], mid[1]}
		loads[busy] = mid[3]
		for i, l := range p.loads {
			if err := l.SetRate(loads[i]); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(2 * patience); ; {
			p.settle()
			err := p.expect(t, b, loads)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			t.Log(err)
		}
	}
	for _, busy := range []int{0, 2} {
		truth(busy)
	}
	if have := p.flows(); strings.Count(have, "vlan_vid") == 0 {
		t.Fatalf("no flow rewrites a tag:\n%s", have)
	}

	p.killed(t, names)
	p.agents = op.controller(names...)
	live()
	truth(3)
	if out, code := ran(t, op.host.Command(csig, "plan", "-i", op.fleet)); code != 0 {
		steps, _ := ran(t, op.host.Command(csig, "plan", "-i", op.fleet, "--json"))
		t.Errorf("a plan of what another controller drives: exit code %d\n%s\n%s", code, out, steps)
	}
	op.run(0, "off", "-i", op.fleet)
	// What stays sends frames on as they are (docs/openflow.md, docs/ovs.md).
	if after := p.flows(); strings.Contains(after, "vlan") {
		t.Errorf("csig off leaves\n%s", after)
	}
	for i, running := range p.running {
		if after := running(); after != before[i] {
			t.Errorf("csig off leaves at %s\n%s", names[1+i], after)
		}
	}
	p.until(t, "csig is off", func(g quantize.Tag) bool { return g.S == 30 && g.LM == p.fleet.Profile.Layout.LMNone() })
}

// killed kills the controller, and sees in frames of each switch alone that it falls back within
// what it states: the lease, or after how long its dead-man fires.
func (p *legacy) killed(t *testing.T, names []string) {
	t.Helper()
	var within []time.Duration
	for _, a := range p.agents {
		s := a.await("its lease or dead-man", func(s *api.Status) bool {
			return s.LeaseNS > 0 || s.DeadMan != nil && s.DeadMan.State == api.DeadManArmed
		})
		if s.DeadMan != nil {
			within = append(within, time.Duration(s.DeadMan.AfterNS))
		} else {
			within = append(within, time.Duration(s.LeaseNS))
		}
	}
	_ = p.agents[0].signal(syscall.SIGKILL)
	begin, stale := time.Now(), p.fleet.Profile.Layout.LMStale()
	for left := len(names); left > 0; {
		for i, name := range names {
			if p.own[i] == nil {
				continue
			}
			took := time.Since(begin) // by when it is sent: on its way it may wait for a processor
			got := p.own[i].send(t, quantize.MinABW)
			if got.S == 0 && got.LM == stale {
				t.Logf("%s fell back %v after SIGKILL, and states %v", name, took.Round(10*time.Millisecond), within[i])
				p.own[i] = nil
				left--
			} else if got.LM != uint16(5+i) || took > within[i]+2*time.Second {
				t.Fatalf("%s has %+v %v after SIGKILL, and states %v", name, got, took, within[i])
			}
		}
	}
}
