package oftest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
)

// Options are where a proxy's two sides are.
type Options struct {
	// Bridge is where the switch is dialed: the path of a bridge's management
	// socket, or an address of TCP. Each connection that csig makes with the proxy
	// has one of its own.
	Bridge string

	// Bench, in place of Bridge, is the switch. Where it is in memory, so is the proxy: see Proxy.Dial.
	Bench Bench

	// Controller, in place of Bridge, has the switch dial: the proxy waits for it,
	// and calls Controller to reach csig for each connection that it makes.
	Controller func(context.Context) (net.Conn, error)

	// Shadow is a switch without ports. It answers for the flows and groups, while the
	// one that has the ports is programmed Faults.AckToWire later: statistics that lie.
	// nil: the switch answers itself.
	Shadow Bench

	// Port is where the proxy listens; 0: a free one.
	Port int

	// OFDPA makes it a switch of OF-DPA: see Switch.BuiltIn.
	OFDPA *OFDPA
}

// Counts are the messages from csig to the switch, those that were refused among
// them.
type Counts struct {
	Connections int
	Messages    int // of every type
	FlowMods    int
	GroupMods   int
	Barriers    int
	Multiparts  int
}

// Proxy is a hardware switch as csig sees it. Its methods are safe for concurrent
// use.
type Proxy struct {
	o    Options
	l    net.Listener
	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	faults   Faults
	counts   Counts
	sessions map[*session]bool
	ended    []error
	refused  []string
}

// test is the part of testing.TB that a proxy needs.
type test interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}

// Start runs a proxy on a port of loopback until the test ends.
func Start(t test, o Options, f Faults) *Proxy {
	t.Helper()
	if o.Bridge == "" && o.Bench == nil && o.Controller == nil {
		t.Fatal("oftest: give Bridge or Bench, or Controller")
	}
	var l net.Listener
	if _, is := o.Bench.(*Memory); is {
		l = memnet.Listen("192.0.2.2:6653")
	} else {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(o.Port)); err != nil {
			t.Fatal(err)
		}
	}
	p := &Proxy{o: o, l: l, faults: f, sessions: map[*session]bool{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.all.Add(1)
	go p.accept()
	t.Cleanup(p.Close)
	return p
}

// Addr is where the proxy listens: for csig, or for the switch with
// Options.Controller.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Dial connects csig with the switch.
func (p *Proxy) Dial(ctx context.Context) (net.Conn, error) {
	if l, is := p.l.(*memnet.Listener); is {
		return l.Dial(ctx)
	}
	return dial(ctx, p.Addr())
}

// Close ends the proxy and every connection.
func (p *Proxy) Close() {
	p.stop()
	p.l.Close()
	p.all.Wait()
}

// Set changes the faults, from the next message on.
func (p *Proxy) Set(change func(*Faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.faults)
}

func (p *Proxy) current() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// Cut closes every connection, in both directions. New ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.end()
	}
}

// Counts are those since the start or the last Reset.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Reset starts the counts at 0.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = Counts{}
}

// Connections is how many connections there are now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

func (p *Proxy) count(m Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Messages++
	switch m.Type() {
	case TypeFlowMod:
		p.counts.FlowMods++
	case TypeGroupMod:
		p.counts.GroupMods++
	case TypeBarrierReq:
		p.counts.Barriers++
	case TypeMultipartReq:
		p.counts.Multiparts++
	}
}

// maxSessions bounds the connections at a time.
const maxSessions = 64

func (p *Proxy) accept() {
	defer p.all.Done()
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		if p.Connections() >= maxSessions || p.current().Dead {
			c.Close()
			continue
		}
		p.all.Add(1)
		go func() {
			defer p.all.Done()
			p.serve(c)
		}()
	}
}

// dial reaches a bridge by the path of its socket or by an address.
func dial(ctx context.Context, where string) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(where, "/") {
		network = "unix"
	}
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, where)
}

// serve pairs an accepted connection with the other side's, and passes messages
// on until either ends.
func (p *Proxy) serve(accepted net.Conn) {
	defer accepted.Close()
	ctx, end := context.WithCancel(p.ctx)
	defer end()
	s := &session{p: p, ctx: ctx, end: end, from: make(chan received, 256), own: firstOwn}
	p.mu.Lock()
	p.sessions[s] = true
	p.counts.Connections++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.sessions, s)
	}()
	var other net.Conn
	var err error
	if p.o.Controller != nil {
		other, err = p.o.Controller(ctx)
		s.conns = [3]net.Conn{controller: other, wire: accepted}
	} else {
		if p.o.Bench != nil {
			other, err = p.o.Bench.Dial(ctx)
		} else {
			other, err = dial(ctx, p.o.Bridge)
		}
		s.conns = [3]net.Conn{controller: accepted, wire: other}
	}
	if err != nil {
		p.note(fmt.Errorf("the other side: %w", err))
		return
	}
	defer other.Close()
	if p.o.Shadow != nil {
		c, err := p.o.Shadow.Dial(ctx)
		if err != nil {
			p.note(fmt.Errorf("the shadow: %w", err))
			return
		}
		defer c.Close()
		s.conns[shadow] = c
	}
	stop := context.AfterFunc(ctx, func() { // a read or a write ends with the session
		for _, c := range s.conns {
			if c != nil {
				c.Close()
			}
		}
	})
	defer stop()
	var readers sync.WaitGroup
	for side, c := range s.conns {
		if c != nil {
			readers.Add(1)
			go func() {
				defer readers.Done()
				s.read(side, c)
			}()
		}
	}
	err = s.run()
	end()
	readers.Wait()
	if !errors.Is(err, context.Canceled) {
		p.note(err)
	}
}

// note keeps why a session ended, for Ended.
func (p *Proxy) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ended) < maxSessions {
		p.ended = append(p.ended, err)
	}
}

// Ended are the reasons why connections ended, those of Cut and Close aside.
func (p *Proxy) Ended() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]error(nil), p.ended...)
}

// The sides of a session.
const (
	controller = iota // csig
	wire              // the switch that has the ports
	shadow            // the one that answers for it
)

type received struct {
	side int
	m    Message
	err  error
}

// read gives the messages of one side to the session's loop.
func (s *session) read(side int, c net.Conn) {
	r := bufio.NewReaderSize(c, 1<<16)
	for {
		m, err := readMessage(r)
		select {
		case s.from <- received{side, m, err}:
		case <-s.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
