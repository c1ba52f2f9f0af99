package ofp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api/tlstest"
)

const soon = time.Minute

// peer is a switch of OpenFlow 1.3 that answers what every one has to, and leaves the
// rest to a test.
type peer struct {
	id   uint64
	hook func(p *peer, typ byte, xid uint32, body []byte) bool // true: it has dealt with it

	c   net.Conn
	out sync.Mutex
	got []byte // types of the messages that came
}

func (p *peer) send(typ byte, xid uint32, body ...byte) bool {
	p.out.Lock()
	defer p.out.Unlock()
	_, err := p.c.Write(message(byte(Version13), typ, xid, body...))
	return err == nil
}

func (p *peer) refuse(xid uint32, typ, code byte) bool {
	return p.send(typeError, xid, 0, typ, 0, code)
}

// serve answers on a connection until that ends.
func (p *peer) serve(c net.Conn) {
	defer c.Close()
	p.c = c
	p.send(typeHello, 1)
	for {
		head := make([]byte, headerLen)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		body := make([]byte, int(order.Uint16(head[2:]))-headerLen)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		typ, xid := head[1], order.Uint32(head[4:])
		p.out.Lock()
		p.got = append(p.got, typ)
		p.out.Unlock()
		if p.hook != nil && p.hook(p, typ, xid, body) {
			continue
		}
		switch typ {
		case typeFeaturesReq:
			p.send(typeFeaturesRep, xid, append(order.AppendUint64(nil, p.id), make([]byte, 16)...)...)
		case typeRoleReq:
			p.send(typeRoleRep, xid, body...)
		case typeEchoRequest:
			p.send(typeEchoReply, xid, body...)
		case typeBarrierReq:
			p.send(typeBarrierRep, xid)
		}
	}
}

// dials has the peer dial an address, and serve in the background until the test ends,
// or until csig closes the connection.
func (p *peer) dials(t *testing.T, n Network, to net.Addr) (closed <-chan struct{}) {
	t.Helper()
	c := dialed(t, n, to.String())
	served := make(chan struct{})
	go func() { defer close(served); p.serve(c) }()
	t.Cleanup(func() { c.Close(); <-served })
	return served
}

// listening serves connections with a function each, and returns where.
func (n *network) listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// open opens a session of the network.
func (n *network) open(t *testing.T, cfg Config) *Session {
	t.Helper()
	cfg.Net = n
	return open(t, cfg)
}

func open(t *testing.T, cfg Config) *Session {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func await(t *testing.T, s *Session) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for {
		c, err := s.Conn(ctx)
		if err == nil {
			return c
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// missing is the error of a session without a connection.
func missing(t *testing.T, s *Session, patience time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if c, err := s.Conn(ctx); err == nil {
		t.Fatalf("datapath %#x is connected", c.Datapath.ID)
		return ""
	} else {
		return err.Error()
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(soon); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(what)
		}
	}
}

// bubble runs a test on virtual time, with a network.
func bubble(t *testing.T, test func(t *testing.T, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newNetwork()) })
}

