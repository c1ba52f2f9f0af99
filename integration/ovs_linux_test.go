package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
	_ "github.com/csig-agent/csig/vendors/all" // fleet files have the keys of its platforms
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// mixedPath is three switches in a row: the first is the kernel's, the
// second is Open vSwitch's and the third only passes tags through:
//
//	h1 ── s1 ── s2 ── s3 ── h2
//	l1 ──┘  l2 ──┘              l1 loads the cable s1–s2, l2 the cable s2–s3
type mixedPath struct {
	fabric.Fabric
	fleet  *inventory.Fleet
	ovs    *ovstest.Switch
	h1, h2 *fabric.Port
	loads  []*fabric.Load // of s1:swp2 and s2:p2
	agents []*agent
	tx     *probe.Sender
	rx     *probe.Listener
}

const mixedPathText = `
format: csig.fleet/v1
profile:
  name: mixed
  tpid: 0x88a8
  interval: 100ms
  signals:
    abw: {buckets: log-100M}
    abwc: {buckets: log}
policy:
  on_stale: conservative
vlan_tpids: [0x8100]
devices:
  - name: s1
    platform: linux
    ports:
      - {name: swp2, speed: 50M, lm: {abw: 5, abwc: 9}, peer: "s2:p1"}
  - name: s2
    platform: ovs
    management: {ovs: {bridge: csig, run_dir: %s}}
    ports:
      - {name: p1, speed: 50M, action: passthrough, peer: "s1:swp2"}
      - {name: p2, speed: 50M, lm: {abw: 6, abwc: 10}, peer: "s3:swp1"}
  - name: s3
    platform: linux
    level: {is: passthrough, reason: it is not configured}
    ports:
      - {name: swp1, action: passthrough, peer: "s2:p2"}
      - {name: swp2, action: passthrough, peer: h2}
`

// inNode starts Open vSwitch's processes in a node.
func inNode(n *fabric.Node) ovstest.Options {
	return ovstest.Options{Start: func(c *exec.Cmd) error {
		in := n.Command(c.Path)
		c.SysProcAttr = in.SysProcAttr
		in.Cmd = c
		return in.Start()
	}}
}

// numbered makes the bridge csig with these ports, of OpenFlow numbers 1, 2, ….
func numbered(sw *ovstest.Switch, ports ...string) {
	sw.AddBridge("csig")
	for i, port := range ports {
		sw.Vsctl("add-port", "csig", port, "--", "set", "interface", port, fmt.Sprintf("ofport_request=%d", i+1))
	}
}

// bridged sets a switch up as docs/ovs.md does: these ports on the bridge csig, and behind it
// br0, which forwards.
func bridged(sw *ovstest.Switch, ports ...string) {
	numbered(sw, ports...)
	sw.AddBridge("br0")
	sw.Vsctl("set-fail-mode", "br0", "standalone")
	for _, port := range ports {
		sw.AddPatch("br0", "n-"+port, "csig", "c-"+port)
		sw.Vsctl("set", "port", "n-"+port, "vlan_mode=dot1q-tunnel", "tag=1", "--", "set", "interface", "c-"+port, "external_ids:csig-port="+port)
	}
}

