package integration

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/vendors/linux/packets"
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
	h1, h2 *tcpHost
	s1, s2 *fabric.Node
	up     *fabric.Port // of s1, to s2
	load   *fabric.Load
}

type tcpHost struct {
	name, address string
	node          *fabric.Node
	nic           *fabric.Port
	run           *agent // its csig host run; only its log and process
}

// tcpSpeed is that of the cable between the switches.
const tcpSpeed = 100_000_000

func newTCPBed(t *testing.T) *tcpBed {
	t.Helper()
	b := &tcpBed{Fabric: newFabric(t), t: t, dir: t.TempDir()}
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
	b.h2.nic, to2 = cable(b.h2.node, "eth0", b.s2, "host")
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
	return b
}

// startSwitches has both switches drive themselves.
func (b *tcpBed) startSwitches() {
	b.t.Helper()
	for _, n := range []*fabric.Node{b.s1, b.s2} {
		file, socket := filepath.Join(b.dir, n.Name()+".yaml"), filepath.Join(b.dir, n.Name()+".sock")
		writeFile(b.t, file, []byte(strings.Replace(b.text, "name: "+n.Name()+"\n", "name: "+n.Name()+"\n    local: true\n", 1)))
		launchIn(b.t, n.Command(csig, "agent", "-i", file, "--socket", socket), socket).await(n.Name()+"'s ports are live", func(s *api.Status) bool {
			return !slices.ContainsFunc(s.Ports, func(p api.Port) bool { return p.State != api.StateLive })
		})
	}
}

// file is a host's fleet file.
func (b *tcpBed) file(h *tcpHost) string {
	b.t.Helper()
	file := filepath.Join(b.dir, h.name+".yaml")
	writeFile(b.t, file, []byte(strings.Replace(b.text, "{name: "+h.name+",", "{name: "+h.name+", local: true, interface: eth0,", 1)))
	return file
}

func (b *tcpBed) socket(h *tcpHost) string { return filepath.Join(b.dir, h.name+".sock") }

// giveRoom has packets leave a tag's 4 bytes of the MTU.
func (b *tcpBed) giveRoom() {
	for _, h := range []*tcpHost{b.h1, b.h2} {
		exits(b.t, 0, h.node.Command("ip", "route", "replace", "10.0.0.0/24", "dev", "eth0", "proto", "kernel", "scope", "link", "src", h.address, "mtu", "1500"))
	}
}

// start has a host's connections have tags.
func (b *tcpBed) start(h *tcpHost) {
	b.t.Helper()
	h.run = launchIn(b.t, h.node.Command(csig, "host", "run", "-i", b.file(h), "--socket", b.socket(h)), b.socket(h))
	b.await(h, "csig host run answers", func(*tcp.Status) bool { return true })
}

// kill ends a host's csig at once, and waits until it is gone.
func (h *tcpHost) kill() {
	_ = h.run.cmd.Process.Signal(syscall.SIGKILL)
	<-h.run.ended
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
	got  atomic.Int64
	mu   sync.Mutex
	last []time.Duration // the longest pause of each connection
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
				buf, last, longest := make([]byte, 64<<10), time.Now(), time.Duration(0)
				for {
					n, err := c.Read(buf)
					now := time.Now()
					longest, last = max(longest, now.Sub(last)), now
					s.got.Add(int64(n))
					if err != nil {
						s.mu.Lock()
						s.last = append(s.last, longest)
						s.mu.Unlock()
						return
					}
				}
			}()
		}
	}()
	return s
}

// dial connects from a host.
func (b *tcpBed) dial(h *tcpHost, to string) net.Conn {
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
	csig     []byte // the option behind kind and length, nil where there is none
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
		}
		o = o[o[1]:]
	}
	return p, true
}

// watch collects the TCP packets that arrive at a host.
func (b *tcpBed) watch(h *tcpHost) (seen func() []tcpPacket) {
	b.t.Helper()
	var s *packets.Socket
	if err := h.node.Do(func() (err error) {
		s, err = packets.Open(h.nic.Index(), nil)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	var mu sync.Mutex
	var all []tcpPacket
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			f, _, err := s.Receive()
			if err != nil {
				return
			}
			if p, ok := decode(f); ok {
				mu.Lock()
				all = append(all, p)
				mu.Unlock()
			}
		}
	}()
	b.t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return func() []tcpPacket {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
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
	b.judge(at1(), at2())
	t.Logf("%s", text)
	_ = io.EOF
}

// judge looks at the packets of the connection that h1 opened.
func (b *tcpBed) judge(at1, at2 []tcpPacket) {
	b.t.Helper()
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
	if syn == 0 || tagged < 9*untagged || reflected*10 < pure*9 {
		b.t.Errorf("too little has tags, or is reflected")
	}
}