// run is bubble for a part of a test.
func run(t *testing.T, name string, test func(t *testing.T, n *network)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

// TestListen has switches dial one address: each session gets its own, and others are
// refused by name.
func TestListen(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		const at = "127.0.0.1:0"
		one, two := n.open(t, Config{Listen: at, Plain: true, From: "127.0.0.1", Datapath: 1}), n.open(t, Config{Listen: at, Plain: true, From: "127.0.0.1", Datapath: 2})
		three, shared := n.open(t, Config{Listen: at, Plain: true, From: "127.0.0.1", Datapath: 3}), n.open(t, Config{Listen: at, Plain: true, From: "127.0.0.1", Datapath: 1})
		first := &peer{id: 1}
		first.dials(t, n, one.Addr())
		(&peer{id: 2}).dials(t, n, one.Addr())
		noted := make(chan string, 16)
		two.NoteRefusals(func(what string) { noted <- what })
		stranger := (&peer{id: 0xbad}).dials(t, n, one.Addr())
		a, b := await(t, one), await(t, two)
		if a.Datapath.ID != 1 || b.Datapath.ID != 2 || a.Epoch != 1 || await(t, shared) != a || a.Version != Version13 {
			t.Errorf("%+v, %+v", a.Datapath, b.Datapath)
		}
		first.out.Lock()
		if !slices.Contains(first.got, typeSetAsync) || slices.Contains(first.got, typeRoleReq) { // nothing is changed yet
			t.Errorf("it was sent %v", first.got)
		}
		first.out.Unlock()
		<-stranger
		const unknown = "127.0.0.1: datapath 0x0000000000000bad is no device"
		if what := <-noted; !strings.Contains(what, "connection to 127.0.0.1:0 refused: "+unknown) {
			t.Error(what)
		}
		if text := missing(t, three, time.Millisecond); !strings.Contains(text, "no switch with datapath ID 0x0000000000000003") || !strings.Contains(text, unknown) {
			t.Error(text)
		}
		if _, err := Open(Config{Net: n, Listen: at, Plain: true, From: "127.0.0.1", Datapath: 1, Role: RoleMaster}); err == nil || !strings.Contains(err.Error(), "another configuration") {
			t.Errorf("another role: %v", err)
		}
		<-(&peer{id: 1}).dials(t, n, one.Addr())
		if what := <-noted; !strings.Contains(what, "is connected already") {
			t.Error(what)
		}
		if await(t, one) != a {
			t.Error("a rival took the connection of a switch that lives")
		}
		where := one.Addr().String()
		one.Close()
		one.Close()
		if await(t, shared) != a {
			t.Error("the connection ended with the first of two that share it")
		}
		if _, err := one.Conn(t.Context()); err == nil && isClosed(one.l.closed) {
			t.Error("a closed session")
		}
		for _, s := range []*Session{shared, two, three} {
			s.Close()
		}
		if _, err := shared.Conn(t.Context()); !errors.Is(err, errSessionClosed) {
			t.Errorf("closed: %v", err)
		}
		<-a.Done()
		if l, err := n.Listen("tcp", where); err != nil {
			t.Errorf("the address is still taken: %v", err)
		} else {
			l.Close()
		}
	})
}

// TestStrangeHost: without TLS a host with another address than the switch's is not the switch,
// whatever datapath ID it has, and takes its place neither while the switch is away nor while it hangs.
func TestStrangeHost(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		s := n.open(t, Config{Listen: "127.0.0.1:0", Plain: true, From: "192.0.2.7", Datapath: 1})
		noted := make(chan string, 1)
		s.NoteRefusals(func(what string) { noted <- what })
		<-(&peer{id: 1}).dials(t, n, s.Addr()) // csig closes the connection
		const want = "datapath 0x0000000000000001 comes from 127.0.0.1, and the address of its device is 192.0.2.7: "
		if what := <-noted; !strings.Contains(what, want) || !strings.Contains(what, "tls: …") {
			t.Error(what)
		}
		if text := missing(t, s, time.Millisecond); !strings.Contains(text, want) {
			t.Error(text)
		}
	})
}

// TestComesFrom compares addresses of connections with those of switches.
func TestComesFrom(t *testing.T) {
	for _, tc := range []struct {
		from, remote string
		fails        string
	}{
		{"192.0.2.7", "192.0.2.7", ""},
		{"192.0.2.7", "::ffff:192.0.2.7", ""},
		{"::ffff:192.0.2.7", "192.0.2.7", ""},
		{"2001:db8::7", "2001:db8:0::7", ""},
		{"fe80::7", "fe80::7%eth0", ""},
		{"127.0.0.1", "::1", ""},
		{"localhost", "127.0.0.1", ""},
		{"192.0.2.7", "192.0.2.70", "comes from 192.0.2.70, and the address of its device is 192.0.2.7"},
		{"192.0.2.7", "127.0.0.1", "comes from 127.0.0.1"},
		{"2001:db8::7", "2001:db8::8", "comes from 2001:db8::8"},
		{"no-such-switch.invalid", "192.0.2.7", "its device's name no-such-switch.invalid has is not known"},
	} {
		ap := netip.MustParseAddr(tc.remote)
		err := (&Config{From: tc.from}).comesFrom(net.TCPAddrFromAddrPort(netip.AddrPortFrom(ap, 1)))
		if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%s from %s: %v, want %q", tc.from, tc.remote, err, tc.fails)
		}
	}
	if (&Config{From: "192.0.2.7"}).comesFrom(&net.UnixAddr{}) == nil {
		t.Error("a connection without an address is the switch's")
	}
}

