package integration

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// stripping is the bed's fleet file with a port that strips beside swp3.
func (b *bed) stripping(t *testing.T) string {
	t.Helper()
	text, err := inventory.Marshal(b.fleet)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.dir, "strip.yaml")
	writeFile(t, file, append(text, "      - {name: swp2, action: strip, speed: 50M}\n"...))
	if f, err := inventory.Load(file); err != nil || len(f.Devices[0].Ports) != 2 {
		t.Fatalf("the fleet file of this test: %v\n%s", err, text)
	}
	return file
}

// agentWith runs csig agent in s1 with no more than some capabilities, until
// it ends or, where until is not nil, a status meets that and a signal ends it.
func (b *bed) agentWith(t *testing.T, caps, file string, until func(*api.Status) bool, sig syscall.Signal) (log string, err error) {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Fatal("this test needs setpriv: apt-get install util-linux")
	}
	socket := filepath.Join(b.dir, "caps.sock")
	cmd := b.s1.Command(setpriv, "--no-new-privs", "--bounding-set", caps, csig, "agent", "-i", file, "--socket", socket)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	client := api.NewClient(socket)
	defer client.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return out.String(), err
		case <-tick.C:
		}
		if until == nil {
			continue
		}
		if s, err := client.Status(t.Context()); err == nil && until(s) {
			if err := cmd.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			until = nil
		}
	}
}

// privileged reports whether BPF may be had at all.
func privileged(t *testing.T) bool {
	t.Helper()
	m := readFile(t, "/proc/self/uid_map")
	return strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295"
}

func TestRefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	file := b.stripping(t)
	log, err := b.agentWith(t, "-bpf,-sys_admin", file, nil, 0)
	if err == nil || !strings.Contains(log, "port swp2: its action is strip: strip needs") {
		t.Errorf("without BPF the agent ends with %v\n%s", err, log)
	}
	for _, wrong := range []string{"again", "MEMLOCK"} {
		if strings.Contains(strings.ReplaceAll(log, "csig_strip again", ""), wrong) {
			t.Errorf("a refusal that names %q:\n%s", wrong, log)
		}
	}
	text := readFile(t, file)
	staleStrip := filepath.Join(b.dir, "stale.yaml")
	writeFile(t, staleStrip, bytes.Replace(bytes.Replace(text, []byte("conservative"), []byte("strip"), 1), []byte("action: strip"), []byte("action: passthrough"), 1))
	if log, err := b.agentWith(t, "+all", staleStrip, nil, 0); err == nil || !strings.Contains(log, "on_stale: strip is not possible") {
		t.Errorf("on_stale strip: the agent ends with %v\n%s", err, log)
	}
	if after := b.ruleset(t); after != before {
		t.Errorf("a refused start leaves\n%s", after)
	}
	p := b.probes(t)
	if _, err := p.tx.Send(quantize.MinABW); err != nil {
		t.Fatal(err)
	}
	if f := p.next(); f.Tag.LM != b.fleet.Profile.Layout.LMNone() {
		t.Errorf("after refused starts a rule writes %+v", f.Tag)
	}
}

// TestUnitHasTheCapabilitiesNeeded runs the agent with exactly what its systemd unit gives it,
// and with each of those missing.
func TestUnitHasTheCapabilitiesNeeded(t *testing.T) {
	t.Parallel()
	unit := readFile(t, "../deploy/systemd/csig-agent.service")
	m := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindSubmatch(unit)
	if m == nil {
		t.Fatal("the unit has no CapabilityBoundingSet")
	}
	var caps []string
	for _, c := range strings.Fields(string(m[1])) {
		caps = append(caps, "+"+strings.ToLower(strings.TrimPrefix(c, "CAP_")))
	}
	b := newBed(t, quantize.Draft00)
	file := b.stripping(t)
	if !privileged(t) { // strip needs more than a user namespace can give
		text, err := inventory.Marshal(b.fleet)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, text)
	}
	before := b.ruleset(t)
	works := func(caps []string) bool {
		b.run(t, "nft", "flush", "ruleset") // what fewer could not remove
		tested := false
		// A second start has to know again what the first one left.
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			log, err := b.agentWith(t, "-all,"+strings.Join(caps, ","), file, func(s *api.Status) bool {
				tested = s.SelfTest.Level == "full"
				// Where the setup is in place the self-test comes a lease later.
				return live(s) && s.SelfTest.Level != api.SelfTestNotRun
			}, sig)
			if err != nil || !tested {
				t.Logf("with %v: %v, self-test passed: %v\n%s", caps, err, tested, log)
				return false
			}
		}
		return b.ruleset(t) == before
	}
	if !works(caps) {
		t.Errorf("the unit's %s is not enough", m[1])
	}
	for i := range caps {
		if caps[i] == "+dac_override" || caps[i] == "+chown" { // for sockets of others, and for --socket-group
			continue
		}
		var fewer []string
		fewer = append(append(fewer, caps[:i]...), caps[i+1:]...)
		if works(fewer) {
			t.Errorf("%s of the unit is not needed", caps[i])
		}
	}
}

