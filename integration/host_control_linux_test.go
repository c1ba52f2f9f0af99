package integration

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/hosts/tcp"
)

// dialUnder connects from a host, under a congestion control.
func (b *tcpBed) dialUnder(h *tcpHost, to, control string) net.Conn {
	b.t.Helper()
	var c net.Conn
	if err := h.node.Do(func() (err error) {
		d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control) })
			return errors.Join(err, failed)
		}}
		c, err = d.Dial("tcp", to)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

// takeControl has csig's congestion control have the connections of both hosts.
func (b *tcpBed) takeControl() {
	b.text = strings.ReplaceAll(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.0.0.0/24], control: csig}")
}

// under waits until all connections of a host are under a control for a reason.
func (b *tcpBed) under(h *tcpHost, n int, control string, why ...string) *tcp.Status {
	b.t.Helper()
	return b.await(h, "connections are under "+control, func(s *tcp.Status) bool {
		return len(s.Flows) == n && !slices.ContainsFunc(s.Flows, func(f tcp.Flow) bool { return f.Control != control || !slices.Contains(why, f.Why) })
	})
}

// control is the congestion control of a connection.
func control(t *testing.T, c net.Conn) (name string) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := raw.Control(func(fd uintptr) { name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) })
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(name, "\x00")
}

// TestHostControl has a connection under csig's congestion control while the signal comes, and under the system's else.
func TestHostControl(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.takeControl()
	server := b.serve(b.h2, 5201)
	b.start(b.h1)
	b.start(b.h2)
	c := b.dialUnder(b.h1, "10.0.0.2:5201", "reno")
	send(c)
	goesOn := func(what string) {
		t.Helper()
		before := server.got.Load()
		if !within(patience, func() bool { return server.got.Load() > before+1_000_000 }) {
			t.Errorf("%s: the connection does not go on", what)
		}
	}
	// Without a switch that writes tags there is no signal: absence is no head-room.
	b.under(b.h1, 1, "reno", "no signal has come")
	b.startSwitches()
	s := b.under(b.h1, 1, "csig", "the signal comes")
	if s.Control.Wanted != "csig" || s.Control.Counts.Given == 0 || s.Control.Trouble != "" || control(t, c) != s.Control.Name {
		t.Errorf("%+v, %s", s.Control, control(t, c))
	}
	if out := exits(t, 0, b.h1.node.Command(csig, "host", "status", "--socket", b.socket(b.h1))); !strings.Contains(out, "1 connection under csig: the signal comes") {
		t.Errorf("%s", out)
	}

	b.agents[0].kill() // a dead agent's port is stale
	b.under(b.h1, 1, "reno", "the port's agent is gone")
	goesOn("with a dead agent")
	b.agents = nil
	b.startSwitches()
	b.under(b.h1, 1, "csig", "the signal comes")

	b.h2.kill() // nothing reflects; the last signal may have been of an agent that was late
	b.under(b.h1, 1, "reno", "signals have stopped", "the port's agent is gone")
	goesOn("with the peer's csig killed")
	b.start(b.h2)
	c.Close()

	// csig itself is killed: the control is gone for connections to come, and lets go of those that it has.
	c = b.dialUnder(b.h1, "10.0.0.2:5201", "reno")
	send(c)
	s = b.under(b.h1, 1, "csig", "the signal comes")
	b.h1.kill()
	killed := time.Now()
	if !within(patience, func() bool { return control(t, c) == "reno" }) {
		t.Errorf("after csig was killed the connection is under %s", control(t, c))
	}
	t.Logf("under reno %v after csig was killed", time.Since(killed))
	goesOn("with csig killed")
	if err := choose(c.(*net.TCPConn), s.Control.Name); !errors.Is(err, unix.ENOENT) {
		t.Errorf("after csig was killed its control is there: %v", err)
	}
	c.Close()
	b.start(b.h1)
	c = b.dialUnder(b.h1, "10.0.0.2:5201", "reno")
	send(c)
	b.under(b.h1, 1, "csig", "the signal comes")
	if err := choose(c.(*net.TCPConn), "cubic"); err != nil {
		t.Fatal(err)
	}
	b.under(b.h1, 1, "cubic", "the application has chosen it")
	c.Close()

	// An administrator's route keeps its control.
	exits(t, 0, b.h1.node.Command("ip", "route", "replace", "10.0.0.0/24", "dev", "eth0", "proto", "kernel", "scope", "link", "src", b.h1.address, "mtu", "1500", "congctl", "lock", "reno"))
	send(b.dial(b.h1, "10.0.0.2:5201"))
	s = b.under(b.h1, 1, "reno", "the kernel refused the change: its route may lock the control")
	if s.Control.Counts.Refused == 0 {
		t.Errorf("%+v", s.Control)
	}
}

