package integration

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/protocol/packets"
)

// tcpBed is two hosts with TCP behind two switches, whose agents write 0x88a8 tags; a third host loads the way between
// them:
//
//	h1 ── s1 ── s2 ── h2
//	      │
//	      l1
type tcpBed struct {
	*fabric.Fabric
	t      *testing.T
	dir    string
	text   string // the fleet file
	nic    string // that connections use, by its name
	h1, h2 *tcpHost
	s1, s2 *fabric.Node
	s3     *fabric.Node // nil: there are two
	up     *fabric.Port // of s1, to s2
	load   *fabric.Load
	agents []*agent // of s1 and s2

	captures []*packets.Socket
}

type tcpHost struct {
	name, address string
	node          *fabric.Node
	nic           *fabric.Port
	pin           string // of its csig host run
	run           *agent // its csig host run; only its log and process
}

// tcpSpeed is that of the cable between the switches.
const tcpSpeed = 100_000_000

func newTCPBed(t *testing.T) *tcpBed { return newSlowTCPBed(t, 0) }

// newSlowTCPBed has frames between the last switch and its host take a time each way, and a third switch where it is one.
func newSlowTCPBed(t *testing.T, delay time.Duration) *tcpBed {
	t.Helper()
	b := &tcpBed{Fabric: newFabric(t), t: t, dir: t.TempDir(), nic: "eth0"}
	must := func(n *fabric.Node, err error) *fabric.Node {
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	cable := func(a *fabric.Node, p string, c *fabric.Node, q string) (*fabric.Port, *fabric.Port) {
		x, y, err := b.Connect(fabric.End{Node: a, Port: p}, fabric.End{Node: c, Port: q}, 1600)
		if err != nil {
			t.Fatal(err)
		}
		return x, y
	}
	b.s1, b.s2 = must(b.AddSwitch("s1")), must(b.AddSwitch("s2"))
	b.h1 = &tcpHost{name: "h1", address: "10.0.0.1", node: must(b.AddHost("h1"))}
	b.h2 = &tcpHost{name: "h2", address: "10.0.0.2", node: must(b.AddHost("h2"))}
	l1 := must(b.AddHost("l1"))
	var to1, to2, back *fabric.Port
	b.h1.nic, to1 = cable(b.h1.node, "eth0", b.s1, "host")
	if delay == 0 {
		b.h2.nic, to2 = cable(b.h2.node, "eth0", b.s2, "host")
	} else {
		between := must(b.AddHost("relay"))
		b.s3 = must(b.AddSwitch("s3"))
		var near, far, last, before *fabric.Port
		b.h2.nic, far = cable(b.h2.node, "eth0", between, "far")
		near, last = cable(between, "near", b.s3, "host")
		before, to2 = cable(b.s3, "back", b.s2, "host")
		if err := errors.Join(b.s3.Forward(b.h2.nic.MAC, last), b.s3.Forward(b.h1.nic.MAC, before)); err != nil {
			t.Fatal(err)
		}
		relay, err := fabric.StartRelay(near, far, delay)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := relay.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	b.up, back = cable(b.s1, "up", b.s2, "back")
	nic, _ := cable(l1, "eth0", b.s1, "load")
	sink := net.HardwareAddr{2, 0xff, 0, 0, 0, 1}
	if err := errors.Join(
		b.s1.Forward(b.h2.nic.MAC, b.up), b.s2.Forward(b.h2.nic.MAC, to2), b.s2.Forward(b.h1.nic.MAC, back), b.s1.Forward(b.h1.nic.MAC, to1),
		b.s1.Forward(sink, b.up), b.up.Shape(tcpSpeed), b.WaitUp(t.Context()),
	); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*tcpHost{b.h1, b.h2} {
		other := b.h1
		if h == b.h1 {
			other = b.h2
		}
		exits(t, 0, h.node.Command("ip", "link", "set", "dev", "eth0", "arp", "on"))
		exits(t, 0, h.node.Command("ethtool", "-K", "eth0", "gso", "on", "gro", "on")) // TSO stays off, else veth bypasses GRO
		if delay != 0 {
			exits(t, 0, h.node.Command("ethtool", "-K", "eth0", "tx", "off", "gso", "off")) // the relay has whole frames
		}
		exits(t, 0, h.node.Command("ip", "address", "add", h.address+"/24", "dev", "eth0"))
		exits(t, 0, h.node.Command("ip", "neighbour", "add", other.address, "lladdr", other.nic.MAC.String(), "dev", "eth0", "nud", "permanent"))
	}
	var err error
	if b.load, err = fabric.StartLoad(nic, sink, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.load.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.text = `format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x88a8
  interval: 100ms
  signals:
    abw: {buckets: log-100M}
    abwc: {buckets: log}
vlan_tpids: [0x8100]
devices:
  - name: s1
    platform: linux
    ports:
      - {name: up, speed: 100M, peer: "s2:back"}
      - {name: host, speed: 1G, peer: h1}
  - name: s2
    platform: linux
    ports:
      - {name: back, speed: 100M, peer: "s1:up"}
      - {name: host, speed: 1G, peer: h2}
hosts:
  - {name: h1, csig: true, address: 10.0.0.1, tcp: {to: [10.0.0.0/24]}}
  - {name: h2, csig: true, address: 10.0.0.2, tcp: {to: [10.0.0.0/24]}}
`
	if b.s3 != nil {
		b.text = strings.Replace(b.text, "      - {name: host, speed: 1G, peer: h2}\n", `      - {name: host, speed: 1G, peer: "s3:back"}
  - name: s3
    platform: linux
    ports:
      - {name: back, speed: 1G, peer: "s2:host"}
      - {name: host, speed: 1G, peer: h2}
`, 1)
	}
	return b
}

// startSwitches has the switches drive themselves.
func (b *tcpBed) startSwitches() {
	b.t.Helper()
	for _, n := range []*fabric.Node{b.s1, b.s2, b.s3} {
		if n == nil {
			continue
		}
		file, socket := filepath.Join(b.dir, n.Name()+".yaml"), filepath.Join(b.dir, n.Name()+".sock")
		writeFile(b.t, file, []byte(strings.Replace(b.text, "name: "+n.Name()+"\n", "name: "+n.Name()+"\n    local: true\n", 1)))
		a := launchIn(b.t, n.Command(csig, "agent", "-i", file, "--socket", socket), socket)
		b.agents = append(b.agents, a)
		a.await(n.Name()+"'s ports are live", func(s *api.Status) bool {
			return !slices.ContainsFunc(s.Ports, func(p api.Port) bool { return p.State != api.StateLive })
		})
	}
}

// file is a host's fleet file.
func (b *tcpBed) file(h *tcpHost) string {
	b.t.Helper()
	file := filepath.Join(b.dir, h.name+".yaml")
	writeFile(b.t, file, []byte(strings.Replace(b.text, "{name: "+h.name+",", "{name: "+h.name+", local: true, interface: "+b.nic+",", 1)))
	return file
}

func (b *tcpBed) socket(h *tcpHost) string { return filepath.Join(b.dir, h.name+".sock") }

// giveRoom has packets leave a tag's 4 bytes of the MTU.
func (b *tcpBed) giveRoom() {
	for _, h := range []*tcpHost{b.h1, b.h2} {
		exits(b.t, 0, h.node.Command("ip", "route", "replace", "10.0.0.0/24", "dev", "eth0", "proto", "kernel", "scope", "link", "src", h.address, "mtu", "1500"))
	}
}

// start has a host's connections have tags, with csig started by another program where there is one.
func (b *tcpBed) start(h *tcpHost, by ...string) {
	b.t.Helper()
	args := append(by, csig, "host", "run", "-i", b.file(h), "--socket", b.socket(h))
	if h.pin != "" {
		args = append(args, "--pin", h.pin)
	}
	h.run = launchIn(b.t, h.node.Command(args[0], args[1:]...), b.socket(h))
	b.await(h, "csig host run answers", func(*tcp.Status) bool { return true })
}

// kill ends a host's csig at once, and waits until it is gone.
func (h *tcpHost) kill() { h.run.kill() }

func (a *agent) kill() {
	_ = a.cmd.Process.Signal(syscall.SIGKILL)
	<-a.ended
}

// await waits until what csig host status --json prints meets a condition.
func (b *tcpBed) await(h *tcpHost, what string, ok func(*tcp.Status) bool) *tcp.Status {
	b.t.Helper()
	var s *tcp.Status
	if !within(patience, func() bool {
		out, err := h.node.Command(csig, "host", "status", "--socket", b.socket(h), "--json").Output()
		if err != nil {
			return false
		}
		s = new(tcp.Status)
		if err := json.Unmarshal(out, s); err != nil {
			b.t.Fatal(err)
		}
		return ok(s)
	}) {
		b.t.Fatalf("%s: not within %v that %s: %+v", h.name, patience, what, s)
	}
	return s
}

// sink is a server that counts what it gets.
type sink struct {
	net.Listener
	got atomic.Int64
}

func (b *tcpBed) serve(h *tcpHost, port int) *sink {
	b.t.Helper()
	s := &sink{}
	if err := h.node.Do(func() (err error) {
		s.Listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { s.Close() })
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf)
					s.got.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return s
}

// dial connects from a host, by a SYN that was sent once: one that is sent again has no option, and its connection no tags.
func (b *tcpBed) dial(h *tcpHost, to string) net.Conn {
	b.t.Helper()
	for range 20 {
		c := b.dialOnce(h, to)
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			b.t.Fatal(err)
		}
		var info *unix.TCPInfo
		if bad := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); bad != nil || err != nil {
			b.t.Fatal(bad, err)
		}
		if info.Total_retrans == 0 {
			return c
		}
		b.t.Logf("the SYN of %s was lost, or its answer is late", c.LocalAddr())
		c.Close()
	}
	b.t.Fatal("each SYN is sent twice")
	return nil
}

// dialOnce is dial where the option may have been dropped on the way.
func (b *tcpBed) dialOnce(h *tcpHost, to string) net.Conn {
	b.t.Helper()
	var c net.Conn
	if err := h.node.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", to, patience)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

// send sends until the connection is closed, and returns how much that was.
func send(c net.Conn) (sent *atomic.Int64) {
	sent = new(atomic.Int64)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Write(buf)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return sent
}

// tcpPacket is a TCP packet as this test reads it from the wire.
type tcpPacket struct {
	tag      bool
	tci      uint16
	src, dst string
	sport    uint16
	dport    uint16
	flags    byte
	payload  int
	seq, ack uint32
	at       time.Time
	frame    []byte
	csig     []byte // the option behind kind and length, nil where there is none
	own      []byte // the same of kind 200
	accurate bool   // there is an option of Accurate ECN
	options  int    // bytes of all
}

// decode reads a frame by the RFCs; ok is false for other frames than TCP's over IPv4.
func decode(f []byte) (p tcpPacket, ok bool) {
	if len(f) < 14 {
		return p, false
	}
	f = f[12:]
	if binary.BigEndian.Uint16(f) == 0x88a8 && len(f) > 6 {
		p.tag, p.tci = true, binary.BigEndian.Uint16(f[2:])
		f = f[4:]
	}
	if binary.BigEndian.Uint16(f) != 0x0800 || len(f) < 2+20 {
		return p, false
	}
	ip := f[2:]
	head := int(ip[0]&15) * 4
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if ip[9] != 6 || len(ip) < head+20 || total > len(ip) {
		return p, false
	}
	p.src, p.dst = net.IP(ip[12:16]).String(), net.IP(ip[16:20]).String()
	seg := ip[head:total]
	p.seq, p.ack = binary.BigEndian.Uint32(seg[4:]), binary.BigEndian.Uint32(seg[8:])
	p.sport, p.dport, p.flags = binary.BigEndian.Uint16(seg), binary.BigEndian.Uint16(seg[2:]), seg[13]
	offset := int(seg[12]>>4) * 4
	p.payload, p.options = len(seg)-offset, offset-20
	for o := seg[20:offset]; len(o) > 0; {
		switch {
		case o[0] == 0:
			return p, true
		case o[0] == 1:
			o = o[1:]
			continue
		case len(o) < 2 || int(o[1]) < 2 || int(o[1]) > len(o):
			return p, false
		case o[0] == 253 && o[1] >= 4 && binary.BigEndian.Uint16(o[2:]) == 0xc516:
			p.csig = slices.Clone(o[2:o[1]])
		case o[0] == 172 || o[0] == 174:
			p.accurate = true
		case o[0] == 200:
			p.own = slices.Clone(o[2:o[1]])
		}
		o = o[o[1]:]
	}
	return p, true
}

// watch collects the TCP packets that arrive at a host.
func (b *tcpBed) watch(h *tcpHost) (seen func() []tcpPacket) {
	b.t.Helper()
	var mu sync.Mutex
	var all []tcpPacket
	b.frames(h, func(f []byte, at time.Time) {
		if p, ok := decode(f); ok {
			mu.Lock()
			defer mu.Unlock()
			p.at, p.frame = at, slices.Clone(f[:min(len(f), 128)])
			all = append(all, p)
		}
	})
	return func() []tcpPacket {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// frames calls f with each frame that arrives at a host, until the test ends.
func (b *tcpBed) frames(h *tcpHost, f func(frame []byte, at time.Time)) {
	b.t.Helper()
	var s *packets.Socket
	if err := h.node.Do(func() (err error) {
		s, err = packets.Open(h.nic.Index(), nil)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.captures = append(b.captures, s)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			frame, at, err := s.Receive()
			if err != nil {
				return
			}
			f(frame, at)
		}
	}()
	b.t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
}

// limitedBy reports whether a status names a port for a signal of a connection, as the last that was reflected.
func limitedBy(s *tcp.Status, signal, port string) bool {
	return slices.ContainsFunc(s.Flows, func(f tcp.Flow) bool {
		return f.State == tcp.FlowTagged && slices.ContainsFunc(f.Learned, func(r tcp.Reading) bool {
			return r.Signal == signal && slices.Equal(r.Ports, []string{port}) && r.AgeNS < time.Second.Nanoseconds()
		})
	})
}

// TestHostTCP has a TCP connection show which port limits it, and reads on the wire why.
func TestHostTCP(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.startSwitches()

	// Where packets are as long as the MTU there is no room for a tag.
	out := exits(t, 1, b.h1.node.Command(csig, "host", "run", "-i", b.file(b.h1), "--socket", b.socket(b.h1)))
	line := "ip route replace 10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1 mtu 1596"
	if !strings.Contains(out, line) {
		t.Errorf("the refusal does not have %q:\n%s", line, out)
	}
	b.giveRoom()
	b.start(b.h1)
	b.start(b.h2)
	at1, at2 := b.watch(b.h1), b.watch(b.h2)
	server := b.serve(b.h2, 5201)
	c := b.dial(b.h1, "10.0.0.2:5201")
	sent := send(c)
	if err := b.load.SetRate(60_000_000); err != nil {
		t.Fatal(err)
	}
	b.await(b.h1, "s1:up limits the connection", func(s *tcp.Status) bool { return limitedBy(s, "abw", "s1:up") && limitedBy(s, "abwc", "s1:up") })
	text := exits(t, 0, b.h1.node.Command(csig, "host", "status", "--socket", b.socket(b.h1)))
	if !strings.Contains(text, "s1:up") || !strings.Contains(text, "10.0.0.2:5201") {
		t.Errorf("csig host status:\n%s", text)
	}
	c.Close()
	if n := sent.Load(); !within(patience, func() bool { return server.got.Load() >= n }) {
		t.Errorf("%d of %d bytes arrived", server.got.Load(), n)
	}
	came := at1()
	// Frames come in their order: with the second connection's first, the capture has all of the one that is judged.
	second := b.dial(b.h1, "10.0.0.2:5201").LocalAddr().(*net.TCPAddr)
	if !within(patience, func() bool {
		return slices.ContainsFunc(at2(), func(p tcpPacket) bool { return int(p.sport) == second.Port })
	}) {
		t.Fatal("the capture is not through")
	}
	b.judge(came, at2())
}

// judge looks at the packets of the connection that h1 opened.
func (b *tcpBed) judge(at1, at2 []tcpPacket) {
	b.t.Helper()
	for _, s := range b.captures {
		if lost, err := s.Drops(); lost > 0 || err != nil {
			b.t.Fatalf("the test's own capture lost %d frames (%v): what came is not known", lost, err)
		}
	}
	var syn, tagged, untagged, pure, reflected int
	var first *tcpPacket
	for i := range at2 {
		p := &at2[i]
		switch {
		case p.flags&2 != 0:
			syn++
			if p.tag || len(p.csig) != 2 {
				b.t.Errorf("the SYN: %+v", *p)
			}
		case first == nil:
			if first = p; !p.tag || p.payload != 0 {
				b.t.Errorf("the handshake's ACK: %+v", *p)
			}
		case p.payload > 0 && p.csig != nil:
			b.t.Errorf("data with the option: %+v", *p)
		case p.payload > 0 && p.tag:
			tagged++
		case p.payload > 0:
			untagged++
		}
	}
	came := map[uint16]bool{}
	for i := range at2 {
		if at2[i].tag {
			came[at2[i].tci] = true
		}
	}
	for i := range at1 {
		p := &at1[i]
		switch {
		case p.flags&2 != 0:
			if p.tag || len(p.csig) != 2 {
				b.t.Errorf("the SYN-ACK: %+v", *p)
			}
		case p.payload == 0 && p.flags&0x10 != 0:
			if p.csig == nil && p.options > 40-8 {
				continue // with timestamps, three blocks of SACK leave no room
			}
			if pure++; p.csig == nil {
				continue
			}
			if reflected++; len(p.csig) != 4 || !came[binary.BigEndian.Uint16(p.csig[2:])] {
				b.t.Errorf("an option of what never came: %+v", *p)
			}
		}
	}
	b.t.Logf("%d SYN; data %d tagged, %d not; %d pure ACKs, %d with the option; %d tags", syn, tagged, untagged, pure, reflected, len(came))
	if syn == 0 || tagged < untagged || reflected*10 < pure*9 {
		b.t.Errorf("too little has tags, or is reflected")
	}
}

// programsAt is how many BPF programs run at a host's interface and in a control group.
func programsAt(t *testing.T, n *fabric.Node, index int, cgroup string) (ingress, egress, group int) {
	t.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var found [3]int
	if err := n.Do(func() error {
		for i, q := range []link.QueryOptions{{Target: index, Attach: ebpf.AttachTCXIngress}, {Target: index, Attach: ebpf.AttachTCXEgress}, {Target: int(dir.Fd()), Attach: ebpf.AttachCGroupSockOps}} {
			r, err := link.QueryPrograms(q)
			if err != nil {
				return err
			}
			found[i] = len(r.Programs)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found[0], found[1], found[2]
}

// newControlGroup is one of the test's own.
func newControlGroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			dir, err := os.MkdirTemp(f[1], "csig-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if !within(patience, func() bool { err = os.Remove(dir); return err == nil }) { // its processes are gone a moment after they ended
					t.Error(err)
				}
			})
			return dir
		}
	}
	t.Fatal("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup/unified")
	return ""
}

// oneGroup has connections of one control group of the first host alone have tags.
func (b *tcpBed) oneGroup() (group string) {
	b.t.Helper()
	group = newControlGroup(b.t)
	b.text = strings.Replace(b.text, "tcp: {to: [10.0.0.0/24]}}\n  - {name: h2", "tcp: {to: [10.0.0.0/24], cgroup: "+group+"}}\n  - {name: h2", 1)
	return group
}

// TestHostTCPLeavesNothing has csig host run end in several ways, with connections of one control group alone.
func TestHostTCPLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	group := b.oneGroup()
	b.start(b.h2)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		b.start(b.h1)
		if in, out, all := programsAt(t, b.h1.node, b.h1.nic.Index(), group); in != 1 || out != 1 || all != 1 {
			t.Errorf("while csig host run runs: %d programs at ingress, %d at egress, %d in the control group", in, out, all)
		}
		_ = b.h1.run.cmd.Process.Signal(sig)
		<-b.h1.run.ended
		if !within(patience, func() bool {
			in, out, all := programsAt(t, b.h1.node, b.h1.nic.Index(), group)
			return in+out+all == 0
		}) {
			t.Errorf("after %v programs are left", sig)
		}
	}
	// A process outside of the group has no tags, and one inside has.
	b.start(b.h1)
	b.serve(b.h2, 5201)
	b.dial(b.h1, "10.0.0.2:5201")
	dir, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	inside := b.h1.node.Command("busybox", "nc", "10.0.0.2", "5201")
	inside.SysProcAttr.UseCgroupFD, inside.SysProcAttr.CgroupFD = true, int(dir.Fd())
	if _, err := inside.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	b.await(b.h1, "the connection from inside is there", func(s *tcp.Status) bool { return len(s.Flows) > 0 })
	if s := b.await(b.h2, "it is at the server", func(s *tcp.Status) bool { return len(s.Flows) > 0 }); len(s.Flows) != 1 || s.Counts.Connections != 1 {
		t.Errorf("connections with tags: %+v", s.Flows)
	}
	_ = inside.Process.Kill()
	_ = inside.Wait()
	b.await(b.h1, "it is gone with its socket", func(s *tcp.Status) bool { return len(s.Flows) == 0 })
}

