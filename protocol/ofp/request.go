package ofp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// request is a question that waits for its answer. Conn.mu guards it.
type request struct {
	xid  uint32
	typ  uint8                   // of the answer
	part uint16                  // of a multipart answer
	each func(body []byte) error // takes an answer's body, or a part of one; nil: it has none
	left int                     // bytes that a multipart answer may still have
	next *time.Timer             // ends the wait for a multipart answer whose next part does not come

	// A barrier has the refusals of what was sent before it, in the transactions
	// from low on; mods are those from first on.
	low, first uint32
	mods       []Mod
	refused    *Error // the first

	done chan error // of one
}

// An answer of many messages is bounded in bytes, a hundred thousand flows and more, and
// in how many times the patience of a connection it may take.
const (
	maxAnswer  = 32 << 20
	longAnswer = 12
)

// expect notes a question that is about to be sent.
func (o *Conn) expect(want request) (*request, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return nil, o.failed
	}
	var r *request
	if n := len(o.free); n > 0 {
		r, o.free = o.free[n-1], o.free[:n-1]
	} else {
		r = &request{done: make(chan error, 1)}
	}
	want.done, want.left = r.done, maxAnswer
	*r = want
	if len(r.mods) > 0 && o.names == nil {
		o.names = make([]named, keptNames)
	}
	for i := range r.mods {
		xid := r.first + uint32(i)
		o.names[xid%keptNames] = named{xid, r.mods[i].Name}
	}
	o.pending[r.xid] = r
	return r, nil
}

// wait waits for the answer. Where the caller's context ends the question is given
// up; where the switch is silent, so is the connection.
func (o *Conn) wait(ctx context.Context, r *request) error {
	var err error
	select {
	case err = <-r.done:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.As(cause, new(*silence)) {
			o.fail(cause)
		}
		o.mu.Lock()
		if o.pending[r.xid] == r {
			o.complete(r, fmt.Errorf("the switch was not waited for any longer: %w", cause))
		}
		o.mu.Unlock()
		err = <-r.done
	}
	o.mu.Lock()
	*r = request{done: r.done}
	o.free = append(o.free, r)
	o.mu.Unlock()
	return err
}

// complete ends a question, mu held.
func (o *Conn) complete(r *request, err error) {
	delete(o.pending, r.xid)
	if err == nil {
		o.stray = 0
		if r.refused != nil {
			err = r.refused
		}
	}
	r.done <- err
}

// answer takes in a message that has a question's transaction, mu held; false where
// it is none of its answers. An error ends the connection.
func (o *Conn) answer(r *request, m received) (bool, error) {
	typ, body := m.typ, m.body
	if typ != r.typ { // one that the switch sends by itself has any transaction
		return false, nil
	}
	if typ == typeMultipartRep {
		if len(body) < 8 || order.Uint16(body) != r.part {
			return true, errMalformed("an answer to another question")
		}
		if r.left -= len(body); r.left < 0 {
			return true, fmt.Errorf("%w: of an answer csig takes %d MiB", untrusted.ErrTooLong, maxAnswer>>20)
		}
		r.next.Reset(o.patience)
		if err := r.each(body[8:]); err != nil {
			return true, err
		}
		if order.Uint16(body[2:])&1 == 0 { // no more to come
			o.complete(r, nil)
		} else if o.stray += headerLen + 8; o.stray > maxStray {
			return true, fmt.Errorf("%w: an answer in too many parts", untrusted.ErrTooLong)
		}
		return true, nil
	}
	if r.each != nil {
		if err := r.each(body); err != nil {
			return true, err
		}
	}
	o.complete(r, nil)
	return true, nil
}

// ask asks for one answer, whose body each takes where it is not nil. Of a multipart answer each
// part has the connection's patience.
func (o *Conn) ask(ctx context.Context, typ, answer uint8, body []byte, each func(body []byte) error) error {
	want := request{typ: answer, each: each}
	if typ != typeMultipartReq {
		ctx, cancel := o.limit(ctx)
		defer cancel()
		return o.exchange(ctx, typ, body, want)
	}
	whole := longAnswer * o.patience
	ctx, cancel := context.WithTimeoutCause(ctx, whole, &silence{whole})
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	want.part = order.Uint16(body)
	want.next = time.AfterFunc(o.patience, func() { giveUp(&silence{o.patience}) })
	defer want.next.Stop()
	return o.exchange(ctx, typ, body, want)
}

// exchange sends a question of one message, and waits for the answer as long as limit
// has it.
func (o *Conn) exchange(ctx context.Context, typ uint8, body []byte, want request) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	want.xid = o.next(typ)
	if want.mods == nil {
		want.low = want.xid
	}
	o.out = append(o.out, body...)
	end(o.out, 0)
	r, err := o.expect(want)
	if err != nil {
		o.unlock()
		return err
	}
	_ = o.flush(ctx) // which ends the exchange, too, where it fails
	o.unlock()
	return o.wait(ctx, r)
}

// Barrier waits until the switch has processed everything before it.
func (o *Conn) Barrier(ctx context.Context) error {
	return o.ask(ctx, typeBarrierReq, typeBarrierRep, nil, nil)
}

// Echo waits until the switch answers.
func (o *Conn) Echo(ctx context.Context) error {
	return o.ask(ctx, typeEchoRequest, typeEchoReply, nil, nil)
}

// Multipart types (§7.3.5).
const (
	partDesc          = 0
	partFlow          = 1
	partPortStats     = 4
	partGroupDesc     = 7
	partTableFeatures = 12
	partPortDesc      = 13
)

// multipart asks, and gives every part of the answer to f.
func (o *Conn) multipart(ctx context.Context, typ uint16, request []byte, f func(body []byte) error) error {
	body := append(zeros(order.AppendUint16(make([]byte, 0, 64), typ), 6), request...)
	return o.ask(ctx, typeMultipartReq, typeMultipartRep, body, f)
}

// AllTables is every table, in a Filter and in a Flow that DeleteAll is about.
const AllTables = 0xff

// Filter says which flows Flows reads. The zero value is those of table 0.
type Filter struct {
	Table              uint8  // or AllTables
	Cookie, CookieMask uint64 // only flows whose cookie is Cookie in these bits
}

// MaxFlows bounds the flows of an answer: the smallest has 56 bytes there, and many
// times as much here.
const MaxFlows = 1 << 17

// Flows reads flows.
func (o *Conn) Flows(ctx context.Context, which Filter) ([]Flow, error) {
	var out []Flow
	seen := 0
	request := order.AppendUint32([]byte{which.Table, 0, 0, 0}, PortAny)
	request = zeros(order.AppendUint32(request, 0xffffffff), 4) // any group
	request = order.AppendUint64(request, which.Cookie)
	request = order.AppendUint64(request, which.CookieMask)
	err := o.multipart(ctx, partFlow, (&Match{}).append(request), func(body []byte) error {
		return eachFlow(body, func(f *Flow) error {
			if seen++; seen > MaxFlows {
				return fmt.Errorf("%w: of flows csig takes %d", untrusted.ErrTooLong, MaxFlows)
			}
			// A switch may return others, and where each table is asked for they would be there twice.
			if (which.Table == AllTables || f.Table == which.Table) && (f.Cookie^which.Cookie)&which.CookieMask == 0 {
				out = append(out, *f)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
