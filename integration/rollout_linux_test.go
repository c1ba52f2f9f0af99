package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
)

// path is a file of the row's directory.
func (r *row) path(name string) string { return filepath.Join(r.dir, name) }

// command is csig where the row's is run.
func (r *row) command(args ...string) *fabric.Cmd { return r.from.Command(csig, args...) }

// csig runs the command and returns what it prints, and its exit code.
func (r *row) csig(args ...string) (string, int) {
	r.t.Helper()
	return ran(r.t, r.command(args...))
}

// want runs the command and wants an exit code.
func (r *row) want(code int, args ...string) string {
	r.t.Helper()
	return exits(r.t, code, r.command(args...))
}

// rulesets is what every switch has in nftables, without the signal, which its agent
// changes, and in an order that does not say when each object was made.
func (r *row) rulesets() string {
	r.t.Helper()
	var out strings.Builder
	for _, s := range r.switches {
		rules, err := s.Command("nft", "-t", "list", "ruleset").CombinedOutput()
		if err != nil {
			r.t.Fatalf("nft: %v (Debian: apt-get install nftables)\n%s", err, rules)
		}
		if bytes.Contains(rules, []byte("map stale")) {
			stale, err := s.Command("nft", "list", "map", "netdev", "csig", "stale").CombinedOutput()
			if err != nil {
				r.t.Fatalf("nft: %v\n%s", err, stale)
			}
			rules = append(rules, stale...)
		}
		lines := strings.Split(string(rules), "\n")
		slices.Sort(lines)
		fmt.Fprintf(&out, "== %s\n%s", s.Name(), strings.Join(lines, "\n"))
	}
	return out.String()
}

// wantRules checks that every switch has rulesets captured before.
func (r *row) wantRules(want, when string) {
	r.t.Helper()
	if got := r.rulesets(); got != want {
		r.t.Errorf("%s:\n%s\nwant:\n%s", when, got, want)
	}
}

// mayStrip reports whether BPF programs may be loaded here: without them nothing
// strips, and a rollout reports that instead of starting.
func mayStrip(t testing.TB) bool {
	t.Helper()
	m := readFile(t, "/proc/self/uid_map")
	if strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295" {
		return true
	}
	r := newRow(t, 2)
	if out := r.want(1, "plan", "-i", r.fleet); !strings.Contains(out, "it cannot strip tags, and has to") {
		t.Errorf("the plan of a user who may not load BPF programs:\n%s", out)
	}
	return false
}

// traffic is numbered frames without a tag from h1 to h2, of several shapes.
type traffic struct {
	t        testing.TB
	from, to *packet.Conn
	far      net.HardwareAddr
	near     net.HardwareAddr
	stop     chan struct{}
	sent     chan uint32
	got      chan uint32   // frames that came as they were sent
	all      atomic.Uint32 // frames that there are, once that is known; else 0
}

func (r *row) traffic() *traffic {
	r.t.Helper()
	open := func(p *fabric.Port, n *fabric.Node) *packet.Conn {
		var c *packet.Conn
		err := n.Do(func() error {
			i, err := net.InterfaceByName(p.Name)
			if err != nil {
				return err
			}
			if c, err = packet.Listen(i, packet.Raw, 0x88b6, nil); err != nil {
				return err
			}
			return keepAll(c)
		})
		if err != nil {
			r.t.Fatal(err)
		}
		return c
	}
	w := &traffic{
		t: r.t, from: open(r.h1, r.h1.Node()), to: open(r.h2, r.h2.Node()), near: r.h1.MAC, far: r.h2.MAC,
		stop: make(chan struct{}), sent: make(chan uint32, 1), got: make(chan uint32, 1),
	}
	go w.send()
	go w.receive()
	return w
}

// keepAll has a socket keep the frames of seconds until its reader gets a
// processor: the kernel's usual buffer holds those of a tenth of one.
func keepAll(c *packet.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	const size = 64 << 20
	var set error
	err = raw.Control(func(fd uintptr) {
		if set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size); set != nil { // not permitted to ordinary users
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, size)
		}
	})
	return errors.Join(err, set)
}

// frame is the nth frame: its length, and with it its content, follow from n.
func (w *traffic) frame(n uint32) []byte {
	b := make([]byte, 64+n*97%1400)
	copy(b, w.far)
	copy(b[6:], w.near)
	binary.BigEndian.PutUint16(b[12:], 0x88b6)
	binary.BigEndian.PutUint32(b[14:], n)
	for i := 18; i < len(b); i++ {
		b[i] = byte(n>>(i%4*8)) ^ byte(i)
	}
	return b
}

func (w *traffic) send() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := uint32(0); w.all.Load() == 0; n++ {
		select {
		case <-w.stop:
			w.all.Store(n + 1) // this one is the last
		case <-tick.C:
		}
		if _, err := w.from.WriteTo(w.frame(n), &packet.Addr{HardwareAddr: w.far}); err != nil {
			w.t.Errorf("send: %v", err)
		}
	}
	w.sent <- w.all.Load()
}

