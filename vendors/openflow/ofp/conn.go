package ofp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// Conn is a connection with a bridge. It is not safe for concurrent use. After
// an error that is no *Error it is closed.
type Conn struct {
	c      net.Conn
	xid    uint32
	bundle uint32
	out    []byte // being written
	in     []byte // read and not looked at yet, from at
	at     int
	first  uint32 // the transaction of mods[0]
	mods   []Mod  // of the bundle being sent
	failed error
	once   sync.Once
}

// newest is the newest version of OpenFlow, 1.5's: a hello may be of it.
const newest = 6

// Patience is how long an exchange with the bridge may take.
const Patience = 5 * time.Second

// maxMessage bounds what is read at once: the length of a message has 16 bits.
const maxMessage = 1 << 16

// maxAnswer bounds an answer of many messages, in bytes: a hundred thousand flows
// and more.
const maxAnswer = 32 << 20

// maxFlows bounds the flows of an answer: the smallest has 56 bytes there, and many
// times as much here.
const maxFlows = 1 << 17

// NewConn says hello on a connection that was just made. When ctx ends the
// connection is closed, here and in the other methods. A bridge that does not
// speak OpenFlow 1.4 is an *Error.
func NewConn(ctx context.Context, c net.Conn) (*Conn, error) {
	o := &Conn{c: c}
	o.out = begin(o.out[:0], typeHello, o.next())
	o.out = append(o.out, 0, 1, 0, 8, 0, 0, 0, 1<<version) // OFPHET_VERSIONBITMAP
	end(o.out, 0)
	err := o.during(ctx, func() error {
		if err := o.flush(); err != nil {
			return err
		}
		for {
			typ, _, body, err := o.read()
			switch {
			case err != nil:
				return err
			case typ == typeError:
				return readError(body)
			case typ == typeHello:
				return nil
			}
		}
	})
	if err == nil {
		err = o.Barrier(ctx) // an incompatible hello is answered with an error
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Close ends the connection.
func (o *Conn) Close() error {
	var err error
	o.once.Do(func() { err = o.c.Close() })
	return err
}

func (o *Conn) next() uint32 {
	o.xid++
	return o.xid
}

// during carries out an exchange. Where it does not come to an end the
// connection is of no use any more.
func (o *Conn) during(ctx context.Context, f func() error) error {
	if o.failed != nil {
		return o.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("no answer for %v", Patience))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { o.Close() }) // not every connection has deadlines
	err := f()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	var refused *Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	o.failed = fmt.Errorf("the connection with the bridge broke: %w", err)
	o.Close()
	return o.failed
}

func (o *Conn) flush() error {
	_, err := o.c.Write(o.out)
	o.out = o.out[:0]
	return err
}

// read returns the next message; body is valid until the next read. Echo
// requests are answered.
func (o *Conn) read() (typ uint8, xid uint32, body []byte, err error) {
	for {
		h, err := o.peek(headerLen)
		if err != nil {
			return 0, 0, nil, err
		}
		if h[0] == 0 || h[0] > newest {
			return 0, 0, nil, errMalformed(fmt.Sprintf("version %d", h[0]))
		}
		n := int(order.Uint16(h[2:]))
		if n < headerLen {
			return 0, 0, nil, errMalformed("a message shorter than its header")
		}
		m, err := o.peek(n)
		if err != nil {
			return 0, 0, nil, err
		}
		o.at += n
		typ, xid, body = m[1], order.Uint32(m[4:]), m[headerLen:]
		if typ == typeHello && m[0] < version {
			return 0, 0, nil, &Error{Type: errHelloClash}
		}
		if m[0] != version && typ != typeHello && typ != typeError {
			return 0, 0, nil, errMalformed(fmt.Sprintf("version %d", m[0]))
		}
		if typ != typeEchoRequest {
			return typ, xid, body, nil
		}
		reply := append(begin(nil, typeEchoReply, xid), body...)
		end(reply, 0)
		if _, err := o.c.Write(reply); err != nil {
			return 0, 0, nil, err
		}
	}
}

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
				err = errors.New("the bridge closed it")
			}
			return nil, err
		}
	}
	return o.in[o.at : o.at+n], nil
}

func readError(body []byte) error {
	if len(body) < 4 {
		return errMalformed("an error message")
	}
	return &Error{Type: order.Uint16(body), Code: order.Uint16(body[2:])}
}

// Barrier waits until the bridge has dealt with everything before it.
func (o *Conn) Barrier(ctx context.Context) error {
	return o.during(ctx, func() error {
		xid := o.next()
		o.out = begin(o.out[:0], typeBarrierReq, xid)
		end(o.out, 0)
		if err := o.flush(); err != nil {
			return err
		}
		return o.await(typeBarrierRep, xid)
	})
}

// await reads until the reply to xid. An error message about any request is
// kept and returned when the reply, or the error about xid itself, has come.
func (o *Conn) await(want uint8, xid uint32) error {
	var first error
	for {
		typ, of, body, err := o.read()
		if err != nil {
			return err
		}
		if typ == typeError {
			err := readError(body)
			var refused *Error
			if errors.As(err, &refused) {
				refused.Name = o.nameOf(of)
			}
			if first == nil {
				first = err
			}
		}
		if of == xid && (typ == want || typ == typeError) {
			return first
		}
	}
}