// TestHostTCPGroupComesBack removes the control group, and makes it again, as a service that is started again does.
func TestHostTCPGroupComesBack(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	group := b.oneGroup()
	b.start(b.h1)
	if err := os.Remove(group); err != nil {
		t.Fatal(err)
	}
	b.await(b.h1, "the control group is missed", func(s *tcp.Status) bool { return strings.Contains(s.Trouble, group) })
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	b.await(b.h1, "it is back", func(s *tcp.Status) bool { return s.Trouble == "" })
	if in, out, all := programsAt(t, b.h1.node, b.h1.nic.Index(), group); in != 1 || out != 1 || all != 1 {
		t.Errorf("%d programs at ingress, %d at egress, %d in the control group", in, out, all)
	}
	if err := errors.Join(os.Remove(group), os.Mkdir(group, 0o755)); err != nil { // between two looks
		t.Fatal(err)
	}
	if !within(patience, func() bool { _, _, all := programsAt(t, b.h1.node, b.h1.nic.Index(), group); return all == 1 }) {
		t.Error("a control group that was made again at once has no program")
	}
}

// TestHostTCPOptionDropped has a path drop each SYN with the option: the connection comes about by the next SYN, without it.
func TestHostTCPOptionDropped(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.start(b.h1)
	b.start(b.h2)
	b.serve(b.h2, 5201)
	nft := b.h2.node.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader("table ip drops { chain c { type filter hook input priority 0; tcp flags syn tcp option 253 exists counter drop; }; }\n")
	exits(t, 0, nft)
	c := b.dialOnce(b.h1, "10.0.0.2:5201")
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	if s := b.await(b.h1, "it has no option", func(s *tcp.Status) bool { return true }); len(s.Flows) != 0 || s.Counts.Connections != 0 {
		t.Errorf("%+v", s)
	}
	if out := exits(t, 0, b.h2.node.Command("nft", "list", "table", "ip", "drops")); !strings.Contains(out, "packets 1 ") {
		t.Errorf("SYNs with the option: %s", out)
	}
}

