package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/vendors/sai/saitest"
)

// saiRow is h1 ── leaf-1 ── spine-1 ── leaf-2 ── h2, and h3 at leaf-2, which gets no tags. The leaves' chips do CSIG, by what a fake of
// orchagent has accepted; spine-1 is linux-ebpf. Each leaf has an agent where its orchagent runs, in a namespace beside the chip's.
type saiRow struct {
	*operator
	row    // its ends, and its fleet file
	leaves map[string]*saitest.Switch
	at     map[string]*fabric.Node
	agents map[string]*agent
	text   string
}

const saiRowFleet = `
format: csig.fleet/v1
profile:
  name: pod
  interval: 1ms
  PROFILE
policy: {schedule: "@every 1s"}
devices:
  - {name: leaf-1, platform: sai, experimental: true, tags: [canary], management: {redis: {databases: %s}, daemon: {socket: DIR/leaf-1.sock}}, ports: [{name: Ethernet0, speed: 5G, lm: 2}, {name: Ethernet4, speed: 40G, lm: 4}]}
  - {name: leaf-2, platform: sai, experimental: true, management: {redis: {databases: %s}, daemon: {socket: DIR/leaf-2.sock}}, ports: [{name: Ethernet0, speed: 10G, lm: 6}, {name: Ethernet4, speed: 1G, lm: 8}, {name: Ethernet8, speed: 1G, action: strip}]}
  - {name: spine-1, platform: linux-ebpf, management: {daemon: {socket: DIR/spine-1.sock}}, ports: [{name: swp1, speed: 5G, lm: 10}, {name: swp2, speed: 10G, lm: 12}]}
hosts: [{name: "h[1-2]", csig: true, mtu: 1500}, {name: h3, csig: false, mtu: 1500}]
links: |
  h1 - leaf-1:Ethernet4
  leaf-1:Ethernet0 - spine-1:swp1
  spine-1:swp2 - leaf-2:Ethernet0
  h2 - leaf-2:Ethernet4
  h3 - leaf-2:Ethernet8
`

// saiProfiles are of the three kinds.
var saiProfiles = []string{
	"tpid: 0x9900\n  layout: draft-00\n  signals: {abw: {buckets: log-100G}}",
	"tpid: 0x9900\n  layout: uec\n  signals: {abw: {buckets: log-100G}, pd: {buckets: log-1ms}}",
	"tpid: 0x9900\n  wide_tpid: 0x9901\n  layout: uec\n  signals: {abw: {buckets: log-100G, quantum: 524288bit/s}}",
}

