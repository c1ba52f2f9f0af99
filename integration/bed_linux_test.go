package integration

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/sai/saitest"
)

// patience is how long a test waits for what has to come: a condition's end,
// and no measure of anything, so that a machine which is busy with other things
// has time enough.
const patience = time.Minute

func TestMain(m *testing.M) {
	// What is ignored here would be ignored in all that the tests start.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	saitest.Process()
	readerProcess()
	inLanes()
	fabric.Tests(raceless{m}, buildPrograms)
}

// lanes is how many tests run at once, unless -parallel says: most of them wait for what they started.
const lanes = 6

func inLanes() {
	flag.Parse()
	given := runtime.GOMAXPROCS(0) >= lanes
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(lanes)) // a number
	}
}

// bed is one switch between two hosts, with a third that loads the way to h2:
//
//	h1 ── s1 ── h2        the cable to h2 is shaped, and its port is the
//	      │               agent's: s1:swp3
//	      l1
type bed struct {
	fabric.Fabric
	s1             *fabric.Node
	h1, h2, egress *fabric.Port
	loadNIC        *fabric.Port
	load           *fabric.Load
	fleet          *inventory.Fleet
	dir            string
	program        string // csig
}

const (
	capacity = 50_000_000
	interval = 100 * time.Millisecond
	lmABW    = 5
	lmABWC   = 9

	// roomy is a load in the middle of wide buckets of both signals (28 to
	// 35.5 Mbit/s, 56 to 71 %): neither the probes of a test nor a hiccup of the
	// machine changes S.
	roomy = 18_000_000
)

const fleetText = `
format: csig.fleet/v1
profile:
  name: bed
  tpid: 0x9900
  layout: %s
  interval: 100ms
  signals:
    abw: {buckets: log-100M}
    abwc: {buckets: log}
policy:
  on_stale: conservative
devices:
  - name: s1
    platform: linux
    local: true
    ports:
      - {name: swp3, speed: 50M, lm: {abw: 5, abwc: 9}, peer: h2}
`