// TestHostTCPPeerKilled kills the csig of the receiving host under four connections, which have to go on without tags.
func TestHostTCPPeerKilled(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	server := b.serve(b.h2, 5201) // before csig: servers that run already take part
	b.start(b.h1)
	b.start(b.h2)
	const conns = 4
	var list []net.Conn
	for range conns { // before any of them fills a queue
		list = append(list, b.dial(b.h1, "10.0.0.2:5201"))
	}
	for _, c := range list {
		send(c)
	}
	b.await(b.h1, "all connections have tags", func(s *tcp.Status) bool {
		return len(s.Flows) == conns && !slices.ContainsFunc(s.Flows, func(f tcp.Flow) bool { return f.State != tcp.FlowTagged || f.Peer != "h2" })
	})
	at2 := b.watch(b.h2)
	b.h2.kill()
	killed, before := time.Now(), server.got.Load()
	if !within(patience, func() bool { return server.got.Load() > before+20_000_000 }) {
		t.Fatalf("%d bytes arrived after the peer's csig was killed", server.got.Load()-before)
	}
	// What came with a tag after the kill is lost, until the connection has none: that is how long it stood still.
	first := map[uint16]time.Time{}
	for _, p := range at2() {
		if p.at.After(killed) && p.payload > 0 && !p.tag && first[p.sport].IsZero() {
			first[p.sport] = p.at
		}
	}
	for port, at := range first {
		stall := at.Sub(killed)
		t.Logf("connection from port %d: untagged again %v after the kill", port, stall)
		if stall > time.Second {
			t.Errorf("connection from port %d stood still for %v", port, stall)
		}
	}
	if len(first) != conns {
		t.Errorf("%d of %d connections have gone on", len(first), conns)
	}
	// It comes again, and has tags again.
	b.start(b.h2)
	c := b.dial(b.h1, "10.0.0.2:5201")
	send(c)
	b.await(b.h1, "a new connection has tags", func(s *tcp.Status) bool {
		return slices.ContainsFunc(s.Flows, func(f tcp.Flow) bool { return f.Local == c.LocalAddr().String() && f.State == tcp.FlowTagged })
	})
	// The sender's own csig is killed, and comes again: the peer still tags its ACKs for a moment.
	b.h1.kill()
	before = server.got.Load()
	if !within(patience, func() bool { return server.got.Load() > before+20_000_000 }) {
		t.Fatalf("%d bytes arrived after the sender's csig was killed", server.got.Load()-before)
	}
	b.start(b.h1)
	again := b.dial(b.h1, "10.0.0.2:5201")
	send(again)
	b.await(b.h1, "a connection after the restart has tags", func(s *tcp.Status) bool {
		return len(s.Flows) == 1 && s.Flows[0].Local == again.LocalAddr().String() && s.Flows[0].State == tcp.FlowTagged
	})
}

