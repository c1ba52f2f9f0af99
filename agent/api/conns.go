package api

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Connections of one listener: of everybody, of one user who may not change anything or of one
// address over TCP, and with those of root that come when all are busy with root's requests.
const (
	maxConns     = 64
	maxUserConns = 16
	maxOwnConns  = 4 * maxConns
)

// stallTime is how long a client may leave what it is sent unread until it makes room for others.
const stallTime = time.Second

// limited is a listener that keeps at most maxConns connections open. A new one
// takes the place of the oldest that has sent no request, or does not read its answer; root's, and those of
// the agent's own user, also that of another user's, and where all have open answers of root
// it is let in beside them, up to maxOwnConns; beyond that it takes the oldest's place. So
// silent clients exhaust neither descriptors nor the listener, and root always gets in.
type limited struct {
	net.Listener
	plain          role // of every peer over TCP without TLS
	most, mostUser int  // connections; 0: maxConns, maxUserConns

	mu    sync.Mutex
	conns []*conn // by age
}

// conn is a connection of a limited listener.
type conn struct {
	net.Conn
	of   *limited
	peer peer   // of a unix socket; over TCP the address, without a role: a certificate decides
	from string // whose connections are counted together: a peer's, or those of a network of IPv6 that one host may have all of

	active  bool      // it has sent a request that is not answered, with its body; guarded by of.mu
	writing time.Time // since when it is sent something that it has not taken; zero: it has; guarded by of.mu
}

// busy reports whether a connection may not make room for another. l.mu is held.
func (c *conn) busy() bool {
	stalls := c.peer.role < roleChange && !c.writing.IsZero() && time.Since(c.writing) > stallTime
	return c.active && !stalls
}

func (c *conn) setActive(is bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.active = is
}

// Write notes how long the client takes for it.
func (c *conn) Write(p []byte) (int, error) {
	note := func(since time.Time) {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.writing = since
	}
	note(time.Now())
	defer note(time.Time{})
	return c.Conn.Write(p)
}

// Accept waits for a connection that there is a place for.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &conn{Conn: c, of: l}
		if u, ok := c.(*net.UnixConn); ok {
			own.peer = unixPeer(u)
		} else if t, ok := c.(Trusted); ok {
			own.peer = peer{name: t.Peer(), role: roleChange}
		} else if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			own.peer.name, own.peer.role = a.IP.String(), l.plain
		}
		own.from = source(own.peer.name)
		evicted, ok := l.admit(own)
		if evicted != nil {
			_ = evicted.Conn.Close()
		}
		if ok {
			return own, nil
		}
		_ = c.Close()
	}
}

// source is whose connections are counted with those of a peer.
func source(name string) string {
	if a, err := netip.ParseAddr(name); err == nil && a.Is6() && !a.Is4In6() {
		network := netip.PrefixFrom(a, 64).Masked()
		return network.String()
	}
	return name
}

// admit takes a connection in, in place of another where there are too many.
func (l *limited) admit(c *conn) (evicted *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := cmp.Or(l.most, maxConns)
	same := func(o *conn) bool { return o.from == c.from }
	switch {
	case c.peer.role < roleChange && l.count(same) >= cmp.Or(l.mostUser, maxUserConns):
		evicted = l.oldest(func(o *conn) bool { return same(o) && !o.busy() })
	case len(l.conns) < most:
		l.conns = append(l.conns, c)
		return nil, true
	case c.peer.role < roleChange && len(l.conns) > most: // with root's
		return nil, false
	default:
		evicted = l.oldest(func(o *conn) bool { return !o.busy() && o.peer.role < roleChange })
		if evicted == nil {
			evicted = l.oldest(func(o *conn) bool { return !o.busy() })
		}
		if evicted == nil && c.peer.role == roleChange {
			evicted = l.oldest(func(o *conn) bool { return o.peer.role < roleChange })
		}
		if evicted == nil && c.peer.role == roleChange {
			if len(l.conns) < maxOwnConns {
				l.conns = append(l.conns, c)
				return nil, true
			}
			evicted = l.conns[0]
		}
	}
	if evicted == nil {
		return nil, false
	}
	l.remove(evicted)
	if len(l.conns) >= most && c.peer.role < roleChange {
		return evicted, false
	}
	l.conns = append(l.conns, c)
	return evicted, true
}

func (l *limited) count(is func(*conn) bool) (n int) {
	for _, c := range l.conns {
		if is(c) {
			n++
		}
	}
	return n
}

func (l *limited) oldest(is func(*conn) bool) *conn {
	for _, c := range l.conns {
		if is(c) {
			return c
		}
	}
	return nil
}

// closeAll ends every connection: their peers may have lost their rights.
func (l *limited) closeAll() {
	l.mu.Lock()
	open := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Conn.Close()
	}
}

func (l *limited) remove(c *conn) {
	for i := range l.conns {
		if l.conns[i] == c {
			l.conns = append(l.conns[:i], l.conns[i+1:]...)
			return
		}
	}
}

// Close ends the connection and gives its place back.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// ownConn is the connection that a listener of ours accepted, below its TLS.
func ownConn(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// noteState follows which connections have a request (http.Server.ConnState).
func noteState(c net.Conn, state http.ConnState) {
	if own := ownConn(c); own != nil {
		own.setActive(state == http.StateActive)
	}
}