func newBed(t testing.TB, layout quantize.Layout) *bed {
	t.Helper()
	fleet, err := inventory.Parse("bed.yaml", fmt.Appendf(nil, fleetText, layout))
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{fleet: fleet, dir: t.TempDir(), program: csig}
	t.Cleanup(func() {
		if b.load != nil {
			if err := b.load.Stop(); err != nil {
				t.Error(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	host := func(name string) *fabric.Node {
		n, err := b.AddHost(name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if b.s1, err = b.AddSwitch("s1"); err != nil {
		t.Fatal(err)
	}
	connect := func(n *fabric.Node, port string) (*fabric.Port, *fabric.Port) {
		p, q, err := b.Connect(fabric.End{Node: n, Port: "eth0"}, fabric.End{Node: b.s1, Port: port}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return p, q
	}
	b.h1, _ = connect(host("h1"), "swp1")
	b.loadNIC, _ = connect(host("l1"), "swp2")
	b.h2, b.egress = connect(host("h2"), "swp3")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(b.egress.Shape(capacity), b.s1.Forward(b.h2.MAC, b.egress), b.WaitUp(ctx)); err != nil {
		t.Fatal(err)
	}
	return b
}

// setLoad makes the cable to h2 carry bps of background traffic.
func (b *bed) setLoad(t testing.TB, bps uint64) {
	t.Helper()
	var err error
	if b.load == nil {
		b.load, err = fabric.StartLoad(b.loadNIC, b.h2.MAC, bps)
	} else {
		err = b.load.SetRate(bps)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// want is the bucket of a signal under a load.
func (b *bed) want(sig quantize.Signal, load uint64) uint8 {
	sp := b.fleet.Profile.Signals[sig]
	free := uint64(capacity) - load
	if sig == quantize.MinABWC {
		free = free * 1_000_000 / capacity
	}
	return sp.Buckets.Bucket(free)
}

// agent is a csig agent in s1.
type agent struct {
	*running
	client *api.Client
}

// running is its process, which a controller has in common for all its devices.
type running struct {
	t     testing.TB
	cmd   *fabric.Cmd
	log   output
	ended chan struct{}
	err   error
}

// output is what a process writes, which may be read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs csig agent with the bed's fleet file and waits for its socket.
func (b *bed) start(t testing.TB, args ...string) *agent {
	t.Helper()
	return b.launch(t, b.write(t), filepath.Join(b.dir, "agent.sock"), args...)
}

// pace has the agent work at another interval; its lease takes three of them.
func (b *bed) pace(every time.Duration) {
	dev := &b.fleet.Devices[0]
	b.fleet.Profile.Interval, dev.Interval, dev.Schedule = every, every, "@every "+every.String()
}

// write writes the bed's fleet file and returns its name.
func (b *bed) write(t testing.TB) string {
	t.Helper()
	text, err := inventory.Marshal(b.fleet)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.dir, "bed.yaml")
	writeFile(t, file, text)
	return file
}

// launch runs csig agent with a file of its own.
func (b *bed) launch(t testing.TB, file, socket string, args ...string) *agent {
	t.Helper()
	return launchIn(t, b.s1.Command(b.program, append([]string{"agent", "-i", file, "--socket", socket}, args...)...), socket)
}

// operator runs csig at a host, in a folder with its fleet file.
type operator struct {
	t     testing.TB
	host  *fabric.Node
	dir   string
	fleet string
	env   []string // beside this process's
}

// newOperator writes the fleet file, where DIR stands for its folder.
func newOperator(t testing.TB, host *fabric.Node, text string) *operator {
	t.Helper()
	o := &operator{t: t, host: host, dir: t.TempDir()}
	o.fleet = filepath.Join(o.dir, "fleet.yaml")
	writeFile(t, o.fleet, []byte(strings.ReplaceAll(text, "DIR", o.dir)))
	return o
}

// run wants an exit code, and returns what csig prints.
func (o *operator) run(code int, args ...string) string {
	o.t.Helper()
	cmd := o.host.Command(csig, args...)
	cmd.Dir, cmd.Env = o.dir, append(os.Environ(), o.env...)
	return exits(o.t, code, cmd)
}

// agent starts the agent of a device, which waits for its configuration.
func (o *operator) agent(name string) *agent {
	o.t.Helper()
	socket := filepath.Join(o.dir, name+".sock")
	a := launchIn(o.t, o.host.Command(csig, "agent", "--wait", "-i", filepath.Join(o.dir, name+".yaml"), "--socket", socket), socket)
	a.await("that it answers", func(*api.Status) bool { return true })
	return a
}

// controller starts a controller of the fleet, and returns it once for each of these devices.
func (o *operator) controller(names ...string) (list []*agent) {
	o.t.Helper()
	for i, name := range names {
		socket := filepath.Join(o.dir, name+".sock")
		if i == 0 {
			list = append(list, launchIn(o.t, o.host.Command(csigController, "-i", o.fleet, "--state", filepath.Join(o.dir, "state")), socket))
		} else {
			a := &agent{list[0].running, api.NewClient(socket)}
			o.t.Cleanup(a.client.Close)
			list = append(list, a)
		}
		list[i].await("that it answers for "+name, func(*api.Status) bool { return true })
	}
	return list
}

// newFabric is one until the test ends.
func newFabric(t testing.TB) *fabric.Fabric {
	t.Helper()
	f := &fabric.Fabric{}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeFile(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newHost is a network namespace of its own, until the test ends.
func newHost(t testing.TB, name string) *fabric.Node {
	t.Helper()
	f := newFabric(t)
	n, err := f.AddHost(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// launchIn runs a command that is csig agent, and ends it with the test.
func launchIn(t testing.TB, cmd *fabric.Cmd, socket string) *agent {
	t.Helper()
	a := &agent{&running{t: t, ended: make(chan struct{}), cmd: cmd}, api.NewClient(socket)}
	if a.cmd.Stderr == nil {
		a.cmd.Stderr = &a.log
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(func() {
		a.client.Close()
		_ = a.cmd.Process.Kill() // it may have ended
		<-a.ended
		wantNoRace(t, a.cmd.Process.Pid)
		if t.Failed() {
			t.Logf("the agent's log:\n%s", a.log.String())
		}
	})
	return a
}

// await waits until the agent's status meets a condition.
func (a *agent) await(what string, ok func(*api.Status) bool) *api.Status {
	a.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last *api.Status
	for time.Now().Before(deadline) {
		if s, err := a.client.Status(a.t.Context()); err == nil {
			if last = s; ok(s) {
				return s
			}
		}
		select {
		case <-tick.C:
		case <-a.ended:
			a.t.Fatalf("the agent ended (%v) before: %s", a.err, what)
		}
	}
	a.t.Fatalf("the agent's status never showed: %s; last %+v", what, last)
	return nil
}

// first is the first port of a status; none of an agent that is still starting,
// whose status has no ports yet.
func first(s *api.Status) api.Port {
	if len(s.Ports) == 0 {
		return api.Port{}
	}
	return s.Ports[0]
}

// live reports whether the first port advertises what was measured.
func live(s *api.Status) bool { return first(s).State == api.StateLive }

// live waits until the port advertises a measured value.
func (a *agent) live() {
	a.t.Helper()
	a.await("a live port", func(s *api.Status) bool {
		return first(s).State == api.StateLive && len(first(s).Signals) > 0
	})
}

// settle waits for windows that began after now.
func (a *agent) settle() {
	a.t.Helper()
	now := time.Now()
	a.await("a window of the new load", func(s *api.Status) bool {
		p := first(s)
		return p.State == api.StateLive && p.WindowStart != nil && p.WindowStart.After(now)
	})
}

// eventually waits until a check of what the agent makes of its windows passes. A
// machine that stalls makes a load of its own, for a window or two; what measures
// or writes wrongly does so every time.
func (a *agent) eventually(check func() error) {
	a.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		a.settle()
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatal(err)
		}
		a.t.Log(err)
	}
}

// signal ends the agent and returns how it exited.
func (a *agent) signal(sig syscall.Signal) error {
	a.t.Helper()
	if err := a.cmd.Process.Signal(sig); err != nil {
		a.t.Fatal(err)
	}
	select {
	case <-a.ended:
		return a.err
	case <-time.After(patience):
		a.t.Fatalf("the agent does not end on %v", sig)
		return nil
	}
}

// run runs a command in s1 and returns its standard output.
func (b *bed) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := b.s1.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("this test needs %s: apt-get install nftables iproute2", name)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// ruleset is what nft sees in s1, without what changes by itself.
func (b *bed) ruleset(t *testing.T) string {
	t.Helper()
	return b.run(t, "nft", "-j", "list", "ruleset")
}

// probes is a sender at h1 and a listener at h2.
type probes struct {
	t  testing.TB
	b  *bed
	tx *probe.Sender
	rx *probe.Listener

	pace *time.Ticker
}

func (b *bed) probes(t testing.TB) *probes {
	t.Helper()
	p := &probes{t: t, b: b}
	err := b.h1.Node().Do(func() (err error) {
		p.tx, err = probe.NewSender(probe.SenderConfig{
			Interface: b.h1.Name, Dst: b.h2.MAC, Profile: &b.fleet.Profile, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = b.h2.Node().Do(func() (err error) {
		p.rx, err = probe.NewListener(probe.ListenerConfig{Interface: b.h2.Name, Profile: &b.fleet.Profile, RunID: p.tx.RunID()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.tx.Close(); p.rx.Close() })
	return p
}

// next waits for the next probe that arrives.
func (p *probes) next() probe.Received {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	f, err := p.rx.Next(ctx)
	if err != nil {
		p.t.Fatalf("waiting for a probe at h2: %v", err)
	}
	return f
}

// exchange sends one frame with a payload of its own and returns what arrives.
// It keeps to 1,000 a second, so that the frames are no load themselves.
func (p *probes) exchange(f probe.Frame) (sent []byte, got probe.Received) {
	p.t.Helper()
	if p.pace == nil {
		p.pace = time.NewTicker(time.Millisecond)
		p.t.Cleanup(p.pace.Stop)
	}
	<-p.pace.C
	f.Dst, f.Src = p.b.h2.MAC, p.b.h1.MAC
	f.Payload.Run, f.Payload.Sent = p.tx.RunID(), time.Now()
	sent, err := f.AppendTo(nil, p.b.fleet.Profile.Layout, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.tx.SendFrame(sent); err != nil {
		p.t.Fatal(err)
	}
	return sent, p.next()
}
