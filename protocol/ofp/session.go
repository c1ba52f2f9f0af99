package ofp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Config is how a switch is reached, and which part csig has in it. Equal ones share
// one connection in this process: a driver and a source of counters.
type Config struct {
	Listen  string // host:port that the switch dials; many switches may dial one; or
	Connect string // host:port that csig dials

	// TLS is mutual TLS. Plain TCP is only spoken where Plain says so: every host on
	// the way can change flows then. Where csig listens, From is the host that the switch
	// then dials from, an address or a name: all that is known of it beside its datapath ID.
	TLS   TLS
	Plain bool
	From  string

	// Net is the network of Listen and Connect; nil: that of this machine.
	Net Network

	// Datapath is the switch's datapath ID. Where csig dials, 0 is any.
	Datapath uint64

	// Role is requested before the first change on a connection; 0: RoleEqual.
	Role Role

	// Patience is how long the switch may take for any answer before the connection
	// counts as broken; 0: 15 s. Every third of it the switch is asked for an echo.
	Patience time.Duration

	// Linger is how long the address stays open, and the switch connected, after the last
	// session: a switch dials again only every few seconds.
	Linger time.Duration
}

// Network is where connections are made. Two that are equal are one.
type Network interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Listen(network, address string) (net.Listener, error)
}

// machine is the network of this machine.
type machine struct{}