// TestSilentHost: one host that connects and says nothing, as often as it can, keeps out no other.
func TestSilentHost(t *testing.T) {
	s := open(t, Config{Listen: "127.0.0.1:0", Plain: true, From: "127.0.0.1", Datapath: 1})
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range maxHandshakes {
		c, err := other.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	until(t, "none of its connections is refused", func() bool { return strings.Contains(s.l.listener.refusals(), "others of this host") })
	(&peer{id: 1}).dials(t, machine{}, s.Addr())
	await(t, s)
	s.l.listener.mu.Lock()
	defer s.l.listener.mu.Unlock()
	if n := s.l.listener.hosts["127.0.0.2"]; n != maxOfHost {
		t.Errorf("%d connections of the other host wait", n)
	}
}

// TestNotesAreFew: a refusal that repeats is noted once, and of many few a minute are.
func TestNotesAreFew(t *testing.T) {
	s := open(t, Config{Listen: "127.0.0.1:0", Plain: true, From: "127.0.0.1", Datapath: 1})
	var got []string
	s.NoteRefusals(func(what string) { got = append(got, what) })
	c, other := net.Pipe()
	defer c.Close()
	defer other.Close()
	ln := s.l.listener
	for i := range 10 {
		for range 3 {
			ln.refuse(c, fmt.Errorf("reason %d\x1b", i))
		}
	}
	if len(got) != maxRefusals || !strings.Contains(got[0], "reason 0") || strings.Contains(got[0], "\x1b") {
		t.Errorf("%q", got)
	}
	ln.began = ln.began.Add(-noteEvery)
	ln.refuse(c, errors.New("later"))
	if len(got) != maxRefusals+1 || !strings.HasSuffix(got[maxRefusals], "later (and 6 others before)") {
		t.Errorf("%q", got)
	}
}

// TestLinger: a switch that dials between two calls finds csig listening, and the next
// call finds it connected; what only lingers gives way.
func TestLinger(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		cfg := Config{Listen: "127.0.0.1:0", Plain: true, From: "127.0.0.1", Datapath: 1, Linger: time.Hour}
		s := n.open(t, cfg)
		where := s.Addr()
		if text := missing(t, s, time.Millisecond); !strings.Contains(text, "has connected to 127.0.0.1:0 since "+time.Now().UTC().Format("2006-")) || !strings.Contains(text, "controller address") {
			t.Error(text)
		}
		s.Close()
		(&peer{id: 1}).dials(t, n, where)
		s = n.open(t, cfg)
		first := await(t, s)
		s.Close()
		s = n.open(t, cfg)
		if c, err := s.Conn(t.Context()); c != first {
			t.Errorf("another connection: %v", err)
		}
		s.Close()
		cfg.Role = RoleMaster
		s = n.open(t, cfg)
		<-first.Done()
		if _, err := Open(Config{Net: n, Listen: cfg.Listen, Plain: true, From: "127.0.0.1", Datapath: 1}); err == nil {
			t.Error("another configuration of one that is in use")
		}
		s.Close()
		cfg.Linger = time.Millisecond
		s = n.open(t, cfg) // ends the other one
		where = s.Addr()
		s.Close()
		until(t, "the address stays taken", func() bool {
			l, err := n.Listen("tcp", where.String())
			if err == nil {
				l.Close()
			}
			return err == nil
		})
	})
}

