package memnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Queue is how many bytes of datagrams wait for a socket until more are dropped, each with
// the overhead that Linux counts for it.
const (
	Queue    = 208 << 10
	overhead = 768
)

// Packets is a network of datagrams. Its zero value delivers all of them at once.
type Packets struct {
	// Path, if it is set, says how long a datagram takes, and whether it is lost. It is called
	// for one datagram at a time.
	Path func(from, to netip.AddrPort, datagram []byte) (delay time.Duration, lost bool)

	mu      sync.Mutex
	sockets map[netip.AddrPort]*Socket
	port    uint16
}

// Socket has one address of a network. It is a net.PacketConn, and where it is connected a net.Conn.
type Socket struct {
	net       *Packets
	addr      netip.AddrPort
	connected netip.AddrPort

	// Guarded by mu, which is never held together with that of net.
	mu              sync.Mutex
	changed         *sync.Cond
	queue           []datagram // in the order of their arrival
	bytes           int
	refused, closed bool
	deadline        time.Time
	wake            *time.Timer
}

type datagram struct {
	at   time.Time
	from netip.AddrPort
	data []byte
}

// Listen returns a socket with this address, an IP address and port; port 0 is a free one.
func (n *Packets) Listen(addr string) (*Socket, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Err: err}
	}
	return n.open("listen", at, netip.AddrPort{})
}

// Dial returns a socket that exchanges datagrams with this address alone.
func (n *Packets) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return n.open("dial", netip.AddrPortFrom(to.Addr(), 0), to)
}

func (n *Packets) open(op string, at, connected netip.AddrPort) (*Socket, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at.Port() == 0 {
		n.port++
		if free := netip.AddrPortFrom(at.Addr(), 32768+n.port%28232); n.sockets[free] == nil {
			at = free
		}
	}
	if n.sockets[at] != nil {
		return nil, &net.OpError{Op: op, Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	s := &Socket{net: n, addr: at, connected: connected}
	s.changed = sync.NewCond(&s.mu)
	if n.sockets == nil {
		n.sockets = map[netip.AddrPort]*Socket{}
	}
	n.sockets[at] = s
	return s, nil
}

// find returns the socket that a datagram arrives at, nil where none has its address, and when.
func (n *Packets) find(from, to netip.AddrPort, p []byte) (s *Socket, at time.Time, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at = time.Now()
	if n.Path != nil {
		var delay time.Duration
		if delay, lost = n.Path(from, to, p); delay > 0 {
			at = at.Add(delay)
		}
	}
	return n.sockets[to], at, lost
}

func (s *Socket) send(to netip.AddrPort, p []byte) (int, error) {
	s.mu.Lock()
	refused, closed := s.refused, s.closed
	s.refused = false
	s.mu.Unlock()
	switch {
	case closed:
		return 0, s.fail("write", to, net.ErrClosed)
	case refused:
		return 0, s.fail("write", to, os.NewSyscallError("write", syscall.ECONNREFUSED))
	case len(p) > 65507:
		return 0, s.fail("write", to, os.NewSyscallError("write", syscall.EMSGSIZE))
	}
	peer, at, lost := s.net.find(s.addr, to, p)
	switch {
	case lost:
	case peer != nil:
		peer.arrive(datagram{at, s.addr, append([]byte(nil), p...)})
	case s.connected.IsValid(): // ICMP comes back
		s.change(func() { s.refused = true })
	}
	return len(p), nil
}

func (s *Socket) arrive(d datagram) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := len(d.data) + overhead
	if s.closed || s.connected.IsValid() && d.from != s.connected || s.bytes+size > Queue {
		return
	}
	s.bytes += size
	i := len(s.queue)
	for i > 0 && s.queue[i-1].at.After(d.at) {
		i--
	}
	s.queue = append(s.queue, datagram{})
	copy(s.queue[i+1:], s.queue[i:])
	s.queue[i] = d
	s.changed.Broadcast()
}

func (s *Socket) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

func (s *Socket) receive(p []byte) (n int, from netip.AddrPort, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		next := s.deadline
		switch {
		case s.closed:
			return 0, from, s.fail("read", s.connected, net.ErrClosed)
		case !s.deadline.IsZero() && !now.Before(s.deadline):
			return 0, from, s.fail("read", s.connected, os.ErrDeadlineExceeded)
		case s.refused:
			s.refused = false
			return 0, from, s.fail("read", s.connected, os.NewSyscallError("read", syscall.ECONNREFUSED))
		case len(s.queue) > 0 && !s.queue[0].at.After(now):
			d := s.queue[0]
			s.queue = s.queue[1:]
			s.bytes -= len(d.data) + overhead
			return copy(p, d.data), d.from, nil
		case len(s.queue) > 0 && (next.IsZero() || s.queue[0].at.Before(next)):
			next = s.queue[0].at
		}
		if s.wake != nil {
			s.wake.Stop()
			s.wake = nil
		}
		if !next.IsZero() {
			s.wake = time.AfterFunc(next.Sub(now), func() { s.change(func() {}) })
		}
		s.changed.Wait()
	}
}

func (s *Socket) fail(op string, to netip.AddrPort, err error) error {
	e := &net.OpError{Op: op, Net: "udp", Source: s.LocalAddr(), Err: err}
	if to.IsValid() {
		e.Addr = net.UDPAddrFromAddrPort(to)
	}
	return e
}

// ReadFrom returns the next datagram, cut to the space that p has, and its sender.
func (s *Socket) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, err := s.receive(p)
	if err != nil {
		return n, nil, err
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

// WriteTo sends a datagram to a *net.UDPAddr.
func (s *Socket) WriteTo(p []byte, to net.Addr) (int, error) {
	return s.send(to.(*net.UDPAddr).AddrPort(), p)
}

// Read is ReadFrom without the sender.
func (s *Socket) Read(p []byte) (int, error) {
	n, _, err := s.receive(p)
	return n, err
}

// Write sends to the address that the socket is connected with.
func (s *Socket) Write(p []byte) (int, error) {
	if !s.connected.IsValid() {
		return 0, s.fail("write", s.connected, os.NewSyscallError("write", syscall.EDESTADDRREQ))
	}
	return s.send(s.connected, p)
}

// Close gives the address free and ends calls that wait.
func (s *Socket) Close() error {
	s.net.mu.Lock()
	if s.net.sockets[s.addr] == s {
		delete(s.net.sockets, s.addr)
	}
	s.net.mu.Unlock()
	again := false
	s.change(func() { again, s.closed = s.closed, true })
	if again {
		return s.fail("close", s.connected, net.ErrClosed)
	}
	return nil
}

// LocalAddr is the socket's own address.
func (s *Socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.addr) }

// RemoteAddr is that it is connected with, or nil.
func (s *Socket) RemoteAddr() net.Addr {
	if !s.connected.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(s.connected)
}

// SetDeadline is SetReadDeadline: nothing that is sent waits.
func (s *Socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetWriteDeadline has no effect.
func (s *Socket) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline ends calls that wait for a datagram at t.
func (s *Socket) SetReadDeadline(t time.Time) error {
	s.change(func() { s.deadline = t })
	return nil
}