// Bundle types and flags (§7.3.9).
const (
	bundleOpen      = 0
	bundleCommit    = 4
	bundleDiscard   = 6
	bundleFlags     = 1<<0 | 1<<1 // atomic, ordered
	bundleFlushSize = 1 << 16     // bytes that are sent at once
)

func (o *Conn) control(typ uint16) uint32 {
	xid, start := o.next(), len(o.out)
	o.out = begin(o.out, typeBundleControl, xid)
	o.out = order.AppendUint32(o.out, o.bundle)
	o.out = order.AppendUint16(o.out, typ)
	o.out = order.AppendUint16(o.out, bundleFlags)
	end(o.out, start)
	return xid
}

// Commit carries out changes in their order, as one atomic bundle: all or none
// of them, and every frame sees the tables of before or of after. A refusal is
// an *Error with the name of the change that caused it; nothing has changed
// then.
func (o *Conn) Commit(ctx context.Context, mods []Mod) error {
	if len(mods) == 0 {
		return nil
	}
	return o.during(ctx, func() error {
		o.bundle++
		o.out = o.out[:0]
		o.control(bundleOpen)
		o.first, o.mods = o.xid+1, mods
		defer func() { o.mods = nil }()
		for i := range mods {
			start := len(o.out)
			o.out = begin(o.out, typeBundleAdd, o.next())
			o.out = order.AppendUint32(o.out, o.bundle)
			o.out = order.AppendUint16(zeros(o.out, 2), bundleFlags)
			o.out = appendMod(o.out, &mods[i], o.xid)
			end(o.out, start)
			if len(o.out) > bundleFlushSize {
				if err := o.flush(); err != nil {
					return err
				}
			}
		}
		// What cannot even be decoded is refused and left out, and the rest
		// would be committed without it.
		ready, start := o.next(), len(o.out)
		o.out = begin(o.out, typeBarrierReq, ready)
		end(o.out, start)
		if err := o.flush(); err != nil {
			return err
		}
		refused := o.await(typeBarrierRep, ready)
		var e *Error
		switch {
		case refused == nil:
			commit := o.control(bundleCommit)
			if err := o.flush(); err != nil {
				return err
			}
			return o.await(typeBundleControl, commit)
		case errors.As(refused, &e):
			discard := o.control(bundleDiscard)
			if err := o.flush(); err != nil {
				return err
			}
			if err := o.await(typeBundleControl, discard); err != nil && !errors.As(err, &e) {
				return err
			}
		}
		return refused
	})
}

// nameOf says which change of a bundle an error is about.
func (o *Conn) nameOf(xid uint32) string {
	if i := int(xid - o.first); i >= 0 && i < len(o.mods) {
		return o.mods[i].Name
	}
	return ""
}

// Multipart types (§7.3.5).
const (
	partFlow      = 1
	partPortStats = 4
	partGroupDesc = 7
	partPortDesc  = 13
)

// multipart asks and gives every part of the answer to f.
func (o *Conn) multipart(ctx context.Context, typ uint16, request []byte, f func(body []byte) error) error {
	return o.during(ctx, func() error {
		xid := o.next()
		o.out = begin(o.out[:0], typeMultipartReq, xid)
		o.out = append(zeros(order.AppendUint16(o.out, typ), 6), request...)
		end(o.out, 0)
		if err := o.flush(); err != nil {
			return err
		}
		for left := maxAnswer; ; {
			got, of, body, err := o.read()
			switch {
			case err != nil:
				return err
			case of != xid:
				continue
			case got == typeError:
				return readError(body)
			case got != typeMultipartRep || len(body) < 8 || order.Uint16(body) != typ:
				return errMalformed("an answer to another question")
			}
			if left -= len(body); left < 0 {
				return fmt.Errorf("%w: of an answer csig takes %d MiB", untrusted.ErrTooLong, maxAnswer>>20)
			}
			if err := f(body[8:]); err != nil {
				return err
			}
			if order.Uint16(body[2:])&1 == 0 { // no more to come
				return nil
			}
		}
	})
}

// AllTables asks Flows for those of every table.
const AllTables = 0xff

// Filter says which flows Flows reads. The zero value is those of table 0.
type Filter struct {
	Table              uint8  // or AllTables
	Cookie, CookieMask uint64 // only flows whose cookie is Cookie in these bits
}

// Flows reads flows.
func (o *Conn) Flows(ctx context.Context, which Filter) ([]Flow, error) {
	var out []Flow
	request := order.AppendUint32([]byte{which.Table, 0, 0, 0}, PortAny)
	request = zeros(order.AppendUint32(request, 0xffffffff), 4) // any group
	request = order.AppendUint64(request, which.Cookie)
	request = order.AppendUint64(request, which.CookieMask)
	err := o.multipart(ctx, partFlow, (&Match{}).append(request), func(body []byte) (err error) {
		if out, err = parseFlows(out, body); len(out) > maxFlows {
			return fmt.Errorf("%w: of flows csig takes %d", untrusted.ErrTooLong, maxFlows)
		}
		return err
	})
	return out, err
}
