package ofp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// listener is an address that switches dial. The sessions of one process share it.
type listener struct {
	place
	l    net.Listener
	tls  TLS // without Peer
	room chan struct{}

	mu      sync.Mutex
	hosts   map[string]int   // connections in room, by their host
	links   map[uint64]*link // by datapath ID
	refused []string         // the newest
	note    func(string)     // is called for new ones; nil: none is
	began   time.Time        // of the noteEvery that counts notes
	notes   int              // in it, those that were too many among them
}

// place is where a listener is.
type place struct {
	net  Network
	addr string
}

// listeners are those that are open; links.mu guards them.
var listeners = map[place]*listener{}

const (
	// maxHandshakes bounds the connections whose switch is not known yet, and maxOfHost those of
	// one host, which keeps out no other.
	maxHandshakes = 256
	maxOfHost     = 64
	// maxRefusals bounds the refused connections that are kept for error messages.
	maxRefusals = 4
	// maxRefusal bounds one of them, in bytes.
	maxRefusal = 300
	// noteEvery is how long maxRefusals bounds what is noted, too.
	noteEvery = time.Minute
	// rivalPatience is how long a connection has to prove that it lives, when its
	// switch connects again.
	rivalPatience = 2 * time.Second
)

// listen has the link's switch dial in. links.mu is held.
func (l *link) listen() error {
	files := l.cfg.TLS.files()
	at := place{l.cfg.Net, l.cfg.Listen}
	ln := listeners[at]
	switch {
	case ln == nil:
		open, err := at.net.Listen("tcp", at.addr)
		if err != nil {
			return fmt.Errorf("openflow: %w", err)
		}
		ln = &listener{place: at, l: open, tls: files, room: make(chan struct{}, maxHandshakes), hosts: map[string]int{}, links: map[uint64]*link{}}
		listeners[at] = ln
		go ln.accept()
	case ln.tls != files:
		return fmt.Errorf("openflow: switches dial %s already, with other TLS files", ln.addr)
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.links[l.cfg.Datapath] = l
	l.listener = ln
	return nil
}

// leave ends a link's part; the last one closes the address. links.mu is held.
func (ln *listener) leave(l *link) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	delete(ln.links, l.cfg.Datapath)
	if len(ln.links) == 0 {
		_ = ln.l.Close()
		delete(listeners, ln.place)
	}
}

// Addr is the address that the switch dials; nil where csig dials.
func (s *Session) Addr() net.Addr {
	if s.l.listener == nil {
		return nil
	}
	return s.l.listener.l.Addr()
}

func (ln *listener) accept() {
	for {
		c, err := ln.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: others may be closed
			<-time.After(50 * time.Millisecond)
			continue
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		if !ln.enters(host) {
			c.Close()
			ln.refuse(c, fmt.Errorf("%d others of this host are connecting", maxOfHost))
			continue
		}
		select {
		case ln.room <- struct{}{}:
			go func() {
				defer func() { ln.leaves(host); <-ln.room }()
				if err := ln.greet(c); err != nil {
					c.Close()
					ln.refuse(c, err)
				}
			}()
		default:
			ln.leaves(host)
			c.Close()
			ln.refuse(c, fmt.Errorf("%d others are connecting", maxHandshakes))
		}
	}
}

// enters counts a connection of a host; false where it has enough.
func (ln *listener) enters(host string) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.hosts[host] == maxOfHost {
		return false
	}
	ln.hosts[host]++
	return true
}

func (ln *listener) leaves(host string) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.hosts[host]--; ln.hosts[host] == 0 {
		delete(ln.hosts, host)
	}
}

// refuse notes why a connection was refused.
func (ln *listener) refuse(c net.Conn, err error) {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	text := host + ": " + untrusted.Text(err.Error(), maxRefusal)
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if slices.Contains(ln.refused, text) { // it tries again and again
		return
	}
	if len(ln.refused) == maxRefusals {
		ln.refused = append(ln.refused[:0], ln.refused[1:]...)
	}
	ln.refused = append(ln.refused, text)
	if ln.note == nil {
		return
	}
	if now := time.Now(); now.Sub(ln.began) >= noteEvery {
		if more := ln.notes - maxRefusals; more > 0 {
			text += fmt.Sprintf(" (and %d others before)", more)
		}
		ln.began, ln.notes = now, 0
	}
	if ln.notes++; ln.notes <= maxRefusals {
		ln.note("connection to " + ln.addr + " refused: " + text)
	}
}

