package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// chaos is a row of switches with an agent in each, and hosts that send all the time:
//
//	h1 ── s1 ───── s2 ───── s3 ── h2      tagged and other frames go from h1 to h2
//	     ╱│ ╲    ╱ │ ╲    ╱ │
//	   l1 d1  k1  l2 d2 k2   l3           li loads the link behind si
//
// The ports to d1 and d2 remove tags, which h1 sends there, too. The agent of s1 is killed again
// and again, that of s2 never: its memory is that of the whole run. That of s3 waits for its
// configuration from a client, and has its counters from an snmpd.
type chaos struct {
	fabric.Fabric
	t       *testing.T
	seed    uint64
	length  time.Duration
	fleet   *inventory.Fleet // of the first switch: all have the same profile
	profile quantize.Profile
	hops    []*chaosHop
	taps    []*tap
	loads   []*fabric.Load
	senders []*probe.Sender
	plain   *probe.Sender // frames without a tag
	began   time.Time

	// What the judge alone writes, until it ends.
	counts     judged
	lost       uint64
	violations int
}

// chaosHop is a switch, its agent and the link behind its egress port.
type chaosHop struct {
	*fabric.Node
	c        *chaos
	index    int
	name     string
	interval time.Duration // Δt, and its schedule
	within   time.Duration // how far a reading may be off its time: half of what a try of SNMP takes
	random   *rand.Rand
	east     *fabric.Port
	far      fabric.End // of the link behind it
	beyond   []net.HardwareAddr
	tap      *tap
	truth    wireBits

	dir, file, socket, disk string
	waits                   bool // its agent waits for a configuration
	snmpd                   *snmpd
	frozen                  string // a file: the snmpd's counters stand still while it is there
	locators                int    // how often they were changed

	unruled spans // it may have no rules
	cuts    spans // its link may carry nothing

	mu       sync.Mutex
	agent    *agent
	leases   []leaseAt
	episodes []*episode
	watched  []resources
	worst    time.Duration // stalest S
}

type leaseAt struct {
	at    time.Time
	lease time.Duration
}

const chaosText = `
format: csig.fleet/v1
profile:
  name: chaos
  tpid: 0x9900
  interval: 100ms
  signals: {abw: {buckets: log-100M}, abwc: {buckets: log}}
policy: {on_stale: conservative}
devices:
  - name: %s
    platform: linux
    local: true
%s    ports:
      - {name: swp3, speed: 50M, lm: {abw: %d, abwc: %d}%s}
%s`

// config is the hop's fleet file.
func (h *chaosHop) config() string {
	abw, abwc := h.lm()
	var source, strip string
	peer := ", peer: h2"
	if h.snmpd != nil {
		source = fmt.Sprintf("    address: 127.0.0.1\n    interval: %v\n    schedule: \"@every %v\"\n    counters: {source: snmp, overhead: 24, snmp: {version: 2c, port: %d, community: {file: %s}}}\n", h.interval, h.interval, h.snmpd.port, filepath.Join(h.dir, "community"))
	} else {
		strip, peer = "      - {name: swp5, speed: 50M, action: strip}\n", ""
	}
	return fmt.Sprintf(chaosText, h.name, source, abw, abwc, peer, strip)
}

// lm are its locators now: two for each signal, which take turns.
func (h *chaosHop) lm() (abw, abwc int) {
	first := 10*(h.index+1) + 4*(h.locators%2)
	return first, first + 1
}

// locates is the hop that a locator is of; nil for none.
func (c *chaos) locates(sig quantize.Signal, lm uint16) *chaosHop {
	for _, h := range c.hops {
		if of := int(lm) - 10*(h.index+1) - int(sig); of == 0 || of == 4 {
			return h
		}
	}
	return nil
}