func (machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func (machine) Listen(network, address string) (net.Listener, error) {
	return net.Listen(network, address)
}

// defaultPatience leaves a switch time for its slow processor: many answer echoes only
// after the flows that were sent before.
const defaultPatience = 15 * time.Second

func (c *Config) check() error {
	switch {
	case (c.Listen == "") == (c.Connect == ""):
		return errors.New("openflow: either the switch dials csig (listen), or csig the switch (connect)")
	case c.Listen != "" && c.Datapath == 0:
		return errors.New("openflow: where csig listens, the datapath ID says which of the switches that dial is this one")
	case c.Plain != (c.TLS == TLS{}):
		return errors.New("openflow: either TLS, with files for both ends, or plain TCP, which has to be asked for")
	case (c.From != "") != (c.Plain && c.Listen != ""):
		return errors.New("openflow: with plain TCP, and there alone, the address that the switch dials from says that it is the switch: give the device's address")
	case c.Role > RoleSlave:
		return fmt.Errorf("openflow: there is no %s", c.Role)
	}
	if c.Net == nil {
		c.Net = machine{}
	}
	if c.Role == 0 {
		c.Role = RoleEqual
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Plain {
		return nil
	}
	if c.TLS.Peer == "" && c.Connect != "" {
		c.TLS.Peer, _, _ = net.SplitHostPort(c.Connect)
	}
	if c.TLS.Peer == "" {
		return errors.New("openflow: which certificate is the switch's? Its authority certifies others, too: give the name in it (tls: server_name) or the device's address")
	}
	_, err := c.TLS.config(c.Listen != "")
	if err != nil {
		return fmt.Errorf("openflow: %w", err)
	}
	return nil
}

// Session is a connection with a hardware switch for a long time, in OpenFlow 1.3,
// made again whenever it is lost. It is safe for concurrent use.
type Session struct {
	l     *link
	close sync.Once
}

// link is the session that those of one Config share.
type link struct {
	cfg      Config
	users    int           // links.mu guards it
	idle     *time.Timer   // ends a link without users; links.mu guards it
	closed   chan struct{} // when the last one has gone
	listener *listener     // where csig listens

	mu      sync.Mutex
	conn    *Conn // nil: there is none
	epoch   uint64
	tries   int           // that failed
	last    error         // why the last one did, or the connection was lost
	since   time.Time     // without a connection
	changed chan struct{} // closed when one of these changes
}

// links are those that are open.
var links struct {
	mu  sync.Mutex
	all []*link
}

// Open opens a session. It does not wait for the switch; an address that csig cannot
// listen on, and files that it cannot read, are errors.
func Open(cfg Config) (*Session, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	links.mu.Lock()
	defer links.mu.Unlock()
	for _, l := range slices.Clone(links.all) {
		if l.cfg == cfg {
			if l.users++; l.idle != nil {
				l.idle.Stop()
			}
			return &Session{l: l}, nil
		}
		switch same := l.cfg.Net == cfg.Net && l.cfg.Listen == cfg.Listen && l.cfg.Connect == cfg.Connect; {
		case same && l.users == 0 && (l.cfg.Datapath == cfg.Datapath || l.cfg.TLS.files() != cfg.TLS.files()):
			l.end() // it only lingers
		case same && l.cfg.Datapath == cfg.Datapath:
			return nil, fmt.Errorf("openflow: datapath %s at %s is open already, with another configuration", hexID(cfg.Datapath), cfg.Listen+cfg.Connect)
		}
	}
	l := &link{cfg: cfg, users: 1, since: time.Now(), closed: make(chan struct{}), changed: make(chan struct{})}
	if cfg.Listen != "" {
		if err := l.listen(); err != nil {
			return nil, err
		}
	} else {
		go l.dial()
	}
	links.all = append(links.all, l)
	return &Session{l: l}, nil
}

// Close ends the session; the connection ends with the last one that shares it, and
// Config.Linger later.
func (s *Session) Close() error {
	s.close.Do(func() {
		links.mu.Lock()
		defer links.mu.Unlock()
		l := s.l
		if l.users--; l.users > 0 {
			return
		}
		if l.cfg.Linger == 0 {
			l.end()
			return
		}
		var idle *time.Timer
		idle = time.AfterFunc(l.cfg.Linger, func() {
			links.mu.Lock()
			defer links.mu.Unlock()
			if l.users == 0 && l.idle == idle {
				l.end()
			}
		})
		l.idle = idle
	})
	return nil
}

// end closes the connection and the address, once. links.mu is held.
func (l *link) end() {
	if isClosed(l.closed) {
		return
	}
	links.all = slices.DeleteFunc(links.all, func(o *link) bool { return o == l })
	close(l.closed)
	if l.listener != nil {
		l.listener.leave(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// errSessionClosed is what a session returns that was closed.
var errSessionClosed = errors.New("openflow: the session is closed")

// Conn returns the connection, and waits for one where there is none: until the context
// ends or, where csig dials, until it has failed to. A switch that was connected again
// has another Conn, of a later Epoch.
func (s *Session) Conn(ctx context.Context) (*Conn, error) {
	l := s.l
	first := -1
	for {
		l.mu.Lock()
		conn, tries, last, changed := l.conn, l.tries, l.last, l.changed
		l.mu.Unlock()
		if first < 0 {
			first = tries
		}
		switch {
		case isClosed(l.closed):
			return nil, errSessionClosed
		case conn != nil && conn.Err() == nil:
			return conn, nil
		case l.cfg.Connect != "" && tries > first:
			return nil, fmt.Errorf("openflow: switch at %s: %w", l.cfg.Connect, last)
		}
		select {
		case <-changed:
		case <-l.closed:
		case <-ctx.Done():
			return nil, l.missing(context.Cause(ctx), last)
		}
	}
}

// hexID is a datapath ID as fleet files and switches write it.
func hexID(id uint64) string { return fmt.Sprintf("0x%016x", id) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// missing is the error of a switch that did not connect in time.
func (l *link) missing(cause, last error) error {
	text := ""
	if last != nil {
		text = fmt.Sprintf(" (before: %v)", last)
	}
	if l.cfg.Connect != "" {
		return fmt.Errorf("openflow: switch at %s: %w%s", l.cfg.Connect, cause, text)
	}
	l.mu.Lock()
	since := l.since
	l.mu.Unlock()
	refused := l.listener.refusals()
	check := "check the switch's controller address, its datapath ID and how often it tries again: csig waits for the next attempt"
	if refused != "" {
		check = "csig waits for the next attempt"
	}
	return fmt.Errorf("openflow: no switch with datapath ID %s has connected to %s since %s%s%s: %w; %s",
		hexID(l.cfg.Datapath), l.cfg.Listen, since.UTC().Format(time.RFC3339), text, refused, cause, check)
}

// made notes a connection, in place of the one before.
func (l *link) made(conn *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
	l.epoch++
	l.conn, conn.Epoch = conn, l.epoch
	l.change()
}

// lost notes that a connection has ended; it may have been replaced before.
func (l *link) lost(conn *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == conn {
		l.conn, l.since = nil, time.Now()
		l.fail(conn.Err())
	}
}

// fail notes why there is no connection, mu held.
func (l *link) fail(err error) {
	l.tries++
	l.last = err
	l.change()
}

// change wakes those that wait for a connection, mu held.
func (l *link) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// open is the connection's part that both ways have: hello, masks.
func (l *link) open(ctx context.Context, c net.Conn) (*Conn, error) {
	conn, err := newConn(ctx, c, l.cfg.Patience, Version13)
	if err != nil {
		return nil, greeting(err, !l.cfg.Plain)
	}
	if l.cfg.Datapath != 0 && conn.Datapath.ID != l.cfg.Datapath {
		err = fmt.Errorf("it is datapath %s, and not %s", hexID(conn.Datapath.ID), hexID(l.cfg.Datapath))
	} else {
		conn.run()
		err = l.prepare(ctx, conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// prepare masks what the switch would send by itself.
func (l *link) prepare(ctx context.Context, conn *Conn) error {
	conn.wants = l.cfg.Role
	err := conn.MaskAsync(ctx)
	if isRefusal(err) {
		conn.AsyncRefused, err = err, nil
	}
	return err
}

// keep has the connection until it ends.
func (l *link) keep(conn *Conn) {
	l.made(conn)
	tick := time.NewTicker(l.cfg.Patience / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = conn.Echo(context.Background()) // which ends it where the switch is silent
			continue
		case <-l.closed:
			_ = conn.Close()
		case <-conn.Done():
		}
		l.lost(conn)
		return
	}
}

// Bounds of the time between two attempts to dial.
const (
	firstPause = 200 * time.Millisecond
	longPause  = 5 * time.Second
)

// dial connects, and connects again, until the session is closed.
func (l *link) dial() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-l.closed; cancel() }()
	for pause := firstPause; !isClosed(l.closed); {
		conn, err := l.dialOnce(ctx)
		if err == nil {
			made := time.Now()
			l.keep(conn)
			if time.Since(made) >= longPause { // else it may be one that takes connections and drops them
				pause = firstPause
			}
		} else {
			l.mu.Lock()
			l.fail(err)
			l.mu.Unlock()
		}
		wait := time.NewTimer(pause/2 + rand.N(pause)) // many switches come back at once
		select {
		case <-wait.C:
		case <-l.closed:
		}
		wait.Stop()
		pause = min(2*pause, longPause)
	}
}

func (l *link) dialOnce(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.Patience, &silence{l.cfg.Patience})
	defer cancel()
	c, err := l.cfg.Net.Dial(ctx, "tcp", l.cfg.Connect)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w: the host is there, but nothing listens at this TCP port: correct openflow: port, or have the switch connect to csig (openflow: listen)", err)
	}
	if err != nil {
		return nil, err
	}
	if !l.cfg.Plain {
		conf, err := l.cfg.TLS.config(false)
		if err != nil {
			c.Close()
			return nil, err
		}
		secured := tls.Client(c, conf)
		if err = secured.HandshakeContext(ctx); err != nil {
			err = handshake(err)
		} else {
			err = l.cfg.TLS.isPeer(secured.ConnectionState())
		}
		if err != nil {
			c.Close()
			return nil, err
		}
		c = secured
	}
	return l.open(ctx, c)
}