// TestHostTCPShare has one frame in eight carry a tag, and the option have a kind of the domain's own, by a csig with no
// capabilities but those of docs/operations.md.
func TestHostTCPShare(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.text = strings.ReplaceAll(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.0.0.0/24], tag: 1/8, option: 200}")
	for _, h := range []*tcpHost{b.h1, b.h2} {
		b.start(h, "setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+net_admin,+perfmon")
	}
	exits(t, 0, b.h1.node.Command("setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+net_admin,+perfmon", csig, "host", "check"))
	if out := exits(t, 1, b.h1.node.Command("setpriv", "--inh-caps=-all", "--bounding-set=-all,+bpf,+net_admin", csig, "host", "check")); !strings.Contains(out, "CAP_PERFMON") {
		t.Errorf("csig host check without a capability:\n%s", out)
	}
	b.serve(b.h2, 5201)
	at1, at2 := b.watch(b.h1), b.watch(b.h2)
	send(b.dial(b.h1, "10.0.0.2:5201"))
	s := b.await(b.h1, "enough frames have a tag", func(s *tcp.Status) bool { return len(s.Flows) == 1 && s.Flows[0].Tags > 50 })
	if len(s.Flows[0].Learned) != 2 {
		t.Errorf("%+v", s.Flows[0])
	}
	tagged, data, reflected := 0, 0, 0
	for _, p := range at2() {
		if p.payload > 0 {
			if data++; p.tag {
				tagged++
			}
		}
	}
	for _, p := range at1() {
		if p.csig != nil {
			t.Fatalf("an option of kind 253: %+v", p)
		}
		if len(p.own) == 2 && p.payload == 0 && p.flags == 0x10 {
			reflected++
		}
	}
	t.Logf("%d of %d segments have a tag; %d reflections", tagged, data, reflected)
	if tagged == 0 || tagged > data/4 || reflected == 0 {
		t.Errorf("%d of %d segments have a tag; %d reflections", tagged, data, reflected)
	}
}

