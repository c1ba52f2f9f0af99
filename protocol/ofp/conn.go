package ofp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Conn is one connection with a switch. It is safe for concurrent use. An exchange
// that its context ends is given up: whether its changes were carried out is unknown, and
// the connection stays, unless half a message was written. Any other error that is no
// *Error closes it.
type Conn struct {
	Version  Version
	Datapath Datapath

	// Epoch numbers the connections of a Session, from 1 on: a switch that is
	// connected again may have lost groups and flows.
	Epoch uint64

	// AsyncRefused is why packet-ins are not masked; nil where they are, or where
	// that was not asked for. They are dropped.
	AsyncRefused error

	c        net.Conn
	patience time.Duration
	done     chan struct{} // closed where the connection has ended
	echoes   chan []byte   // to be answered

	in []byte // read and not looked at yet, from at; the reader's
	at int

	writing chan struct{} // holds a token while a goroutine writes; it guards these:
	out     []byte        // being written
	xid     uint32
	bundle  uint32

	taking sync.Mutex // guards these:
	wants  Role       // is taken before the first change; 0: none is to be
	taken  bool

	guard atomic.Pointer[Guard] // nil: no other drives the switch

	mu      sync.Mutex // guards these:
	pending map[uint32]*request
	free    []*request
	names   []named // of the newest changes, by xid modulo their number
	late    []*Error
	stray   int // bytes that answer no question, since an answer
	failed  error
}

// Patience is how long an answer on a connection of NewConn may take, or the next part of one.
const Patience = 5 * time.Second

// maxMessage bounds what is read at once: the length of a message has 16 bits.
const maxMessage = 1 << 16

// maxStray bounds what a switch sends that answers no question, in bytes between
// two answers.
const maxStray = 16 << 20

// errClosed is why a connection ended that its owner closed.
var errClosed = errors.New("it was closed")

// NewConn says hello on a connection that was just made, which belongs to the Conn
// then, and speaks the newest of the versions that the switch speaks, too. A switch
// that speaks none is an *Error.
func NewConn(ctx context.Context, c net.Conn, versions ...Version) (*Conn, error) {
	o, err := newConn(ctx, c, Patience, versions...)
	if err != nil {
		return nil, err
	}
	o.run()
	return o, nil
}

// newConn is a connection whose switch has said which it is, and that is not run yet.
func newConn(ctx context.Context, c net.Conn, patience time.Duration, versions ...Version) (*Conn, error) {
	o := &Conn{c: c, patience: patience, done: make(chan struct{}), echoes: make(chan []byte, 4), writing: make(chan struct{}, 1), pending: map[uint32]*request{}}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, o.shut) // not every connection has deadlines
	err := o.hello(versions)
	if !stop() && (err == nil || !isRefusal(err)) {
		err = context.Cause(ctx)
	}
	if err != nil {
		o.fail(err)
		if isRefusal(err) {
			return nil, err
		}
		return nil, o.failed
	}
	return o, nil
}

// run takes in what the switch sends, until the connection ends.
func (o *Conn) run() {
	go o.reader()
	go o.answerer()
}

// shut closes what is below the connection. A TLS connection's own Close would wait
// for a switch that does not read.
func (o *Conn) shut() {
	if secured, is := o.c.(*tls.Conn); is {
		_ = secured.NetConn().Close() // of no use any more
		return
	}
	_ = o.c.Close() // of no use any more
}

func isRefusal(err error) bool {
	var refused *Error
	return errors.As(err, &refused)
}

// limit is the context of one exchange.
func (o *Conn) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, o.patience, &silence{o.patience})
}

// silence is why an exchange ended that the switch did not answer, or not to the end.
type silence struct{ after time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("no answer for %v", s.after) }

// Close ends the connection.
func (o *Conn) Close() error {
	o.fail(errClosed)
	return nil
}

// Done is closed when the connection has ended.
func (o *Conn) Done() <-chan struct{} { return o.done }

// Err is why the connection ended; nil while it lives.
func (o *Conn) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// fail ends the connection, and every exchange on it.
func (o *Conn) fail(err error) {
	defer o.shut()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return
	}
	o.failed = fmt.Errorf("the connection with the switch broke: %w", err)
	close(o.done)
	for _, r := range o.pending {
		o.complete(r, o.failed)
	}
}

