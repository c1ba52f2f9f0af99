package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Buffer is how many bytes of a stream wait in one direction until a write blocks.
const Buffer = 64 << 10

// Backlog is how many connections wait to be accepted until Dial blocks.
const Backlog = 128

// Listener accepts the streams that its Dial makes.
type Listener struct {
	addr    net.Addr
	waiting chan *stream
	closed  chan struct{}
	closing sync.Once

	mu   sync.Mutex
	port uint16
}

// Listen returns a listener with this address: a *net.TCPAddr where it is an IP address
// and port, else a *net.UnixAddr.
func Listen(addr string) *Listener {
	l := &Listener{waiting: make(chan *stream, Backlog), closed: make(chan struct{})}
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		l.addr = net.TCPAddrFromAddrPort(ap)
	} else {
		l.addr = &net.UnixAddr{Name: addr, Net: "unix"}
	}
	return l
}

// Accept returns the server's end of the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // whatever waits
	default:
		select {
		case c := <-l.waiting:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
}

// Close refuses later connections, and resets those that nobody accepted. Accepted ones stay.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.closing.Do(func() { close(l.closed); err = nil })
	for {
		select {
		case c := <-l.waiting:
			c.Reset()
			continue
		default:
		}
		break
	}
	if err != nil {
		return &net.OpError{Op: "close", Net: l.addr.Network(), Addr: l.addr, Err: err}
	}
	return nil
}

// Addr is the address that Listen got.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dial connects, as a system does: before the connection is accepted, and refused where
// the listener is closed.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	fail := func(err error) error {
		return &net.OpError{Op: "dial", Net: l.addr.Network(), Addr: l.addr, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, fail(err)
	}
	local, remote := pair(l.client(), l.addr)
	select {
	case <-l.closed:
		return nil, fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	default:
	}
	select {
	case l.waiting <- remote:
	case <-ctx.Done():
		return nil, fail(ctx.Err())
	case <-l.closed:
		return nil, fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	select {
	case <-l.closed: // while it was put there: Close may have missed it
		remote.Reset()
	default:
	}
	return local, nil
}

// DialContext is Dial, whatever the network and the address, as net.Dialer has it.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// client is the address of a new client: another port each time.
func (l *Listener) client() net.Addr {
	tcp, ok := l.addr.(*net.TCPAddr)
	if !ok {
		return &net.UnixAddr{Net: "unix"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.port++
	return &net.TCPAddr{IP: tcp.IP, Port: 32768 + int(l.port)%28232, Zone: tcp.Zone}
}

// Pipe returns the two ends of a stream between these addresses, which Listen explains.
func Pipe(local, remote string) (net.Conn, net.Conn) {
	a, b := pair(Listen(local).addr, Listen(remote).addr)
	return a, b
}

func pair(a, b net.Addr) (*stream, *stream) {
	there, back := newHalf(), newHalf()
	return &stream{in: back, out: there, local: a, remote: b}, &stream{in: there, out: back, local: b, remote: a}
}

// stream is one end of a connection.
type stream struct {
	in, out       *half
	local, remote net.Addr
}

// half is one direction. Its fields but mu are guarded by it.
type half struct {
	mu          sync.Mutex
	changed     *sync.Cond
	data        []byte // that waits, in room
	room        []byte
	ended       bool // the writer sends no more
	reset       bool
	writing     bool // one write after the other, as a socket has it
	read, wrote end
}

// end is what one of the two ends made of a direction.
type end struct {
	closed   bool
	deadline time.Time
	timer    *time.Timer
}

func newHalf() *half {
	h := &half{}
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (h *half) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	h.changed.Broadcast()
}

func (h *half) until(e *end, t time.Time) {
	h.set(func() {
		if e.timer != nil {
			e.timer.Stop()
			e.timer = nil
		}
		e.deadline = t
		if d := time.Until(t); !t.IsZero() && d > 0 {
			e.timer = time.AfterFunc(d, func() { h.set(func() {}) })
		}
	})
}

func (e *end) late() bool { return !e.deadline.IsZero() && !time.Now().Before(e.deadline) }

func (h *half) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.read.closed:
			return 0, net.ErrClosed
		case h.read.late():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(h.data) > 0:
			n := copy(p, h.data)
			h.data = h.data[n:]
			h.changed.Broadcast()
			return n, nil
		case h.reset:
			return 0, os.NewSyscallError("read", syscall.ECONNRESET)
		case h.ended:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (h *half) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := false
	defer func() {
		if mine {
			h.writing = false
			h.changed.Broadcast()
		}
	}()
	for n := 0; ; {
		switch {
		case h.wrote.closed:
			return n, net.ErrClosed
		case h.wrote.late():
			return n, os.ErrDeadlineExceeded
		case h.reset, h.ended, h.read.closed:
			return n, os.NewSyscallError("write", syscall.EPIPE)
		case h.writing && !mine:
			h.changed.Wait()
			continue
		}
		h.writing, mine = true, true
		m := min(len(p)-n, Buffer-len(h.data))
		h.take(p[n : n+m])
		if n += m; m > 0 {
			h.changed.Broadcast()
		}
		if n == len(p) {
			return n, nil
		}
		h.changed.Wait()
	}
}

// take appends to the data, whose room is used again and again.
func (h *half) take(p []byte) {
	if need := len(h.data) + len(p); len(h.data) == 0 || need > cap(h.data) {
		if need > cap(h.room) {
			h.room = make([]byte, max(need, min(2*cap(h.room), Buffer)))
		}
		h.data = h.room[:copy(h.room, h.data)]
	}
	h.data = append(h.data, p...)
}

func (c *stream) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	return n, c.wrap("read", err)
}

func (c *stream) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	return n, c.wrap("write", err)
}

func (c *stream) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. What the other end wrote and nobody read makes it a reset, as TCP does.
func (c *stream) Close() error {
	var again, unread bool
	c.in.set(func() {
		again, unread = c.in.read.closed, len(c.in.data) > 0
		c.in.read.closed, c.in.data = true, nil
	})
	c.out.set(func() {
		c.out.ended, c.out.wrote.closed = true, true
		c.out.reset = c.out.reset || unread
	})
	if again {
		return c.wrap("close", net.ErrClosed)
	}
	return nil
}

// CloseWrite ends the direction to the other end, which reads what is on its way, and then io.EOF.
func (c *stream) CloseWrite() error {
	c.out.set(func() { c.out.ended = true })
	return nil
}

// Reset ends both directions at once, as a machine that restarts does: the other end's next
// calls fail.
func (c *stream) Reset() {
	c.out.set(func() { c.out.reset, c.out.data = true, nil })
	c.in.set(func() { c.in.reset, c.in.data = true, nil })
	c.Close()
}

func (c *stream) LocalAddr() net.Addr  { return c.local }
func (c *stream) RemoteAddr() net.Addr { return c.remote }

func (c *stream) SetDeadline(t time.Time) error {
	c.in.until(&c.in.read, t)
	c.out.until(&c.out.wrote, t)
	return nil
}

func (c *stream) SetReadDeadline(t time.Time) error {
	c.in.until(&c.in.read, t)
	return nil
}

func (c *stream) SetWriteDeadline(t time.Time) error {
	c.out.until(&c.out.wrote, t)
	return nil
}