// dropTags has the first switch drop what has a tag, until the test ends or the link is closed.
func (b *tcpBed) dropTags() (drops link.Link) {
	t := b.t
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 20, asm.Word), // __sk_buff.vlan_present
		asm.Mov.Imm(asm.R0, -1),                   // TCX_NEXT
		asm.JEq.Imm(asm.R2, 0, "end"),
		asm.Mov.Imm(asm.R0, 2), // TCX_DROP
		asm.Return().WithSymbol("end"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	return atEgress(t, b.s1, b.up.Index(), prog)
}

// atEgress has a program run at an interface of a node until the test ends or the link is closed.
func atEgress(t *testing.T, n *fabric.Node, index int, prog *ebpf.Program) (at link.Link) {
	t.Helper()
	if err := n.Do(func() (err error) {
		at, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: ebpf.AttachTCXEgress})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	return at
}

// TestHostTCPPathDropsTags has a switch drop what has a tag: the connection goes on without, and asks now and then.
func TestHostTCPPathDropsTags(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.dropTags()
	b.start(b.h1)
	b.start(b.h2)
	server := b.serve(b.h2, 5201)
	began := time.Now()
	c := b.dial(b.h1, "10.0.0.2:5201")
	send(c)
	const enough = 30_000_000
	if !within(patience, func() bool { return server.got.Load() > enough }) {
		t.Fatalf("%d bytes arrived", server.got.Load())
	}
	took := time.Since(began)
	s := b.await(b.h1, "the connection is there", func(s *tcp.Status) bool { return len(s.Flows) == 1 })
	t.Logf("%d bytes in %v, %.1f Mbit/s; %d tags", enough, took, 8*enough/took.Seconds()/1e6, s.Flows[0].Tags)
	if f := &s.Flows[0]; f.State != tcp.FlowProbing || f.AgeNS != nil || f.Tags < 1 || f.Tags > 2+uint64(took.Seconds()) || s.Counts.Tagged != s.Counts.Probes {
		t.Errorf("%+v, %+v", *f, s.Counts)
	}
}