// choose sets the congestion control of a connection, as its application does.
func choose(c syscall.Conn, name string) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) })
	return errors.Join(err, failed)
}

// TestHostControlRamps has a connection take the room that opens, and be as it was when csig gives it back.
func TestHostControlRamps(t *testing.T) {
	t.Parallel()
	b := newSlowTCPBed(t, 10*time.Millisecond)
	b.giveRoom()
	b.startSwitches()
	b.takeControl()
	server := b.serve(b.h2, 5201)
	b.start(b.h1)
	b.start(b.h2)
	if err := b.load.SetRate(80_000_000); err != nil {
		t.Fatal(err)
	}
	c := b.dialUnder(b.h1, "10.0.0.2:5201", "reno").(*net.TCPConn)
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const own = 25_000_000 // bytes/s, the application's own limit
	pacing := func(set bool) (rate int) {
		var err error
		failed := raw.Control(func(fd uintptr) {
			if set {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, own)
			}
			rate, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE)
		})
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return rate
	}
	pacing(true)
	send(c)
	b.under(b.h1, 1, "csig", "the signal comes")
	if !within(patience, func() bool { return b.dropped() > 0 }) {
		t.Fatal("the cable is not full")
	}
	if err := b.load.SetRate(0); err != nil {
		t.Fatal(err)
	}
	limited := 0
	if !within(patience, func() bool {
		if now := pacing(false); now != own {
			limited = now
		}
		return limited != 0
	}) {
		t.Error("what the connection took was never limited")
	} else if limited > own {
		t.Errorf("it may send %d bytes/s, more than the application's own limit", limited)
	}
	if _, ok := reaches(server, 0.8*tcpSpeed, patience); !ok {
		t.Error("the connection has not taken the room")
	}
	s := b.under(b.h1, 1, "csig", "the signal comes")
	if s.Flows[0].Ramps == 0 || s.Control.Counts.Ramps < uint64(s.Flows[0].Ramps) {
		t.Errorf("%+v, %+v", s.Control, s.Flows[0])
	}
	b.h1.kill()
	if !within(patience, func() bool { return control(t, c) == "reno" }) {
		t.Errorf("it is under %s", control(t, c))
	}
	if got := pacing(false); got != own {
		t.Errorf("given back, it may send %d bytes/s", got)
	}
}

// reaches is how long a server takes from now until it gets so many bit/s, over windows of 100 ms.
func reaches(server *sink, bps float64, most time.Duration) (time.Duration, bool) {
	began := time.Now()
	type at struct {
		when time.Time
		got  int64
	}
	var window []at
	for time.Since(began) < most {
		now := at{time.Now(), server.got.Load()}
		window = append(window, now)
		for len(window) > 2 && now.when.Sub(window[1].when) >= 100*time.Millisecond {
			window = window[1:]
		}
		if d := now.when.Sub(window[0].when); d >= 100*time.Millisecond && float64(now.got-window[0].got)*8/d.Seconds() >= bps {
			return time.Since(began), true
		}
		time.Sleep(5 * time.Millisecond) // for so long is measured
	}
	return most, false
}

// TestLongHostControlRoom opens room from 20 to 100 Mbit/s, in turns under csig's control and cubic's: with switches whose
// agents rewrite rules, and with such that measure in their kernel.
func TestLongHostControlRoom(t *testing.T) {
	for _, platform := range []string{"linux", "linux-ebpf"} {
		t.Run(platform, func(t *testing.T) { opensRoom(t, platform) })
	}
}