func newMixedPath(t testing.TB) *mixedPath {
	t.Helper()
	p := &mixedPath{loads: make([]*fabric.Load, 2), agents: make([]*agent, 2)}
	t.Cleanup(func() {
		for _, l := range p.loads {
			if l != nil {
				if err := l.Stop(); err != nil {
					t.Error(err)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	node := func(add func(string) (*fabric.Node, error), name string) *fabric.Node {
		n, err := add(name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	s1, s3 := node(p.AddSwitch, "s1"), node(p.AddSwitch, "s3")
	s2 := node(p.AddHost, "s2") // its bridges are Open vSwitch's
	connect := func(a *fabric.Node, ap string, b *fabric.Node, bp string) (*fabric.Port, *fabric.Port) {
		x, y, err := p.Connect(fabric.End{Node: a, Port: ap}, fabric.End{Node: b, Port: bp}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return x, y
	}
	p.h1, _ = connect(node(p.AddHost, "h1"), "eth0", s1, "swp1")
	l1, _ := connect(node(p.AddHost, "l1"), "eth0", s1, "swp3")
	out1, _ := connect(s1, "swp2", s2, "p1")
	l2, _ := connect(node(p.AddHost, "l2"), "eth0", s2, "p3")
	out2, _ := connect(s2, "p2", s3, "swp1")
	h2, last := connect(node(p.AddHost, "h2"), "eth0", s3, "swp2")
	p.h2 = h2
	sink, sinkPort := connect(node(p.AddHost, "sink"), "eth0", s3, "swp3")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(out1.Shape(capacity), out2.Shape(capacity), s1.Forward(h2.MAC, out1), s1.Forward(l2.MAC, out1),
		s3.Forward(h2.MAC, last), s3.Forward(sink.MAC, sinkPort), p.WaitUp(ctx)); err != nil {
		t.Fatal(err)
	}

	p.ovs = ovstest.Start(t, inNode(s2))
	bridged(p.ovs, "p1", "p2", "p3")
	for mac, port := range map[string]string{h2.MAC.String(): "n-p2", sink.MAC.String(): "n-p2", l2.MAC.String(): "n-p3"} {
		p.ovs.Appctl("fdb/add", "br0", port, "1", mac)
	}

	var err error
	if p.fleet, err = inventory.Parse("mixed.yaml", fmt.Appendf(nil, mixedPathText, p.ovs.Dir)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, n := range []*fabric.Node{s1, s2} {
		fleet := *p.fleet
		fleet.Devices = append([]inventory.Device(nil), fleet.Devices...)
		fleet.Devices[i].Local = true
		text, err := inventory.Marshal(&fleet)
		if err != nil {
			t.Fatal(err)
		}
		file, socket := filepath.Join(dir, n.Name()+".yaml"), filepath.Join(dir, n.Name()+".sock")
		writeFile(t, file, text)
		p.agents[i] = launchIn(t, n.Command(csig, "agent", "-i", file, "--socket", socket, "--no-self-test"), socket)
	}
	for i, l := range []struct {
		from *fabric.Port
		to   *fabric.Port
	}{{l1, l2}, {l2, sink}} {
		if p.loads[i], err = fabric.StartLoad(l.from, l.to.MAC, 0); err != nil {
			t.Fatal(err)
		}
	}
	err = p.h1.Node().Do(func() (err error) {
		p.tx, err = probe.NewSender(probe.SenderConfig{Interface: p.h1.Name, Dst: h2.MAC, Profile: &p.fleet.Profile, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.tx.Close() })
	err = h2.Node().Do(func() (err error) {
		p.rx, err = probe.NewListener(probe.ListenerConfig{Interface: h2.Name, Profile: &p.fleet.Profile, RunID: p.tx.RunID()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.rx.Close() })
	return p
}

// settle waits for windows that began after now, at both agents.
func (p *mixedPath) settle() {
	now := time.Now()
	for _, a := range p.agents {
		a.await("windows of the new load", func(s *api.Status) bool {
			for i := range s.Ports {
				q := &s.Ports[i]
				if len(q.Signals) > 0 && q.State == api.StateLive && q.WindowStart != nil && q.WindowStart.After(now) {
					return true
				}
			}
			return false
		})
	}
}

// send sends a probe and returns the tag that arrives.
func (p *mixedPath) send(t testing.TB, sig quantize.Signal) quantize.Tag {
	t.Helper()
	for range 3 { // a queue that the load fills may drop one
		if _, err := p.tx.Send(sig); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience/3)
		f, err := p.rx.Next(ctx)
		cancel()
		if err == nil {
			return f.Tag
		}
		t.Logf("a probe is lost: %v", err)
	}
	t.Fatal("no probe arrives at h2")
	return quantize.Tag{}
}

// TestLongKernelAndOpenVSwitchOnOnePath has a kernel switch, an Open vSwitch and a
// switch that passes tags through on one path: S and LM at the receiver are
// those of the bottleneck, wherever it is, and the fallback's when the agent is
// gone.
func TestLongKernelAndOpenVSwitchOnOnePath(t *testing.T) {
	t.Parallel()
	p := newMixedPath(t)
	b := &bed{fleet: p.fleet}
	mid := midLoads(t, b, 5)
	some, more := mid[1], mid[3]
	for _, loads := range [][]uint64{{0, 0}, {some, 0}, {0, some}, {some, more}, {more, some}} {
		for i, l := range p.loads {
			if err := l.SetRate(loads[i]); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(patience); ; { // a machine that stalls makes a load of its own
			p.settle()
			err := p.expect(t, b, loads)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			t.Log(err)
		}
	}
	_ = p.agents[1].signal(syscall.SIGKILL)
	start, stale := time.Now(), p.fleet.Profile.Layout.LMStale()
	for {
		got := p.send(t, quantize.MinABW)
		if got.S == 0 && got.LM == stale {
			break
		}
		if time.Since(start) > patience { // how long it may be is TestLease's in vendors/ovs
			t.Fatalf("the agent of s2 is dead, and tags still have %+v", got)
		}
	}
	t.Logf("the fallback was there %v after SIGKILL", time.Since(start).Round(10*time.Millisecond))
}

// expect compares what arrives with the worst of the cables. Their locators are 5, 6, … of
// abw, and 9, 10, … of abwc.
func (p *mixedPath) expect(t testing.TB, b *bed, loads []uint64) error {
	for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC} {
		if _, ok := p.fleet.Profile.Signals[sig]; !ok {
			continue
		}
		base := map[quantize.Signal]uint16{quantize.MinABW: 5, quantize.MinABWC: 9}[sig]
		for range 20 {
			got := p.send(t, sig)
			want, lm := p.fleet.Profile.Initial(sig), p.fleet.Profile.Layout.LMNone()
			for i, load := range loads {
				if own := b.want(sig, load); own < want {
					want, lm = own, base+uint16(i)
				}
			}
			if uint8(got.S) != want || got.LM != lm {
				return fmt.Errorf("loads %v: a tag of %s has S %d, LM %d at h2, want %d, %d", loads, sig, got.S, got.LM, want, lm)
			}
		}
	}
	return nil
}
