package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// ovsAlone is a bridge of Open vSwitch with an agent: what comes to h1 leaves by
// swp1, which updates, and by swp2, which strips.
type ovsAlone struct {
	*ovstest.Switch
	t         *testing.T
	node      *fabric.Node
	dir       string
	in, strip *ovstest.Wire
}

const ovsAloneText = `
format: csig.fleet/v1
profile: {name: alone, tpid: 0x88a8, interval: 100ms, signals: {abw: {buckets: log-100M}}}
vlan_tpids: [0x8100]
devices:
  - name: s1
    %splatform: ovs
    management: {%sovs: {bridge: csig, run_dir: %s}}
    ports:
      - {name: swp1, speed: 50M, lm: 5}
      - {name: swp2, action: strip}
`

// local is in the file of a csig that drives the bridge on this machine.
const local = "local: true\n    "

func newOVSAlone(t *testing.T) *ovsAlone {
	o := &ovsAlone{Switch: ovstest.Start(t, ovstest.Options{Dummy: true}), t: t, dir: t.TempDir()}
	o.node = newHost(t, "s1")
	o.AddBridge("csig")
	o.in = o.AddWire("csig", "h1", 1)
	o.AddWire("csig", "swp1", 2)
	o.strip = o.AddWire("csig", "swp2", 3)
	o.Ofctl("add-flow", "csig", "table=60,priority=0,actions=output:NXM_NX_REG15[]")
	o.Ofctl("add-group", "csig", "group_id=1,type=all,bucket=load:2->NXM_NX_REG15[],resubmit(,60),bucket=load:3->NXM_NX_REG15[],resubmit(,60)")
	o.Ofctl("add-flow", "csig", "in_port=1,actions=group:1")
	return o
}

func (o *ovsAlone) socket() string { return filepath.Join(o.dir, "agent.sock") }

// file writes a fleet file and returns its name.
func (o *ovsAlone) file(name, local, daemon string) string {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	writeFile(o.t, path, fmt.Appendf(nil, ovsAloneText, local, daemon, o.Dir))
	return path
}

func (o *ovsAlone) agent() *agent {
	o.t.Helper()
	a := launchIn(o.t, o.node.Command(csig, "agent", "-i", o.file("device.yaml", local, ""), "--socket", o.socket(), "--no-self-test"), o.socket())
	a.await("that its port is live", func(s *api.Status) bool {
		return s.DataPlane == api.DataPlaneLeased && first(s).State == api.StateLive
	})
	return a
}

// run is csig with its exit code.
func (o *ovsAlone) run(want int, args ...string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	return exits(o.t, want, exec.CommandContext(ctx, csig, args...))
}

// tagged waits until a CSIG tag leaves the port that strips, or no longer does.
func (o *ovsAlone) tagged(want bool) {
	o.t.Helper()
	sent := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, 0x0f, 0xfe, 0x88, 0xb5}, make([]byte, 60)...)
	for start := time.Now(); ; {
		o.in.Send(sent)
		got := o.strip.Receive(patience)
		if got == nil {
			o.t.Fatal("no frame leaves swp2")
		}
		if bytes.Equal(got, sent) == want {
			return
		}
		if time.Since(start) > patience {
			o.t.Fatalf("swp2 sends %x", got[12:20])
		}
	}
}

// reportsNothing checks that csig status reports nothing of csig on the bridge.
func (o *ovsAlone) reportsNothing(a *agent) {
	o.t.Helper()
	s := a.await("that nothing is there", func(s *api.Status) bool { return s.DataPlane == api.DataPlaneAbsent && s.Cycle.Failed > 0 })
	for _, p := range s.Ports {
		if len(p.Signals) != 0 || p.State == api.StateLive {
			o.t.Errorf("nothing is there, and status reports %+v", p)
		}
	}
	text := o.run(0, "status", "--socket", o.socket())
	if !strings.Contains(text, "nothing of csig is on this device") || strings.Contains(text, "fallback") {
		o.t.Errorf("csig status:\n%s", text)
	}
	o.tagged(true)
}

// TestLongOpenVSwitchOffBesideAnAgent takes csig off a bridge whose agent continues, or
// hangs and continues later, without the mark that csig off left: status reports what
// the bridge does, and nothing comes back until the agent is started again.
func TestLongOpenVSwitchOffBesideAnAgent(t *testing.T) {
	t.Parallel()
	o := newOVSAlone(t)
	a := o.agent()
	o.tagged(false)
	o.run(0, "off", "-i", o.file("direct.yaml", local, ""))
	o.reportsNothing(a)
	_ = a.signal(syscall.SIGTERM) // how it exits is agent's
	if _, end, is := strings.Cut(a.log.String(), "msg=\"terminated"); !is || strings.Contains(end, "csig off") {
		t.Errorf("at its end it prints %q, and csig off has ended before", end)
	}

	a = o.agent()
	o.tagged(false)
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	out := o.run(0, "off", "-i", o.file("fleet.yaml", local, "daemon: {socket: "+o.socket()+"}, "))
	if !strings.Contains(out, "its daemon does not answer") {
		t.Errorf("the output of off is\n%s", out)
	}
	if err := os.Remove(api.OffMarker(o.socket())); err != nil {
		t.Error(err)
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	o.reportsNothing(a)
	failed := a.await("its status", func(*api.Status) bool { return true }).Cycle.Failed
	a.await("more of its cycles", func(s *api.Status) bool { return s.Cycle.Failed > failed+5 })
	o.reportsNothing(a)
	_ = a.signal(syscall.SIGTERM)
	o.agent()
	o.tagged(false)
}