// TestHostTCPOthers has connections with hosts that are not authorised be as they would be without csig.
func TestHostTCPOthers(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	exits(t, 0, b.h1.node.Command("ip", "address", "add", "10.0.0.3/24", "dev", "eth0"))
	exits(t, 0, b.h2.node.Command("ip", "neighbour", "add", "10.0.0.3", "lladdr", b.h1.nic.MAC.String(), "dev", "eth0", "nud", "permanent"))
	b.giveRoom()
	b.text = strings.Replace(b.text, "10.0.0.1, tcp: {to: [10.0.0.0/24]}", "10.0.0.1, tcp: {to: [10.0.0.0/24], ports: [5201, 6000-6001]}", 1)
	b.text = strings.Replace(b.text, "10.0.0.2, tcp: {to: [10.0.0.0/24]}", "10.0.0.2, tcp: {to: [10.0.0.1/32]}", 1)
	b.start(b.h1)
	b.start(b.h2)
	at1, at2 := b.watch(b.h1), b.watch(b.h2)
	b.serve(b.h2, 5201)
	b.serve(b.h2, 5202)
	one := b.dial(b.h1, "10.0.0.2:5201") // both ends list each other
	send(one)
	send(b.dial(b.h1, "10.0.0.2:5202")) // h1 does not list the port
	if err := b.h1.node.Do(func() error {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 3)}, Timeout: patience}).Dial("tcp", "10.0.0.2:5201") // h2 does not list this address
		if err == nil {
			t.Cleanup(func() { c.Close() })
			send(c)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.await(b.h1, "the one connection has tags", func(s *tcp.Status) bool { return len(s.Flows) == 1 && s.Flows[0].Tags > 100 })
	s := b.await(b.h2, "it has them at the server, too", func(s *tcp.Status) bool { return len(s.Flows) == 1 && s.Flows[0].Remote == one.LocalAddr().String() })
	if f := s.Flows[0]; f.Opened != "remote" || f.Peer != "h1" || len(f.Received) == 0 || f.Sent == 0 {
		t.Errorf("%+v", f)
	}
	if !within(patience, func() bool {
		return slices.ContainsFunc(at2(), func(p tcpPacket) bool { return p.dport == 5202 && p.payload > 0 }) && slices.ContainsFunc(at2(), func(p tcpPacket) bool { return p.src == "10.0.0.3" && p.payload > 0 })
	}) {
		t.Error("nothing came of the others")
	}
	for _, p := range at2() {
		switch {
		case p.dport == 5202 && (p.tag || p.csig != nil):
			t.Fatalf("to a port that is not listed: %+v", p)
		case p.src == "10.0.0.3" && (p.tag || p.csig != nil && p.flags&2 == 0):
			t.Fatalf("from a host that is not listed: %+v", p)
		}
	}
	for _, p := range at1() {
		if (p.sport == 5202 || p.dst == "10.0.0.3") && (p.tag || p.csig != nil) {
			t.Fatalf("to a host that is not listed: %+v", p)
		}
	}
}

// TestHostTCPIPv6 has connections of IPv6 carry tags.
func TestHostTCPIPv6(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.text = strings.NewReplacer("10.0.0.1,", `"fd00::1",`, "10.0.0.2,", `"fd00::2",`, "10.0.0.0/24", `"fd00::/64"`).Replace(b.text)
	for _, h := range []*tcpHost{b.h1, b.h2} {
		exits(t, 0, h.node.Command("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0"))
		h.address = "fd00::" + h.name[1:]
		exits(t, 0, h.node.Command("ip", "address", "add", h.address+"/64", "dev", "eth0", "nodad"))
	}
	exits(t, 0, b.h1.node.Command("ip", "neighbour", "add", "fd00::2", "lladdr", b.h2.nic.MAC.String(), "dev", "eth0", "nud", "permanent"))
	exits(t, 0, b.h2.node.Command("ip", "neighbour", "add", "fd00::1", "lladdr", b.h1.nic.MAC.String(), "dev", "eth0", "nud", "permanent"))
	for _, h := range []*tcpHost{b.h1, b.h2} { // what the refusal says to do is enough
		out := exits(t, 1, h.node.Command(csig, "host", "run", "-i", b.file(h), "--socket", b.socket(h)))
		_, line, _ := strings.Cut(out, "ip -6 ")
		line, _, found := strings.Cut(line, ";")
		if !found {
			t.Fatalf("the refusal has no command:\n%s", out)
		}
		exits(t, 0, h.node.Command("ip", append([]string{"-6"}, strings.Fields(line)...)...))
	}
	b.start(b.h1)
	b.start(b.h2)
	b.serve(b.h2, 5201)
	send(b.dial(b.h1, "[fd00::2]:5201"))
	b.await(b.h1, "the connection has tags", func(s *tcp.Status) bool {
		return len(s.Flows) == 1 && s.Flows[0].Remote == "[fd00::2]:5201" && s.Flows[0].Peer == "h2" && s.Flows[0].State == tcp.FlowTagged && len(s.Flows[0].Learned) == 2
	})
}