// newChaos builds the fabric and starts everything.
func newChaos(t *testing.T, seed uint64, length time.Duration) *chaos {
	t.Helper()
	c := &chaos{t: t, seed: seed, length: length}
	t.Cleanup(func() {
		for _, l := range c.loads {
			if err := l.Stop(); err != nil {
				t.Error(err)
			}
		}
		for _, s := range c.senders {
			s.Close()
		}
		for _, p := range c.taps {
			p.end()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	nodes := map[string]*fabric.Node{}
	for _, name := range []string{"h1", "h2", "l1", "l2", "l3", "k1", "k2", "d1", "d2", "s1", "s2", "s3"} {
		add := c.AddHost
		if name[0] == 's' {
			add = c.AddSwitch
		}
		n, err := add(name)
		c.check(err)
		nodes[name] = n
	}
	connect := func(a, ap, b, bp string) (*fabric.Port, *fabric.Port) {
		p, q, err := c.Connect(fabric.End{Node: nodes[a], Port: ap}, fabric.End{Node: nodes[b], Port: bp}, 0)
		c.check(err)
		return p, q
	}
	from, _ := connect("h1", "eth0", "s1", "swp1")
	var sources, sinks, ends, strips []*fabric.Port
	for i := range 3 {
		h := &chaosHop{Node: nodes[fmt.Sprint("s", i+1)], c: c, index: i, name: fmt.Sprint("s", i+1), interval: interval, random: rand.New(rand.NewPCG(seed, uint64(i))), dir: t.TempDir(), waits: i == 2}
		c.hops = append(c.hops, h)
		next, port := "h2", "eth0"
		if i < 2 {
			next, port = fmt.Sprint("s", i+2), "swp1"
		}
		near, far := connect(h.name, "swp3", next, port)
		ends = append(ends, far)
		h.east, h.far = near, fabric.End{Node: nodes[next], Port: port, MAC: far.MAC}
		source, _ := connect(fmt.Sprint("l", i+1), "eth0", h.name, "swp2")
		sources, sinks = append(sources, source), append(sinks, far)
		c.check(near.Shape(capacity))
		h.tap = c.tap(h, false)
	}
	to := c.hops[2].far.MAC
	for i, h := range c.hops[:2] {
		k, out := connect(fmt.Sprint("k", i+1), "eth0", fmt.Sprint("s", i+2), "swp4")
		sinks[i] = k
		c.check(c.hops[i+1].Forward(k.MAC, out))
		d, strip := connect(fmt.Sprint("d", i+1), "eth0", h.name, "swp5")
		c.check(h.Forward(d.MAC, strip))
		strips = append(strips, d)
		c.tap(h, true)
		h.beyond = append(h.beyond, to, k.MAC)
	}
	c.hops[0].beyond = append(c.hops[0].beyond, strips[1].MAC)
	c.hops[2].beyond = append(c.hops[2].beyond, to)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.check(c.WaitUp(ctx))
	for _, h := range c.hops {
		c.check(h.forward())
		c.check(h.truth.of(h.east))
	}
	c.start(from, to, ends, strips)
	for i, s := range sources {
		l, err := fabric.StartLoad(s, sinks[i].MAC, roomy)
		c.check(err)
		c.loads = append(c.loads, l)
	}
	for _, h := range c.hops {
		h.prepare()
	}
	return c
}

func (c *chaos) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// forward has frames leave by the port to the next switch.
func (h *chaosHop) forward() (err error) {
	for _, mac := range h.beyond {
		err = errors.Join(err, h.Forward(mac, h.east))
	}
	return err
}

func (c *chaos) tap(h *chaosHop, stripped bool) *tap {
	p := &tap{c: c, hop: h, stripped: stripped, streams: map[stream]*last{}}
	c.taps = append(c.taps, p)
	return p
}

// start prepares what sends and what captures.
func (c *chaos) start(from *fabric.Port, to net.HardwareAddr, far, strips []*fabric.Port) {
	fleet, err := inventory.Parse("chaos.yaml", []byte(c.hops[0].config()))
	c.check(err)
	c.fleet, c.profile = fleet, fleet.Profile
	send := func(dst net.HardwareAddr, format probe.Format, signals ...quantize.Signal) *probe.Sender {
		var tx *probe.Sender
		c.check(from.Node().Do(func() (err error) {
			tx, err = probe.NewSender(probe.SenderConfig{Interface: from.Name, Dst: dst, Profile: &c.profile, Signals: signals, Format: format})
			return err
		}))
		c.senders = append(c.senders, tx)
		return tx
	}
	send(to, probe.Compact, quantize.MinABW, quantize.MinABWC)
	c.plain = send(to, probe.Untagged, quantize.MinABW)
	for i, h := range c.hops {
		c.check(h.tap.listen(far[i]))
	}
	for _, d := range strips {
		send(d.MAC, probe.Compact, quantize.MinABW)
		for _, p := range c.taps {
			if p.stripped && p.stop == nil {
				c.check(p.listen(d))
				break
			}
		}
	}
}

// prepare starts the hop's agent, with what its state is kept on.
func (h *chaosHop) prepare() {
	t := h.c.t
	h.disk, h.socket, h.file = filepath.Join(h.dir, "disk"), filepath.Join(h.dir, "agent.sock"), filepath.Join(h.dir, "fleet.yaml")
	h.c.check(os.Mkdir(h.disk, 0o700))
	h.c.check(unix.Mount("none", h.disk, "tmpfs", 0, "size=8m,mode=0700")) // this process has its own mounts; the records of half an hour take 2 MiB
	t.Cleanup(func() {
		if err := unix.Unmount(h.disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if h.waits {
		h.within = 5 * interval * 9 / 10 / 3 / 2
		h.interval, h.file, h.frozen = 5*interval, filepath.Join(h.disk, "device.yaml"), filepath.Join(h.dir, "frozen")
		h.c.check(os.WriteFile(filepath.Join(h.dir, "community"), []byte("public\n"), 0o600))
		exe, err := os.Executable()
		h.c.check(err)
		h.snmpd = startSnmpd(t, h.Node, timerPort, []string{timerLog + "=" + os.DevNull, timerFrozen + "=" + h.frozen}, "pass_persist "+ifXEntry+" "+exe+"\n")
		awaitSnmpd(t, h.Node, h.snmpd.v2c("swp3"))
	} else {
		h.write(h.config())
	}
	h.launch()
	if h.waits {
		configure(t, h.socket, []byte(h.config()))
	}
	h.live(time.Now())
}

func (h *chaosHop) write(text string) {
	h.c.t.Helper()
	h.c.check(os.WriteFile(h.file, []byte(text), 0o600))
}

// launch starts the hop's agent.
func (h *chaosHop) launch() {
	h.c.t.Helper()
	args := []string{"agent", "-i", h.file, "--socket", h.socket, "--metrics", metricsAt, "--records", filepath.Join(h.disk, "records")}
	if h.waits {
		args = append(args, "--wait")
	}
	a := launchIn(h.c.t, h.Command(released(h.c.t), args...), h.socket)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.agent = a
}

func (h *chaosHop) running() *agent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agent
}

// live waits until the port writes what was measured after a time.
func (h *chaosHop) live(after time.Time) {
	h.c.t.Helper()
	h.running().await(h.name+" is live", func(s *api.Status) bool {
		p := first(s)
		return (p.State == api.StateLive && s.DataPlane == api.DataPlaneLeased || restoredOften(s)) && s.Cycle.LastError == "" && p.WindowStart != nil && p.WindowStart.After(after)
	})
}

// restoredOften reports whether the agent does not vouch for rules that were taken from it again
// and again, the port's or those of all ports: what they do shows in the frames.
func restoredOften(s *api.Status) bool {
	return strings.Contains(s.DataPlaneReason+first(s).Reason, "times in a row")
}

// cycles waits for two more that complete: the second one began after now.
func (h *chaosHop) cycles() {
	h.c.t.Helper()
	a := h.running()
	before := a.await("a status of "+h.name, func(*api.Status) bool { return true }).Cycle.Count
	a.await("cycles of "+h.name, func(s *api.Status) bool { return s.Cycle.Count >= before+2 })
}

// nft runs the operator's own tool in the switch.
func (h *chaosHop) nft(script string) {
	h.c.t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := h.Do(cmd.Run); err != nil {
		h.c.t.Errorf("nft: %v\n%s%s", err, script, out.String())
	}
}

// ruleset is what nft sees in the switch.
func (h *chaosHop) ruleset(args ...string) string {
	h.c.t.Helper()
	var out strings.Builder
	cmd := exec.Command("nft", append([]string{"list"}, args...)...)
	cmd.Stdout = &out
	h.c.check(h.Do(cmd.Run))
	return out.String()
}

// bound is how old the window may be whose value a frame has: a reading may be as old as the lease
// when it is programmed, and the lease then runs. Counters that stand still are noticed
// after seven readings.
func (h *chaosHop) bound(at time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	lease := 3 * h.interval
	for i := len(h.leases) - 1; i >= 0 && at.Sub(h.leases[i].at) < truthKept/2; i-- {
		lease = max(lease, h.leases[i].lease)
	}
	bound := 2*max(lease, 300*time.Millisecond) + slack
	if h.snmpd != nil {
		bound = max(bound, 8*h.interval)
	}
	return bound
}

// noteStale keeps the stalest S of the hop, and of each of its faults.
func (h *chaosHop) noteStale(at time.Time, stale time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.worst = max(h.worst, stale)
	if e := h.episodeLocked(at); e != nil {
		e.stale = max(e.stale, stale)
	}
}

// everyone sends a signal to the agents, and waits until they have ended.
func (c *chaos) everyone(sig syscall.Signal) {
	c.t.Helper()
	for _, h := range c.hops {
		if err := h.running().signal(sig); err != nil {
			c.t.Errorf("%s ends with %v", h.name, err)
		}
	}
}