// TestReplaced has a switch come back whose connection was lost without notice: the one
// that does not answer is replaced.
func TestReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		s := n.open(t, Config{Listen: "127.0.0.1:0", Plain: true, From: "127.0.0.1", Datapath: 1})
		deaf := false
		var mu sync.Mutex
		(&peer{id: 1, hook: func(_ *peer, typ byte, _ uint32, _ []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			return deaf
		}}).dials(t, n, s.Addr())
		old := await(t, s)
		mu.Lock()
		deaf = true
		mu.Unlock()
		(&peer{id: 1}).dials(t, n, s.Addr())
		until(t, "it is not replaced", func() bool { return await(t, s) != old })
		c := await(t, s)
		if c.Epoch != 2 || old.Err() == nil {
			t.Errorf("epoch %d, %v", c.Epoch, old.Err())
		}
		for range 50 { // while what kept the old one ends
			if err := c.Echo(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestConnect has a switch dialed that goes, comes back, is silent, and is another one.
func TestConnect(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		conns := make(chan net.Conn, 16)
		at := n.listening(t, func(c net.Conn) { conns <- c; (&peer{id: 7}).serve(c) })
		s := n.open(t, Config{Connect: at, Plain: true})
		for epoch := uint64(1); epoch <= 3; epoch++ {
			c := await(t, s)
			if c.Epoch != epoch || c.Datapath.ID != 7 {
				t.Errorf("epoch %d, want %d", c.Epoch, epoch)
			}
			(<-conns).Close()
			<-c.Done()
			if err := c.Barrier(t.Context()); err == nil || !strings.Contains(err.Error(), "broke") {
				t.Errorf("a connection that was lost: %v", err)
			}
		}
		other := n.open(t, Config{Connect: at, Plain: true, Datapath: 8})
		if text := missing(t, other, soon); !strings.Contains(text, "it is datapath 0x0000000000000007, and not 0x0000000000000008") {
			t.Error(text)
		}
		if text := missing(t, n.open(t, Config{Connect: "127.0.0.1:1", Plain: true}), soon); !strings.Contains(text, "refused") {
			t.Error(text)
		}
	})
}

// TestDropped: a switch that takes connections and drops them is dialed less and less often.
func TestDropped(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		dialed := make(chan net.Conn, 64)
		at := n.listening(t, func(c net.Conn) {
			dialed <- c
			(&peer{id: 7}).serve(c)
		})
		s := n.open(t, Config{Connect: at, Plain: true})
		var lost, again time.Time
		for n := range 4 {
			conn := await(t, s)
			again = time.Now()
			if n == 3 {
				break
			}
			c := <-dialed
			lost = time.Now()
			c.Close()
			<-conn.Done()
		}
		if paused := again.Sub(lost); paused < 2*firstPause {
			t.Errorf("after 3 connections that did not last it pauses for %v", paused)
		}
	})
}

// TestSilence has switches that take the connection and answer nothing, from the start
// and from some time on.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		const patience = 150 * time.Millisecond
		at := n.listening(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		if text := missing(t, n.open(t, Config{Connect: at, Plain: true, Patience: patience}), soon); !strings.Contains(text, "no answer for 150ms") {
			t.Error(text)
		}
		at = n.listening(t, func(c net.Conn) {
			(&peer{id: 1, hook: func(_ *peer, typ byte, _ uint32, _ []byte) bool { return typ == typeEchoRequest }}).serve(c)
		})
		c := await(t, n.open(t, Config{Connect: at, Plain: true, Patience: patience}))
		if time.Sleep(3 * patience); c.Err() == nil {
			t.Fatal("a switch that answers no echo stays connected")
		}
		if err := c.Err(); !strings.Contains(err.Error(), "no answer for 150ms") {
			t.Error(err)
		}
		// Those that dial and say nothing keep no other switch out.
		s := n.open(t, Config{Listen: "127.0.0.1:0", Plain: true, From: "127.0.0.1", Datapath: 1})
		for range 20 {
			defer dialed(t, n, s.Addr().String()).Close()
		}
		(&peer{id: 1}).dials(t, n, s.Addr())
		await(t, s)
	})
}