// TestHostTCPManyConnections opens and closes a thousand connections, of which nothing may be left.
func TestHostTCPManyConnections(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.start(b.h1)
	b.start(b.h2)
	b.serve(b.h2, 5201)
	const many = 1000
	for range many {
		c := b.dial(b.h1, "10.0.0.2:5201")
		if _, err := c.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for _, h := range []*tcpHost{b.h1, b.h2} {
		if s := b.await(h, "no connection is left", func(s *tcp.Status) bool { return len(s.Flows) == 0 }); s.Counts.Connections != many || s.Counts.Failed != 0 {
			t.Errorf("%s: %+v", h.name, s.Counts)
		}
	}
}

// TestHostTCPInterfaceComesBack removes the interface, and makes it again.
func TestHostTCPInterfaceComesBack(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.text = strings.Replace(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.9.0.0/24]}", 1)
	add := func() {
		exits(t, 0, b.h1.node.Command("ip", "link", "add", "extra", "mtu", "1504", "type", "veth", "peer", "name", "other"))
		exits(t, 0, b.h1.node.Command("ip", "link", "set", "dev", "extra", "up"))
		exits(t, 0, b.h1.node.Command("ip", "route", "add", "10.9.0.0/24", "dev", "extra", "mtu", "1500"))
	}
	add()
	file := b.file(b.h1)
	text := strings.Replace(string(readFile(t, file)), "interface: eth0", "interface: extra", 1)
	writeFile(t, file, []byte(text))
	b.h1.run = launchIn(t, b.h1.node.Command(csig, "host", "run", "-i", file, "--socket", b.socket(b.h1)), b.socket(b.h1))
	b.await(b.h1, "it runs", func(s *tcp.Status) bool { return s.Trouble == "" })
	exits(t, 0, b.h1.node.Command("ip", "link", "del", "extra"))
	b.await(b.h1, "the interface is missed", func(s *tcp.Status) bool { return s.Trouble != "" })
	add()
	b.await(b.h1, "it is back", func(s *tcp.Status) bool { return s.Trouble == "" })
	var index int
	if err := b.h1.node.Do(func() error {
		i, err := net.InterfaceByName("extra")
		if err == nil {
			index = i.Index
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if in, out, _ := programsAt(t, b.h1.node, index, "/sys/fs/cgroup/unified"); in != 1 || out != 1 {
		t.Errorf("%d programs at ingress, %d at egress", in, out)
	}
}

// TestHostTCPHostileOptions sends options that no csig sends, and lies, into a connection: they are counted, and it goes on.
func TestHostTCPHostileOptions(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.start(b.h1)
	b.start(b.h2)
	server := b.serve(b.h2, 5201)
	at1 := b.watch(b.h1)
	c := b.dial(b.h1, "10.0.0.2:5201")
	if _, err := c.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	var last *tcpPacket // an ACK, which is current while nothing is sent
	if !within(patience, func() bool {
		all := at1()
		i := slices.IndexFunc(all, func(p tcpPacket) bool { return p.sport == 5201 && p.flags == 0x10 && p.payload == 0 })
		if i >= 0 {
			last = &all[len(all)-1]
		}
		return i >= 0
	}) {
		t.Fatal("no ACK came")
	}
	before := b.await(b.h1, "it knows the connection", func(s *tcp.Status) bool { return len(s.Flows) == 1 })
	var out *packets.Socket
	if err := b.h2.node.Do(func() (err error) {
		out, err = packets.OpenSender(b.h2.nic.Index())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, o := range []struct {
		option string
		bad    bool
	}{
		{"\xfd\x06\xc5\x16\xef\xfe", true},                         // T 7
		{"\xfd\x06\xc5\x16\x5f\xfe", true},                         // T 2, which the profile has not
		{"\xfd\x05\xc5\x16\x00\x01", true},                         // a byte short
		{"\xfd\x0a\xc5\x16\x1f\x7e\x1f\x7e\x1f\x7e\x01\x01", true}, // too long
		{"\xfd\x06\xc5\x17\x1f\x7e", false},                        // another experiment's
		{"\xfd\x04\xc5\x16\x01\x01", false},                        // as in a SYN
		{"\xfd\x06\xc5\x16\x00\x00", false},                        // S 0 of locator 0: a lie, which is only shown
		{"\xfd\x06\xc5\x16\x2f\xff", false},                        // S 31 of no locator that may be
	} {
		frame := forge(last.frame, o.option)
		malformed := before.Counts.Malformed
		if err := out.Send(frame); err != nil {
			t.Fatal(err)
		}
		if o.bad {
			before = b.await(b.h1, fmt.Sprintf("%q is counted", o.option), func(s *tcp.Status) bool { return s.Counts.Malformed == malformed+1 })
		}
	}
	s := b.await(b.h1, "the lies are there", func(s *tcp.Status) bool {
		return s.Counts.Received >= before.Counts.Received+2 && len(s.Flows) == 1 && len(s.Flows[0].Learned) > 0
	})
	if s.Counts.Malformed != before.Counts.Malformed {
		t.Errorf("malformed: %d, want %d", s.Counts.Malformed, before.Counts.Malformed)
	}
	got := server.got.Load()
	if _, err := c.Write(make([]byte, 1_000_000)); err != nil {
		t.Fatal(err)
	}
	if !within(patience, func() bool { return server.got.Load() == got+1_000_000 }) {
		t.Error("the connection does not go on")
	}
}

// forge has an ACK without a tag carry an option, and nothing else, with its checksums right.
func forge(frame []byte, option string) []byte {
	if binary.BigEndian.Uint16(frame[12:]) == 0x88a8 {
		frame = slices.Concat(frame[:12], frame[16:])
	}
	for len(option)%4 != 0 {
		option += "\x01"
	}
	old := frame[14+20 : 14+40]
	// With timestamps the kernel drops what has none: they stay.
	stamps := ""
	if o := frame[14+40:]; frame[14+20+12]>>4 >= 8 {
		i := strings.Index(string(o), "\x08\x0a")
		stamps = "\x01\x01" + string(o[i:i+10])
	}
	head := slices.Concat(frame[:14+20], old, []byte(stamps), []byte(option))
	ip, seg := head[14:34], head[34:]
	binary.BigEndian.PutUint16(ip[2:], uint16(len(head)-14))
	seg[12] = byte(len(seg)/4) << 4
	put := func(at []byte, parts ...[]byte) {
		at[0], at[1] = 0, 0
		sum := uint32(0)
		for _, p := range parts {
			for i := 0; i < len(p); i += 2 {
				sum += uint32(binary.BigEndian.Uint16(p[i:]))
			}
		}
		for sum>>16 != 0 {
			sum = sum&0xffff + sum>>16
		}
		binary.BigEndian.PutUint16(at, ^uint16(sum))
	}
	put(ip[10:12], ip)
	put(seg[16:18], ip[12:20], []byte{0, 6, byte(len(seg) >> 8), byte(len(seg))}, seg)
	return head
}

// pairs is how often what is compared is measured, in turns: once, by which gross faults are seen alone, or CSIG_PAIRS times.
// Medians of five and more are judged by what is promised.
func pairs(t *testing.T) (n int, judged bool) {
	t.Helper()
	text := os.Getenv("CSIG_PAIRS")
	if text == "" {
		return 1, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("CSIG_PAIRS=%s is no number", text)
	}
	return n, n >= 5
}

// goodputCase is something that a connection meets: what happens before it is opened, and while it sends.
type goodputCase struct {
	name           string
	before, during func()
}

// compareGoodput compares what a connection gets in several cases with what it gets without csig, in turns. All are
// under cubic at first, whose queue is the cable's. None may stand still for longer than a second, where pairs are judged.
func (b *tcpBed) compareGoodput(server *sink, cases []goodputCase, after func()) {
	t := b.t
	t.Helper()
	rounds, judged := pairs(t)
	longest, least, over := 5*time.Second, 0.4, 2*time.Second
	if judged {
		longest, least, over = time.Second, 0.9, 4*time.Second
	}
	run := func(before, during func()) (float64, time.Duration) {
		before()
		c := b.dialUnder(b.h1, "10.0.0.2:5201", "cubic")
		defer c.Close()
		send(c)
		stalls, measured := make(chan time.Duration), make(chan struct{})
		go func() {
			var stall time.Duration
			for last, moved := server.got.Load(), time.Now(); ; time.Sleep(10 * time.Millisecond) {
				if got := server.got.Load(); got != last {
					last, moved = got, time.Now()
				}
				stall = max(stall, time.Since(moved))
				select {
				case <-measured:
					stalls <- stall
					return
				default:
				}
			}
		}()
		during()
		rate := rates([]*sink{server}, over)[0]
		close(measured)
		return rate / 1e6, <-stalls
	}
	nothing := func() {}
	ratios := make([][]float64, len(cases))
	for range rounds {
		for i, c := range cases {
			without, _ := run(nothing, nothing)
			with, stall := run(c.before, c.during)
			after()
			for _, h := range []*tcpHost{b.h1, b.h2} {
				if h.run != nil {
					h.kill()
				}
				h.run = nil
			}
			ratios[i] = append(ratios[i], with/without)
			t.Logf("%s: %.1f Mbit/s, without csig %.1f; stands still for %v at most", c.name, with, without, stall)
			if stall > longest {
				t.Errorf("%s: the connection stood still for %v", c.name, stall)
			}
		}
	}
	for i, c := range cases {
		m := median(ratios[i])
		t.Logf("%s: %.3f of what it is without csig (%.3f)", c.name, m, ratios[i])
		if m < least {
			t.Errorf("%s: %.3f of what it is without csig", c.name, m)
		}
	}
}

// TestLongHostTCPGoodput compares what a connection gets with csig on both hosts, with a path that drops tags, and with a
// peer whose csig was killed, with what it gets without csig.
func TestLongHostTCPGoodput(t *testing.T) {
	b := newTCPBed(t)
	b.giveRoom()
	server := b.serve(b.h2, 5201)
	both := func() { b.start(b.h1); b.start(b.h2) }
	nothing := func() {}
	var drops link.Link
	b.compareGoodput(server, []goodputCase{
		{"tags", both, nothing},
		{"the path drops tags", func() { both(); drops = b.dropTags() }, nothing},
		{"the peer's csig is killed", both, func() {
			b.await(b.h1, "the connection has tags", func(s *tcp.Status) bool { return len(s.Flows) == 1 && s.Flows[0].State == tcp.FlowTagged })
			b.h2.kill()
			b.h2.run = nil
		}},
	}, func() {
		if drops != nil {
			drops.Close()
			drops = nil
		}
	})
}
