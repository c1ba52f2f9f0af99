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

	"github.com/csig-agent/csig/controller/owner/kv"
	"github.com/csig-agent/csig/protocol/untrusted"
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
	kv       kv.Store
	at       string                 // this end's subject
	stop     func() error           // ends listening there
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
		_ = t.stop()
		t.inner.Close()
		if to := t.other(); to != "" {
			_ = t.kv.Publish(kv.Message{Subject: to, Header: map[string]string{ended: "1"}})
		}
	})
}

// newTunnel is an end that listens; to is set before it sends.
func newTunnel(on kv.Store, peer string) (*tunnel, error) {
	t := &tunnel{kv: on, peer: peer, at: on.Inbox()}
	t.Conn, t.inner = net.Pipe()
	ready := make(chan struct{}) // stop is set
	defer close(ready)
	var err error
	t.stop, err = on.Subscribe(t.at, func(m kv.Message) { // one after the other
		<-ready
		if m.Header[ended] != "" {
			t.end()
			return
		}
		_ = t.inner.SetWriteDeadline(time.Now().Add(tunnelTake))
		if _, err := t.inner.Write(m.Data); err != nil {
			t.end()
			return
		}
		_ = on.Publish(kv.Message{Subject: m.Reply})
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
		ctx, done := context.WithTimeout(context.Background(), tunnelTake)
		_, err = t.kv.Request(ctx, t.other(), b[:n])
		if done(); err != nil {
			return
		}
	}
}

// Dial opens a tunnel to the controller that drives a device.
func (s *Store) Dial(ctx context.Context, device string) (net.Conn, error) {
	t, err := newTunnel(s.kv, "")
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, tunnelOpen)
	defer done()
	m, err := s.kv.Request(ctx, tunnels+"."+key(device)+"."+key(s.cfg.Name), []byte(t.at))
	if err == nil && len(m.Data) == 0 {
		err = errors.New("no subject")
	}
	if err != nil {
		_ = t.stop()
		if errors.Is(err, kv.ErrNoReader) || errors.Is(err, context.DeadlineExceeded) {
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
	stop   func() error
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	device string
}

// Listen takes the tunnels in that other controllers open to a device that this one drives.
func (s *Store) Listen(device string) (net.Listener, error) {
	l := &tunnelListener{conns: make(chan net.Conn), closed: make(chan struct{}), device: device}
	var err error
	l.stop, err = s.kv.Subscribe(tunnels+"."+key(device)+".*", func(m kv.Message) {
		t, err := newTunnel(s.kv, "controller "+untrusted.Text(name(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]), 64))
		if err != nil {
			return
		}
		to := string(m.Data)
		t.to.Store(&to)
		select {
		case l.conns <- t:
			go t.send()
			_ = s.kv.Publish(kv.Message{Subject: m.Reply, Data: []byte(t.at)})
		case <-l.closed:
			_ = t.stop()
		case <-time.After(tunnelOpen):
			_ = t.stop()
		}
	})
	if err != nil {
		return nil, err
	}
	_ = s.kv.Flush(tunnelOpen) // so that a request that comes now finds it; a lost connection subscribes again
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
	l.once.Do(func() { close(l.closed); err = l.stop() })
	return err
}

// Addr names the device.
func (l *tunnelListener) Addr() net.Addr { return tunnelAddr(l.device) }

type tunnelAddr string

func (tunnelAddr) Network() string  { return "nats" }
func (a tunnelAddr) String() string { return string(a) }