func newSAIRow(t testing.TB) *saiRow {
	t.Helper()
	r := &saiRow{leaves: map[string]*saitest.Switch{}, at: map[string]*fabric.Node{}, agents: map[string]*agent{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newFabric(t)
	chips := map[string]*fabric.Node{}
	for _, name := range []string{"leaf-1", "leaf-2", "spine-1"} {
		n, err := f.AddSwitch("chip-" + name)
		must(err)
		chips[name] = n
		if r.at[name] = n; name != "spine-1" {
			r.at[name], err = f.AddHost(name)
			must(err)
		}
	}
	host := func(name string) fabric.End {
		n, err := f.AddHost(name)
		must(err)
		return fabric.End{Node: n, Port: "eth0"}
	}
	connect := func(a, b fabric.End) (*fabric.Port, *fabric.Port) {
		p, q, err := f.Connect(a, b, 9000)
		must(err)
		return p, q
	}
	end := func(device, port string) fabric.End { return fabric.End{Node: chips[device], Port: port} }
	var toH1, toH2 []*fabric.Port
	h1, p := connect(host("h1"), end("leaf-1", "Ethernet4"))
	toH1 = append(toH1, p)
	p, q := connect(end("leaf-1", "Ethernet0"), end("spine-1", "swp1"))
	toH2, toH1 = append(toH2, p), append(toH1, q)
	p, q = connect(end("spine-1", "swp2"), end("leaf-2", "Ethernet0"))
	toH2, toH1 = append(toH2, p), append(toH1, q)
	h2, p := connect(host("h2"), end("leaf-2", "Ethernet4"))
	toH2 = append(toH2, p)
	_, _ = connect(host("h3"), end("leaf-2", "Ethernet8"))
	for _, p := range toH1 {
		must(p.Node().Forward(h1.MAC, p))
	}
	for _, p := range toH2 {
		must(p.Node().Forward(h2.MAC, p))
	}
	must(f.WaitUp(t.Context()))
	for _, p := range append(toH1, toH2...) {
		must(p.Shape(10_000_000_000)) // its queue is what delays are of
	}
	for leaf, speeds := range map[string][]string{"leaf-1": {"5000", "40000"}, "leaf-2": {"10000", "1000", "1000"}} {
		names := []string{"Ethernet0", "Ethernet4", "Ethernet8"}[:len(speeds)]
		sw := saitest.New(t, names...)
		for i, mbit := range speeds {
			sw.Do(fmt.Sprintf("SAI_OBJECT_TYPE_PORT:oid:0x100000000000%d", i+2), "set", "SAI_PORT_ATTR_SPEED", mbit)
			sw.Redis.Do(0, "HSET", "PORT_TABLE:"+names[i], "speed", mbit)
		}
		sw.Forward(chips[leaf].FD())
		must(r.at[leaf].Do(func() error { sw.RunProcess(); return nil }))
		flexCounters(t, sw, len(names))
		r.leaves[leaf] = sw
	}
	r.text = fmt.Sprintf(saiRowFleet, r.leaves["leaf-1"].Redis.File, r.leaves["leaf-2"].Redis.File)
	op, err := f.AddHost("operator")
	must(err)
	r.operator = newOperator(t, op, r.text)
	r.row.t, r.row.fleet, r.row.h1, r.row.h2 = t, r.operator.fleet, h1, h2
	for _, name := range []string{"leaf-1", "leaf-2", "spine-1"} {
		r.start(name)
	}
	return r
}

// start starts a device's agent.
func (r *saiRow) start(name string) {
	r.row.t.Helper()
	at := *r.operator
	at.host = r.at[name]
	r.agents[name] = at.agent(name)
}

// profile has the fleet file have one of the profiles.
func (r *saiRow) profile(keys string) {
	r.row.t.Helper()
	writeFile(r.row.t, r.operator.fleet, []byte(strings.ReplaceAll(strings.Replace(r.text, "PROFILE", keys, 1), "DIR", r.operator.dir)))
}

// flexCounters are syncd's, until the test ends.
func flexCounters(t testing.TB, sw *saitest.Switch, ports int) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			for port := range ports {
				_ = sw.Redis.Try(2, "HSET", fmt.Sprintf("COUNTERS:oid:0x100000000000%d", port+2), "SAI_PORT_STAT_IF_OUT_OCTETS", n*1000, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", n, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// by reports whether a frame has the locator of a port, as its profile's tags have it.
func by(lm uint16) func(f *probe.Received) bool {
	return func(f *probe.Received) bool { return f.Tagged && f.Tag.LM == lm }
}

// clean wants that nothing of csig is on any device.
func (r *saiRow) clean(when string) {
	r.row.t.Helper()
	for name, sw := range r.leaves {
		if left := append(sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), sw.Objects("SAI_OBJECT_TYPE_TAM")...); len(left) > 0 || sw.Died() != nil {
			r.row.t.Errorf("%s: %s has %v; %v", when, name, left, sw.Died())
		}
	}
	if out, err := r.at["spine-1"].Command("tc", "filter", "show", "dev", "swp1", "egress").CombinedOutput(); err != nil || bytes.Contains(out, []byte("csig")) {
		r.row.t.Errorf("%s: spine-1: %v, %s", when, err, out)
	}
}

// TestLongSAIRollOut sets a fleet of SAI and linux-ebpf switches up in waves, for each of three profiles, and takes it back, each time
// with kill -9 at every step: of csig apply, csig rollback, and the agent of the device that the step is of. Tagged frames show what the path does.
func TestLongSAIRollOut(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newSAIRow(t)
	// carry runs a command and its continuation until it ends, each killed at one step more; every second time its device's agent is, too.
	carry := func(first, again []string) {
		t.Helper()
		for kills := 0; ; kills++ {
			args := again
			if kills == 0 {
				args = first
			}
			var of string
			cmd := r.host.Command(csig, append(args, "--json")...)
			if !killAt(t, cmd, 2, func(e event) { of = e.Device }) {
				t.Logf("%s: ended after %d kills", first[0], kills)
				if kills < 3 {
					t.Errorf("%s: killed %d times", first[0], kills)
				}
				return
			}
			if a := r.agents[of]; a != nil && kills%2 == 0 {
				_ = a.cmd.Process.Kill()
				<-a.ended
				r.start(of)
			}
		}
	}
	for n, keys := range saiProfiles {
		r.profile(keys)
		there := r.tags(r.h1, r.h2, 200)
		back := r.tags(r.h2, r.h1, 200)
		there.await("through switches without CSIG", there.untouched)
		plan := filepath.Join(r.dir(), fmt.Sprintf("plan-%d", n))
		journal := plan + ".journal"
		t.Log(r.run(2, "plan", "-i", r.operator.fleet, "-o", plan))
		t.Log(r.run(0, "assess", "-i", r.operator.fleet))

		carry([]string{"apply", plan, "--soak", "50ms"}, []string{"apply", "--resume", journal, "--soak", "50ms"})
		r.run(0, "plan", "-i", r.operator.fleet)
		for name, a := range r.agents {
			s := a.await(name+" is live", func(s *api.Status) bool {
				for i := range s.Ports {
					if p := &s.Ports[i]; p.State != api.StateLive && p.State != api.StateStrip {
						return false
					}
				}
				return len(s.Ports) > 0
			})
			want := api.DataPlaneNative
			if name == "spine-1" {
				want = api.DataPlaneLeased
			}
			if s.DataPlane != want {
				t.Errorf("%s: %s (%s)", name, s.DataPlane, s.DataPlaneReason)
			}
		}
		there.await("with leaf-2's value", by(8))
		back.await("with leaf-1's value, or spine-1's", by(10))

		// Drift: a change behind csig's back is made again; one while its agent is away is named by the next plan.
		leaf := r.leaves["leaf-2"]
		r.agents["leaf-2"].stopped(t)
		leaf.Do("SAI_OBJECT_TYPE_PORT:oid:0x1000000000003", "set", "SAI_PORT_ATTR_INT_METADATA", "9")
		r.start("leaf-2")
		there.await("with leaf-2's own locator again", by(8))

		carry([]string{"rollback", journal}, []string{"rollback", journal})
		r.clean("after rollback")
		there.await("as it was sent, after the roll-back", there.untouched)
		plan += ".again"
		r.run(2, "plan", "-i", r.operator.fleet, "-o", plan)
		r.run(0, "apply", plan, "--soak", "50ms")
		there.await("with leaf-2's value again", by(8))
		r.run(0, "off", "-i", r.operator.fleet, "--yes")
		r.clean("after off")
		back.await("as it was sent, after off", back.untouched)
		if t.Failed() {
			return
		}
	}
	r.changedAndOff(carry)
}

// changedAndOff goes from the first profile to the second one while tags pass, and back, and has csig off killed at its first request.
func (r *saiRow) changedAndOff(carry func(first, again []string)) {
	t := r.row.t
	t.Helper()
	plan := filepath.Join(r.dir(), "first")
	r.profile(saiProfiles[0])
	r.run(2, "plan", "-i", r.operator.fleet, "-o", plan)
	r.run(0, "apply", plan, "--soak", "50ms")
	r.profile(saiProfiles[1])
	plan += "-to-second"
	t.Log(r.run(2, "plan", "-i", r.operator.fleet, "-o", plan))
	journal := plan + ".journal"
	carry([]string{"apply", plan, "--soak", "50ms"}, []string{"apply", "--resume", journal, "--soak", "50ms"})
	r.run(0, "plan", "-i", r.operator.fleet)
	r.tags(r.h1, r.h2, 200).await("with leaf-2's value by the second profile", by(8))
	carry([]string{"rollback", journal}, []string{"rollback", journal})
	r.profile(saiProfiles[0])
	r.run(0, "plan", "-i", r.operator.fleet)
	there := r.tags(r.h1, r.h2, 200)
	there.await("with leaf-2's value by the first profile", by(8))
	off := r.host.Command(csig, "off", "-i", r.operator.fleet, "--yes")
	off.Dir = r.dir()
	var once sync.Once
	for _, sw := range r.leaves {
		sw.On(func(words []string) error {
			if words[1] == "set" || words[1] == "remove" {
				once.Do(func() { _ = off.Process.Kill() })
			}
			return nil
		}, nil)
	}
	if out, err := off.CombinedOutput(); err == nil {
		t.Errorf("csig off was not killed: %s", out)
	}
	r.run(0, "off", "-i", r.operator.fleet, "--yes")
	r.clean("after off that was killed")
	there.await("as it was sent, after off", there.untouched)
}

// dir is the operator's folder.
func (r *saiRow) dir() string { return r.operator.dir }

// stopped ends an agent as kill -9 does, and waits for that.
func (a *agent) stopped(t testing.TB) {
	t.Helper()
	if err := a.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-a.ended
}