// begin waits until no other goroutine writes. The caller appends to out, and calls
// send or unlock.
func (o *Conn) begin(ctx context.Context) error {
	select {
	case <-o.done:
		return o.Err()
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case o.writing <- struct{}{}:
		o.out = o.out[:0]
		return nil
	case <-o.done:
		return o.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *Conn) unlock() { <-o.writing }

// next begins a message, and returns its transaction.
func (o *Conn) next(typ uint8) uint32 {
	o.xid++
	o.out = begin(o.out, o.Version, typ, o.xid)
	return o.xid
}

// writeGrace is how long a message that is being written may take after its exchange was given up.
const writeGrace = time.Second

// flush writes what was appended. Where that does not come to an end, half a message
// may have been written, and the connection is of no use any more. A question that is given up
// while it is written ends no connection that others use: the switch only has to take it.
func (o *Conn) flush(ctx context.Context) error {
	if g := o.guard.Load(); g != nil {
		if err := g.May(); err != nil {
			o.fail(err)
			return o.Err()
		}
	}
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(writeGrace)
		defer grace.Stop()
		select {
		case <-written:
		case <-grace.C:
			o.fail(context.Cause(ctx))
		}
	})
	_, err := o.c.Write(o.out)
	o.out = o.out[:0]
	close(written)
	stop()
	if err != nil {
		o.fail(err)
		return o.Err()
	}
	return nil
}

// answerer answers echo requests.
func (o *Conn) answerer() {
	for {
		select {
		case <-o.done:
			return
		case m := <-o.echoes:
			ctx, cancel := o.limit(context.Background())
			if o.begin(ctx) == nil {
				o.out = append(o.out, m...)
				_ = o.flush(ctx) // which ends the connection
				o.unlock()
			}
			cancel()
		}
	}
}

// reader takes in what the switch sends, until the connection ends.
func (o *Conn) reader() { o.fail(o.takeAll()) }

func (o *Conn) takeAll() (err error) {
	defer untrusted.Recover(&err)
	for {
		m, err := o.read()
		if err == nil {
			err = o.take(m)
		}
		if err != nil {
			return err
		}
	}
}

// take takes in one message. An error ends the connection.
func (o *Conn) take(m received) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.pending[m.xid]
	switch {
	case m.typ == typeError:
		if err := o.refuse(m); err != nil {
			return err
		}
	case m.typ == typeEchoRequest:
		reply := append(begin(nil, o.Version, typeEchoReply, m.xid), m.body...)
		end(reply, 0)
		select {
		case o.echoes <- reply:
		default: // it asks faster than it reads
		}
	case r != nil:
		if took, err := o.answer(r, m); took {
			return err
		}
	}
	if o.stray += headerLen + len(m.body); o.stray > maxStray {
		return fmt.Errorf("%w: %d MiB that answer nothing", untrusted.ErrTooLong, maxStray>>20)
	}
	return nil
}

// received is a message that was read.
type received struct {
	version Version
	typ     uint8
	xid     uint32
	body    []byte // valid until the next is read
}

// read returns the next message.
func (o *Conn) read() (received, error) {
	h, err := o.peek(headerLen)
	if err != nil {
		return received{}, err
	}
	v, typ, n := Version(h[0]), h[1], int(order.Uint16(h[2:]))
	switch {
	case v == 0 || v > newest, o.Version != 0 && v != o.Version && typ != typeHello && typ != typeError:
		return received{}, errMalformed(fmt.Sprintf("version %d", v))
	case n < headerLen:
		return received{}, errMalformed("a message shorter than its header")
	}
	m, err := o.peek(n)
	if err != nil {
		return received{}, err
	}
	o.at += n
	return received{v, typ, order.Uint32(m[4:]), m[headerLen:]}, nil
}

var errHungUp = errors.New("the switch closed it")

// peek returns the next n bytes without taking them.
func (o *Conn) peek(n int) ([]byte, error) {
	for len(o.in)-o.at < n {
		if o.at > 0 {
			o.in = o.in[:copy(o.in, o.in[o.at:])]
			o.at = 0
		}
		if cap(o.in) < maxMessage {
			o.in = append(make([]byte, 0, 2*maxMessage), o.in...)
		}
		k, err := o.c.Read(o.in[len(o.in):cap(o.in)])
		o.in = o.in[:len(o.in)+k]
		if err != nil && len(o.in) < n {
			if errors.Is(err, io.EOF) {
				err = errHungUp
			}
			return nil, err
		}
	}
	return o.in[o.at : o.at+n], nil
}