func opensRoom(t *testing.T, platform string) {
	b := newSlowTCPBed(t, 10*time.Millisecond)
	b.text = strings.ReplaceAll(b.text, "platform: linux\n", "platform: "+platform+"\n")
	b.giveRoom()
	b.startSwitches()
	b.takeControl()
	server := b.serve(b.h2, 5201)
	b.start(b.h2)
	n, judged := pairs(t)
	var took [2][]time.Duration
	for range n {
		for i, name := range []string{"csig", "cubic"} {
			if err := b.load.SetRate(80_000_000); err != nil {
				t.Fatal(err)
			}
			if name == "csig" {
				b.start(b.h1)
			}
			c := b.dialUnder(b.h1, "10.0.0.2:5201", "cubic")
			send(c)
			if name == "csig" {
				b.under(b.h1, 1, "csig", "the signal comes")
			}
			time.Sleep(3 * time.Second) // the window is that of 20 Mbit/s then
			if err := b.load.SetRate(0); err != nil {
				t.Fatal(err)
			}
			d, ok := reaches(server, 0.9*0.94*tcpSpeed, 10*time.Second)
			took[i] = append(took[i], d)
			t.Logf("%s: 90 %% after %v (%v)", name, d, ok)
			if name == "csig" {
				s := b.await(b.h1, "it answers", func(*tcp.Status) bool { return true })
				t.Logf("%+v, %+v", s.Control, s.Flows)
				b.h1.kill()
				b.h1.run = nil
			}
			c.Close()
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	age := 2*100*time.Millisecond + 20*time.Millisecond
	t.Logf("csig %v, cubic %v; an age is %v", took[0], took[1], age)
	if median := took[0][n/2]; judged && median > 4*age || median >= took[1][n/2] {
		t.Errorf("90 %% after %v, want %v; with cubic %v", median, 4*age, took[1][n/2])
	}
}

// dropped is how many packets the cable between the switches has dropped.
func (b *tcpBed) dropped() (n int) {
	b.t.Helper()
	out := exits(b.t, 0, b.s1.Command("tc", "-s", "qdisc", "show", "dev", "up"))
	_, rest, found := strings.Cut(out, "dropped ")
	if _, err := fmt.Sscan(rest, &n); !found || err != nil {
		b.t.Fatalf("no drops in %q", out)
	}
	return n
}

// rates are what servers get in a time, in bit/s.
func rates(servers []*sink, d time.Duration) []float64 {
	before := make([]int64, len(servers))
	for i, s := range servers {
		before[i] = s.got.Load()
	}
	began := time.Now()
	time.Sleep(d) // for so long is measured
	out := make([]float64, len(servers))
	for i, s := range servers {
		out[i] = float64(s.got.Load()-before[i]) * 8 / time.Since(began).Seconds()
	}
	return out
}

// jain is Jain's index of fairness.
func jain(v []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range v {
		sum += x
		squares += x * x
	}
	return sum * sum / squares / float64(len(v))
}

// TestLongHostControlFlows has one connection begin alone, two share a cable, and eight begin at once, in turns under
// csig's control and cubic's.
func TestLongHostControlFlows(t *testing.T) {
	b := newSlowTCPBed(t, 10*time.Millisecond)
	b.giveRoom()
	b.text = strings.Replace(b.text, "log-100M", "log-1G", 1) // an idle cable is below the last bucket: else its tags are as they were sent
	b.startSwitches()
	b.takeControl()
	var servers []*sink
	for i := range 8 {
		servers = append(servers, b.serve(b.h2, 5201+i))
	}
	b.start(b.h2)
	n, judged := pairs(t)
	type figures struct{ first, fair, drops, last []float64 } // bit/s, Jain's index, packets, seconds
	var got [2]figures
	idle := func() {
		time.Sleep(time.Second) // what is measured of the cable is of no earlier connection
	}
	for range n {
		for i, name := range []string{"csig", "cubic"} {
			g := &got[i]
			if name == "csig" {
				b.start(b.h1)
			}
			idle()
			c := b.dialUnder(b.h1, "10.0.0.2:5201", "cubic")
			send(c)
			time.Sleep(260 * time.Millisecond) // two RTT and an age
			g.first = append(g.first, rates(servers[:1], 200*time.Millisecond)[0])
			c.Close()
			idle()
			var two []net.Conn
			for k := range 2 {
				two = append(two, b.dialUnder(b.h1, fmt.Sprintf("10.0.0.2:%d", 5201+k), "cubic"))
				send(two[k])
				time.Sleep(300 * time.Millisecond) // the second begins where the first one has the cable
			}
			g.fair = append(g.fair, jain(rates(servers[:2], 8*time.Second)))
			for _, c := range two {
				c.Close()
			}
			idle()
			drops := b.dropped()
			var eight []net.Conn
			for k := range servers {
				eight = append(eight, b.dialUnder(b.h1, fmt.Sprintf("10.0.0.2:%d", 5201+k), "cubic"))
			}
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			before := make([]int64, len(servers))
			for k, c := range eight {
				before[k] = servers[k].got.Load()
				go func() { _, _ = c.Write(make([]byte, 1_000_000)) }()
			}
			for k, s := range servers {
				if !within(patience, func() bool { return s.got.Load() >= before[k]+1_000_000 }) {
					t.Fatalf("connection %d does not end", k)
				}
			}
			g.last = append(g.last, time.Since(began).Seconds())
			g.drops = append(g.drops, float64(b.dropped()-drops))
			if name == "csig" {
				s := b.await(b.h1, "it answers", func(*tcp.Status) bool { return true })
				t.Logf("%+v", s.Control)
				b.h1.kill()
				b.h1.run = nil
			}
			for _, c := range eight {
				c.Close()
			}
			t.Logf("%s: first %.1f Mbit/s, Jain %.3f, eight in %.3f s with %v drops", name, g.first[len(g.first)-1]/1e6, g.fair[len(g.fair)-1], g.last[len(g.last)-1], g.drops[len(g.drops)-1])
		}
	}
	if !judged {
		return // they all ended
	}
	ours, cubic := &got[0], &got[1]
	const low = 90_000_000 // the lower end of the bucket that an idle cable is in
	if first := median(ours.first); first < 0.87*low {
		t.Errorf("a first connection has %.1f Mbit/s after two round trips and an age", first/1e6)
	}
	if fair := median(ours.fair); fair < 0.9 {
		t.Errorf("of two connections Jain's index is %.3f", fair)
	}
	if median(ours.drops) > 1.25*median(cubic.drops) || median(ours.last) > 1.1*median(cubic.last) {
		t.Errorf("eight connections that begin at once: %v drops, %v s; of cubic %v drops, %v s", ours.drops, ours.last, cubic.drops, cubic.last)
	}
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// lie has all tags that leave the second switch say that a fast port has nearly all of its speed left.
func (b *tcpBed) lie() (lies link.Link) {
	t := b.t
	t.Helper()
	const popVLAN, pushVLAN = asm.FnSkbVlanPop, asm.FnSkbVlanPush
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, 20, asm.Word), // __sk_buff.vlan_present
		asm.JEq.Imm(asm.R2, 0, "end"),
		asm.LoadMem(asm.R7, asm.R6, 24, asm.Word), // vlan_tci
		asm.And.Imm(asm.R7, 0xe000),               // T
		asm.Or.Imm(asm.R7, 30<<7|5),
		popVLAN.Call(),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, 0xa888), // 0x88a8
		asm.Mov.Reg(asm.R3, asm.R7),
		pushVLAN.Call(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("end"), // TCX_NEXT
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	to := b.s2.Ports()[slices.IndexFunc(b.s2.Ports(), func(p *fabric.Port) bool { return p.Name == "host" })]
	return atEgress(t, b.s2, to.Index(), prog)
}

// stripTags has the first switch remove tags, until the link is closed.
func (b *tcpBed) stripTags() link.Link {
	b.t.Helper()
	const popVLAN = asm.FnSkbVlanPop
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 20, asm.Word), // __sk_buff.vlan_present
		asm.JEq.Imm(asm.R2, 0, "end"),
		popVLAN.Call(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("end"), // TCX_NEXT
		asm.Return(),
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer prog.Close()
	return atEgress(b.t, b.s1, b.up.Index(), prog)
}

// secondCable is one more between the first two switches.
func (b *tcpBed) secondCable() *fabric.Port {
	b.t.Helper()
	up, _, err := b.Connect(fabric.End{Node: b.s1, Port: "up2"}, fabric.End{Node: b.s2, Port: "back2"}, 1600)
	if err == nil {
		err = errors.Join(up.Shape(tcpSpeed), b.WaitUp(b.t.Context()))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for _, line := range []string{`      - {name: up, speed: 100M, peer: "s2:back"}`, `      - {name: back, speed: 100M, peer: "s1:up"}`} {
		b.text = strings.Replace(b.text, line, line+"\n"+strings.NewReplacer("name: up,", "name: up2,", "name: back,", "name: back2,", "s2:back", "s2:back2", "s1:up", "s1:up2").Replace(line), 1)
	}
	return up
}

// TestLongHostControlGoodput compares what a connection gets under csig's congestion control, whatever ends, with what it
// gets without csig.
func TestLongHostControlGoodput(t *testing.T) {
	b := newTCPBed(t) // without a delay cubic fills the cable soon after losses, too
	b.giveRoom()
	b.text = strings.Replace(b.text, "log-100M", "log-1G", 1)
	b.takeControl()
	up2 := b.secondCable()
	b.startSwitches()
	server := b.serve(b.h2, 5201)
	both := func() { b.start(b.h1); b.start(b.h2) }
	route := func(up *fabric.Port) {
		t.Helper()
		if err := b.s1.Forward(b.h2.nic.MAC, up); err != nil {
			t.Fatal(err)
		}
	}
	signal := func() { b.under(b.h1, 1, "csig", "the signal comes") }
	var after []link.Link
	b.compareGoodput(server, []goodputCase{
		{"the signal comes", both, signal},
		{"the peer's csig is killed", both, func() { signal(); b.h2.kill(); b.h2.run = nil }},
		{"csig is killed, and starts again", both, func() { signal(); b.h1.kill(); b.start(b.h1) }},
		{"tags lie", func() { both(); after = append(after, b.lie()) }, signal},
		{"the path drops tags", func() { both(); after = append(after, b.dropTags()) }, func() {}},
		{"a switch removes tags", func() { both(); after = append(after, b.stripTags()) }, func() { b.under(b.h1, 1, "cubic", "no signal has come") }},
		{"the route changes", both, func() {
			signal()
			route(up2)
			b.await(b.h1, "the other cable limits the connection", func(s *tcp.Status) bool { return limitedBy(s, "abw", "s1:up2") })
		}},
		{"an agent is killed", both, func() { signal(); b.agents[0].kill() }},
	}, func() {
		route(b.up)
		for _, l := range after {
			l.Close()
		}
		after = nil
		for _, a := range b.agents {
			a.kill() // one of them may be dead
		}
		b.agents = nil
		b.startSwitches()
	})
}

// TestLongHostControlLies has a connection whose tags lie share the cable with one of cubic, in turns with two of cubic.
func TestLongHostControlLies(t *testing.T) {
	b := newSlowTCPBed(t, 10*time.Millisecond)
	b.giveRoom()
	b.takeControl()
	b.text = strings.Replace(b.text, "control: csig}", "control: csig, ports: [5201]}", 1)
	b.lie()
	liar, honest := b.serve(b.h2, 5201), b.serve(b.h2, 5202)
	b.start(b.h2)
	var got [2][2][]float64 // csig and cubic, the liar and the other one
	n, judged := pairs(t)
	for range n {
		for i, name := range []string{"csig", "cubic"} {
			if name == "csig" {
				b.start(b.h1)
			}
			drops := b.dropped()
			one, two := b.dialUnder(b.h1, "10.0.0.2:5201", "cubic"), b.dialUnder(b.h1, "10.0.0.2:5202", "cubic")
			send(one)
			send(two)
			time.Sleep(2 * time.Second) // both have left their slow starts
			r := rates([]*sink{liar, honest}, 8*time.Second)
			for k := range r {
				got[i][k] = append(got[i][k], r[k])
			}
			t.Logf("%s: %.1f and %.1f Mbit/s, %d drops", name, r[0]/1e6, r[1]/1e6, b.dropped()-drops)
			if name == "csig" {
				s := b.await(b.h1, "it answers", func(*tcp.Status) bool { return true })
				t.Logf("%+v", s.Control)
				b.h1.kill()
				b.h1.run = nil
			}
			one.Close()
			two.Close()
		}
	}
	const room, share = 71_000_000, 0.5 // of S 30, and what is taken of it
	if most := median(got[1][0]) + share*room; judged && median(got[0][0]) > most {
		t.Errorf("with tags that lie a connection has %.1f Mbit/s, more than %.1f", median(got[0][0])/1e6, most/1e6)
	}
	if least := 0.9 * median(got[1][1]); judged && median(got[0][1]) < least {
		t.Errorf("beside a connection whose tags lie one has %.1f Mbit/s, less than %.1f", median(got[0][1])/1e6, least/1e6)
	}
}