func (w *traffic) receive() {
	buf := make([]byte, 2000)
	next := uint32(0)
	for {
		n, _, err := w.to.ReadFrom(buf)
		if err != nil {
			w.got <- next
			return
		}
		if !bytes.Equal(buf[:n], w.frame(next)) {
			w.t.Errorf("frame %d did not come as it was sent: %x", next, buf[:min(n, 40)])
			w.got <- next
			return
		}
		if next++; next == w.all.Load() {
			w.got <- next
			return
		}
	}
}

// end stops the traffic and wants every frame to have come.
func (w *traffic) end() {
	w.t.Helper()
	close(w.stop)
	sent := <-w.sent
	// What is on its way takes a moment, the last one too.
	if err := w.to.SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.t.Error(err)
	}
	if got := <-w.got; got != sent || sent == 0 {
		w.t.Errorf("%d of %d frames came, in order and unaltered", got, sent)
	}
	if err := errors.Join(w.from.Close(), w.to.Close()); err != nil {
		w.t.Error(err)
	}
}

// From nothing to CSIG in waves and back, under traffic: not one frame is lost
// or altered, and afterwards everything is as it was.
func TestRollOutAndBack(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 5)
	before := r.rulesets()
	w := r.traffic()
	out := r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	for _, want := range []string{"1. fence", "2. ready", "3. open", "Plan: 20 to add, 0 to change, 0 to remove on 5 devices"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	if r.rulesets() != before {
		t.Error("csig plan changed something")
	}
	out, code := r.csig("apply", r.path("plan"), "--soak", "50ms", "--stop-after", "ready/canary")
	if code != 3 || !strings.Contains(out, "--resume") {
		t.Fatalf("exit code %d, want 3 for a pause\n%s", code, out)
	}
	r.want(0, "apply", "--resume", r.path("plan.journal"), "--soak", "50ms")
	r.want(0, "plan", "-i", r.fleet)
	done := r.rulesets()

	// A change by hand is restored by the switch's agent; what is not ours stays.
	hand := r.switches[2].Command("nft", "flush chain netdev csig p_east; add table ip keep")
	if text, err := hand.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if out, code := r.csig("apply", r.path("plan")); code != 1 || !strings.Contains(out, "plan.journal exists") {
		t.Errorf("a plan applied twice: exit code %d\n%s", code, out)
	}
	if text, err := r.switches[2].Command("nft", "delete table ip keep").CombinedOutput(); err != nil {
		t.Fatalf("the table that is not ours: %v: %s", err, text)
	}
	within(patience, func() bool { return r.rulesets() == done })
	r.wantRules(done, "once the agent has restored it")
	r.want(0, "plan", "-i", r.fleet)

	r.want(0, "rollback", r.path("plan.journal"))
	r.wantRules(before, "after the rollback")
	w.end()
}

// killedAtEveryStep kills the process at the beginning and the end of every step. Undone from each of them,
// everything is as it was; and a rollout that is killed at all of them, and its rollback, come to their ends.
// Both after each record are rollout's TestDeathAnywhere.
func killedAtEveryStep(t *testing.T) {
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byDaemon, byDaemonSSH, byRow)
	before := r.rulesets()
	r.daemons()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	apply := func(journal string) []string {
		return []string{"apply", r.path("plan"), "--soak", "0s", "--parallel", "2", "--journal", r.path(journal)}
	}
	kill := func(nth int, args ...string) bool {
		return killAt(t, r.command(append(args, "--json")...), nth, func(event) {})
	}
	events := 0
	for ; kill(events+1, apply(fmt.Sprint(events))...); events++ {
		r.want(0, "rollback", r.path(fmt.Sprint(events)))
		r.wantRules(before, fmt.Sprintf("killed at event %d, undone", events+1))
	}
	if events < 14 { // seven steps, each with a beginning and an end
		t.Errorf("only %d events", events)
	}
	done, whole := r.rulesets(), r.path(fmt.Sprint(events))
	r.want(0, "plan", "-i", r.fleet)

	// Killed in turns at the beginning and at the end of a step, which the next one begins again.
	again := func(first, next []string) {
		kills := 0
		for args := first; kill(1+kills%2, args...); args = next {
			kills++
		}
		if kills < 7 { // once in each step: what was done before the kill came is not begun again
			t.Errorf("%s was killed %d times", first[0], kills)
		}
	}
	undo := []string{"rollback", whole, "--parallel", "1"}
	again(undo, undo)
	r.wantRules(before, "a rollback that was killed at every step")
	again(apply("killed"), []string{"apply", "--resume", r.path("killed"), "--soak", "0s", "--parallel", "1"})
	r.wantRules(done, "a rollout that was killed at every step")
	r.want(0, "plan", "-i", r.fleet)

	// What a plan takes off leaves no more than a roll-back does.
	r.want(2, "plan", "-i", r.fleet, "--remove", "-o", r.path("off"))
	r.want(0, "apply", r.path("off"), "--soak", "0s")
	r.wantRules(before, "after a plan that takes everything off")
}