// TestStartThatIsInterrupted sends signals at the beginning of a start: it ends
// cleanly, whatever it was at.
func TestStartThatIsInterrupted(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for range 5 {
			a := b.start(t)
			// It answers before its self-test: that is the start.
			a.await("an answer", func(*api.Status) bool { return true })
			if err := a.signal(sig); err != nil {
				t.Errorf("%v: the agent exits with %v\n%s", sig, err, a.log.String())
			}
			if log := a.log.String(); strings.Contains(log, "agent runs") {
				t.Logf("%v came too late for the start:\n%s", sig, log)
				b.run(t, "nft", "flush", "ruleset") // SIGTERM leaves the fallback
				continue
			}
			if after := b.ruleset(t); after != before {
				t.Errorf("%v leaves\n%s", sig, after)
			}
			break
		}
	}
}

// TestLapseIsTold stops an agent for longer than its lease.
func TestLapseIsTold(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	a := b.start(t, "--no-self-test")
	a.live()
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p := b.probes(t)
	if !within(patience, func() bool {
		if _, err := p.tx.Send(quantize.MinABW); err != nil {
			t.Fatal(err)
		}
		f := p.next()
		return isStale(b, &f)
	}) {
		t.Fatal("the lease of a stopped agent does not end")
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s := a.await("an expired lease", func(s *api.Status) bool { return s.Cycle.Lapses > 0 })
	if s.Cycle.LastLapseNS <= 0 {
		t.Errorf("cycle %+v", s.Cycle)
	}
	a.live()
	if err := a.signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if !strings.Contains(a.log.String(), "lease expired before its renewal") {
		t.Errorf("the log lacks it:\n%s", a.log.String())
	}
}

// TestRulesThatAreGone empties csig's table, replaces it by a foreign one, and takes its lease: each is
// put right.
func TestRulesThatAreGone(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	const load = roomy
	b.setLoad(t, load)
	a := b.start(t, "--no-self-test")
	a.settle()
	p := b.probes(t)
	b.run(t, "nft", "flush", "table", "netdev", "csig") // the next cycle repairs at once
	a.await("a repair", func(s *api.Status) bool { return s.Cycle.Repairs > 0 })
	a.eventually(func() error { return p.expectAll(load) })
	b.run(t, "nft", "delete table netdev csig; add table netdev csig")
	s := a.await("that our rules are gone", func(s *api.Status) bool { return s.DataPlane == api.DataPlaneForeign })
	if p := first(s); p.State != api.StateLost || len(p.Signals) != 0 || !strings.Contains(p.Reason, "csig did not make") {
		t.Errorf("port %+v", p)
	}
	b.run(t, "nft", "delete table netdev csig")
	a.live()
	was := a.await("its repairs", live).Cycle
	b.run(t, "nft", "flush set netdev csig lease")
	a.await("the repair of the lease", func(s *api.Status) bool { // which may have lapsed in this instant
		return s.Cycle.Repairs > was.Repairs || s.Cycle.Lapses > was.Lapses
	})
	b.run(t, "ip", "link", "del", "swp3")
	s = a.await("that the device is gone", func(s *api.Status) bool { return first(s).State == api.StateRefused && first(s).WindowEnd == nil })
	if p := first(s); p.ABWBPS != 0 || p.CapacityBPS != 0 || !strings.Contains(p.Reason, "no such network device") {
		t.Errorf("port %+v", p)
	}
}

// TestShadowProgramsNothing: alone and beside an agent it programs nothing, and tells what it would. An agent beside another
// one is refused.
func TestShadowProgramsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	bare := b.ruleset(t)
	b.setLoad(t, roomy)
	alone := b.start(t, "--dry-run")
	if s := alone.await("a measured port", func(s *api.Status) bool { return live(s) && s.Cycle.WouldOperate > 0 }); !s.Shadow {
		t.Error("status does not show SHADOW")
	}
	if after := b.ruleset(t); after != bare {
		t.Errorf("shadow mode programmed\n%s", after)
	}
	if err := alone.signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if log := alone.log.String(); !strings.Contains(log, "would set up") || !strings.Contains(log, "would program") {
		t.Errorf("shadow mode does not log what it would do:\n%s", log)
	}

	a := b.start(t, "--no-self-test")
	a.live()
	second := b.launch(t, b.write(t), filepath.Join(b.dir, "second.sock"))
	select {
	case <-second.ended:
	case <-time.After(patience):
		t.Fatal("a second agent runs")
	}
	if log := second.log.String(); second.err == nil || !strings.Contains(log, "another csig agent programs the ports") {
		t.Errorf("a second agent: %v\n%s", second.err, log)
	}
	before := b.run(t, "nft", "list", "chain", "netdev", "csig", "p_swp3")
	shadow := b.launch(t, b.write(t), filepath.Join(b.dir, "shadow.sock"), "--dry-run")
	s := shadow.await("a measured port", func(s *api.Status) bool { return first(s).State == api.StateLive && len(first(s).Signals) > 0 })
	if s.DataPlane != api.DataPlaneShadow || s.LeaseNS != 0 || !s.Cycle.LeaseEnds.IsZero() || s.Cycle.Operations != 0 || !first(s).Signals[0].ProgrammedAt.IsZero() {
		t.Errorf("a shadow that claims to have programmed: %+v", s)
	}
	if err := shadow.signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if log := shadow.log.String(); strings.Contains(log, "removed") || !strings.Contains(log, "nothing was programmed") {
		t.Errorf("its end:\n%s", log)
	}
	if after := b.run(t, "nft", "list", "chain", "netdev", "csig", "p_swp3"); after != before {
		t.Errorf("the shadow's end changed the agent's rules:\n%s", after)
	}
}