// TestRoles has roles requested from a switch that gives them, that gives another one,
// and whose generation others raise.
func TestRoles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		role   Role
		newest uint64 // generation that the switch knows; all ones: none
		raised int    // times that another controller is faster
		gives  Role   // 0: what is requested
		want   uint64 // generation
		fails  string
	}{
		{"equal", 0, math.MaxUint64, 0, 0, 0, ""},
		{"master, the first", RoleMaster, math.MaxUint64, 0, 0, 0, ""},
		{"master, the next", RoleMaster, 41, 0, 0, 42, ""},
		{"master, when others are faster", RoleMaster, 41, 2, 0, 44, ""},
		{"master, when others are always faster", RoleMaster, 41, 100, 0, 0, "another controller has chosen a newer generation"},
		{"slave", RoleSlave, 7, 0, 0, 8, ""},
		{"another one is given", RoleMaster, 7, 0, RoleSlave, 8, "role MASTER was requested, and the switch answers SLAVE"},
	} {
		run(t, tc.name, func(t *testing.T, n *network) {
			var mu sync.Mutex
			newest, raised, got := tc.newest, tc.raised, uint64(0)
			at := n.listening(t, func(c net.Conn) {
				(&peer{id: 1, hook: func(p *peer, typ byte, xid uint32, body []byte) bool {
					if typ != typeRoleReq {
						return false
					}
					mu.Lock()
					defer mu.Unlock()
					role, generation := Role(order.Uint32(body)), order.Uint64(body[8:])
					switch {
					case role == roleAsk:
						return p.send(typeRoleRep, xid, order.AppendUint64([]byte{0, 0, 0, 1, 0, 0, 0, 0}, newest)...)
					case raised > 0 && role != RoleEqual:
						raised--
						newest++
						return p.refuse(xid, errRoleRequest, roleStale)
					}
					got = generation
					if tc.gives != 0 {
						role = tc.gives
					}
					return p.send(typeRoleRep, xid, order.AppendUint64([]byte{0, 0, 0, byte(role), 0, 0, 0, 0}, generation)...)
				}}).serve(c)
			})
			o := await(t, n.open(t, Config{Connect: at, Plain: true, Role: tc.role}))
			f := Flow{}
			for range 2 {
				_, err := o.Apply(t.Context(), []Mod{{Kind: Add, Flow: &f}})
				if (err != nil) != (tc.fails != "") || err != nil && (!strings.Contains(err.Error(), tc.fails) || isRefusal(err)) {
					t.Errorf("%v", err)
				}
			}
			if tc.fails != "" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if got != tc.want {
				t.Errorf("generation %d, want %d", got, tc.want)
			}
		})
	}
}

// TestNotMasked has a switch that cannot mask what it sends by itself: that is dropped.
func TestNotMasked(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		const packetIn = 10
		at := n.listening(t, func(c net.Conn) {
			(&peer{id: 1, hook: func(p *peer, typ byte, xid uint32, body []byte) bool {
				if typ == typeEchoRequest {
					p.send(packetIn, 0, make([]byte, 100)...)
				}
				if typ == typeSetAsync && (len(body) != 24 || slices.Max(body) != 0) {
					t.Errorf("masks: %x", body)
				}
				return typ == typeSetAsync && p.refuse(xid, errBadRequest, 1)
			}}).serve(c)
		})
		c := await(t, n.open(t, Config{Connect: at, Plain: true}))
		if c.AsyncRefused == nil || !strings.Contains(c.AsyncRefused.Error(), "OFPBRC_BAD_TYPE") {
			t.Errorf("%v", c.AsyncRefused)
		}
		if err := c.Echo(t.Context()); err != nil {
			t.Error(err)
		}
		if late := c.LateErrors(); late != nil {
			t.Errorf("%v", late)
		}
	})
}

// TestConfigs are configurations that are refused.
func TestConfigs(t *testing.T) {
	a := tlstest.New(t)
	cert, key := a.Certify("csig")
	files := TLS{CA: a.CA, Cert: cert, Key: key}
	named := files
	named.Peer = "switch"
	for want, cfg := range map[string]Config{
		"either the switch dials":         {Plain: true},
		"or csig the switch":              {Plain: true, Listen: "127.0.0.1:0", Connect: "127.0.0.1:1", Datapath: 1},
		"the datapath ID":                 {Plain: true, Listen: "127.0.0.1:0"},
		"plain TCP, which has to be":      {Connect: "127.0.0.1:1"},
		"either TLS":                      {Connect: "127.0.0.1:1", Plain: true, TLS: files},
		"which certificate is the":        {Listen: "127.0.0.1:0", Datapath: 1, TLS: files},
		"give the device's address":       {Listen: "127.0.0.1:0", Datapath: 1, Plain: true},
		"there is no role 4":              {Connect: "127.0.0.1:1", Plain: true, Role: 4},
		"csig's certificate":              {Connect: "127.0.0.1:1", TLS: TLS{CA: a.CA, Cert: cert, Key: a.CA}},
		"the switches' authority":         {Connect: "127.0.0.1:1", TLS: TLS{CA: "/nowhere", Cert: cert, Key: key}},
		"has no certificate (PEM)":        {Connect: "127.0.0.1:1", TLS: TLS{CA: key, Cert: cert, Key: key}},
		"address 127.0.0.1: missing port": {Listen: "127.0.0.1", Datapath: 1, Plain: true, From: "127.0.0.1"},
	} {
		if s, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, s, err)
		}
	}
}