// NoteRefusals has note called for connections that are refused where csig listens: each
// once while it repeats, and few a minute. It must not block. Where csig dials there are none.
func (s *Session) NoteRefusals(note func(string)) {
	if ln := s.l.listener; ln != nil {
		ln.mu.Lock()
		defer ln.mu.Unlock()
		ln.note = note
	}
}

// refusals are the connections that were refused, for an error message.
func (ln *listener) refusals() string {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if len(ln.refused) == 0 {
		return ""
	}
	return "; refused: " + strings.Join(ln.refused, "; ")
}

// greet finds out which switch has dialed, and gives its session the connection.
func (ln *listener) greet(c net.Conn) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), defaultPatience, &silence{defaultPatience})
	defer cancel()
	var secured *tls.Conn
	if (ln.tls != TLS{}) {
		conf, err := ln.tls.config(true)
		if err != nil {
			return err
		}
		secured = tls.Server(c, conf)
		if err := secured.HandshakeContext(ctx); err != nil {
			return handshake(err)
		}
		c = secured
	}
	conn, err := newConn(ctx, c, defaultPatience, Version13)
	if err != nil {
		return greeting(err, secured != nil)
	}
	l, err := ln.find(conn, secured)
	if err == nil {
		conn.patience = l.cfg.Patience
		conn.run()
		err = l.prepare(ctx, conn)
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	go l.keep(conn)
	return nil
}

// find is the session of the switch that has connected.
func (ln *listener) find(conn *Conn, secured *tls.Conn) (*link, error) {
	ln.mu.Lock()
	l := ln.links[conn.Datapath.ID]
	ln.mu.Unlock()
	switch {
	case l == nil:
		return nil, fmt.Errorf("datapath %s is no device of this process", hexID(conn.Datapath.ID))
	case conn.Datapath.Auxiliary != 0:
		return nil, fmt.Errorf("an auxiliary connection of datapath %s, of which csig makes no use", hexID(conn.Datapath.ID))
	case secured != nil:
		if err := l.cfg.TLS.isPeer(secured.ConnectionState()); err != nil {
			return nil, fmt.Errorf("datapath %s: %w", hexID(conn.Datapath.ID), err)
		}
	default:
		if err := l.cfg.comesFrom(conn.c.RemoteAddr()); err != nil {
			return nil, fmt.Errorf("datapath %s %w", hexID(conn.Datapath.ID), err)
		}
	}
	l.mu.Lock()
	old := l.conn
	l.mu.Unlock()
	if old == nil {
		return l, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rivalPatience)
	defer cancel()
	if old.Echo(ctx) == nil {
		return nil, fmt.Errorf("datapath %s is connected already", hexID(conn.Datapath.ID))
	}
	_ = old.Close()
	return l, nil
}

// lookupTimeout bounds how long the name of a switch is looked up.
const lookupTimeout = 2 * time.Second

// comesFrom refuses a connection without TLS that is not from the switch's own address: anybody
// who reaches csig can send a datapath ID. All addresses of loopback are this machine.
func (c *Config) comesFrom(remote net.Addr) error {
	t, ok := remote.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("comes from no IP address (%v), and its device's is %s", remote, c.From)
	}
	from := t.AddrPort().Addr().Unmap().WithZone("")
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", c.From)
	if err != nil {
		return fmt.Errorf("comes from %s, and which address its device's name %s has is not known: %w", from, c.From, err)
	}
	for _, a := range addresses {
		if a = a.Unmap().WithZone(""); a == from || a.IsLoopback() && from.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("comes from %s, and the address of its device is %s: with plaintext the address says which host the switch is; where this is the switch, set the device's address to it, or use management: {openflow: {tls: …}}, where the certificate does", from, c.From)
}
