package owner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// A tunnel is a connection of two controllers through NATS: what an operator asks of a device at
// any controller reaches the one that drives it. Each end has a subject of its own; what is
// written is sent there in chunks, each acknowledged when its reader has taken it.

// Bounds of a tunnel: bytes of a chunk, how long an end may take to open and to take one.
const (
	tunnelChunk = 64 << 10
	tunnelOpen  = time.Second
	tunnelTake  = 30 * time.Second
)

// tunnels is the subject at which the owner of a device is asked for a tunnel: the device's key
// follows, and who asks. A client may send in the name of its certificate alone.
const tunnels = "csig_device"

// ErrNoTunnel is the error of Dial while no controller drives the device.
var ErrNoTunnel = errors.New("no controller that drives the device answers")

// ended is the header of the last message to an end.
const ended = "Csig-End"

// tunnel is one end.
type tunnel struct {
	net.Conn // what its user reads and writes
	peer     string
	inner    net.Conn // the other side of Conn, here
	nc       *nats.Conn
	sub      *nats.Subscription
	to       atomic.Pointer[string] // the other end's subject; that end may end before Dial knows it
	once     sync.Once
}

// other is the other end's subject, "" until it is known.
func (t *tunnel) other() string {
	if to := t.to.Load(); to != nil {
		return *to
	}
	return ""
}

// Peer implements api.Trusted: who reaches NATS can drive all devices.
func (t *tunnel) Peer() string { return t.peer }

// end ends both ends: when the user has closed this one, and what was written before is sent.
func (t *tunnel) end() {
	t.once.Do(func() {
		_ = t.sub.Unsubscribe()
		t.inner.Close()
		if to := t.other(); to != "" {
			_ = t.nc.PublishMsg(&nats.Msg{Subject: to, Header: nats.Header{ended: {"1"}}})
		}
	})
}

// newTunnel is an end that listens; to is set before it sends.
func newTunnel(nc *nats.Conn, peer string) (*tunnel, error) {
	t := &tunnel{nc: nc, peer: peer}
	t.Conn, t.inner = net.Pipe()
	var err error
	t.sub, err = nc.Subscribe(nc.NewInbox(), func(m *nats.Msg) { // one after the other
		if m.Header.Get(ended) != "" {
			t.end()
			return
		}
		_ = t.inner.SetWriteDeadline(time.Now().Add(tunnelTake))
		if _, err := t.inner.Write(m.Data); err != nil {
			t.end()
			return
		}
		_ = m.Respond(nil)
	})
	return t, err
}

// send sends what the user writes, until it closes.
func (t *tunnel) send() {
	defer t.end()
	for b := make([]byte, tunnelChunk); ; {
		n, err := t.inner.Read(b)
		if err != nil {
			return
		}
		if _, err := t.nc.Request(t.other(), b[:n], tunnelTake); err != nil {
			return
		}
	}
}

// Dial opens a tunnel to the controller that drives a device.
func (s *Store) Dial(ctx context.Context, device string) (net.Conn, error) {
	nc := s.js.Conn()
	t, err := newTunnel(nc, "")
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, tunnelOpen)
	defer done()
	m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: tunnels + "." + key(device) + "." + key(s.cfg.Name), Data: []byte(t.sub.Subject)})
	if err == nil && len(m.Data) == 0 {
		err = errors.New("no subject")
	}
	if err != nil {
		_ = t.sub.Unsubscribe()
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) {
			err = ErrNoTunnel
		}
		return nil, fmt.Errorf("device %s: %w", device, err)
	}
	to := string(m.Data)
	t.to.Store(&to)
	go t.send()
	return t, nil
}

// tunnelListener has the tunnels that others open to a device.
type tunnelListener struct {
	sub    *nats.Subscription
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	device string
}

// Listen takes the tunnels in that other controllers open to a device that this one drives.
func (s *Store) Listen(device string) (net.Listener, error) {
	nc := s.js.Conn()
	l := &tunnelListener{conns: make(chan net.Conn), closed: make(chan struct{}), device: device}
	var err error
	l.sub, err = nc.Subscribe(tunnels+"."+key(device)+".*", func(m *nats.Msg) {
		t, err := newTunnel(nc, "controller "+untrusted.Text(name(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]), 64))
		if err != nil {
			return
		}
		to := string(m.Data)
		t.to.Store(&to)
		select {
		case l.conns <- t:
			go t.send()
			_ = m.Respond([]byte(t.sub.Subject))
		case <-l.closed:
			_ = t.sub.Unsubscribe()
		case <-time.After(tunnelOpen):
			_ = t.sub.Unsubscribe()
		}
	})
	if err != nil {
		return nil, err
	}
	_ = nc.FlushTimeout(tunnelOpen) // so that a request that comes now finds it; a lost connection subscribes again
	return l, nil
}

func (l *tunnelListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *tunnelListener) Close() (err error) {
	l.once.Do(func() { close(l.closed); err = l.sub.Unsubscribe() })
	return err
}

// Addr names the device.
func (l *tunnelListener) Addr() net.Addr { return tunnelAddr(l.device) }

type tunnelAddr string

func (tunnelAddr) Network() string  { return "nats" }
func (a tunnelAddr) String() string { return string(a) }
