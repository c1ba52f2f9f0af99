package ofp

import (
	"context"
	"fmt"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// named is the name of a change that was sent. A refusal may come long after the
// answer to the barrier that follows the change.
type named struct {
	xid  uint32
	name string
}

// keptNames is how many changes are known by name, of a connection's newest. A power of 2.
const keptNames = 1 << 12

// errRefusals ends a connection whose refusals cannot all be kept: which changes were
// carried out would not be known.
var errRefusals = fmt.Errorf("%w: more refusals than changes", untrusted.ErrTooLong)

// sendSize is how many bytes are sent at once.
const sendSize = 1 << 16

// Apply carries out steps, one after the other: the changes of one step in any order,
// as the switch likes, and then a barrier. It returns how many steps the switch has
// confirmed. A refusal is an *Error with the name of the change; others of the same
// step are carried out, later steps are not. So is a refusal of an earlier call's
// change that came after its barrier; nothing is sent then.
func (o *Conn) Apply(ctx context.Context, steps ...[]Mod) (done int, err error) {
	if err := o.takeRole(ctx); err != nil {
		return 0, err
	}
	for i, mods := range steps {
		if err := o.step(ctx, mods); err != nil {
			return i, err
		}
	}
	return len(steps), nil
}

func (o *Conn) step(ctx context.Context, mods []Mod) error {
	if late := o.takeLate(); late != nil {
		return late
	}
	if len(mods) == 0 {
		return nil
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	if err := o.begin(ctx); err != nil {
		return err
	}
	first := o.xid + 1
	r, err := o.expect(request{xid: first + uint32(len(mods)), typ: typeBarrierRep, low: first, first: first, mods: mods})
	if err != nil {
		o.unlock()
		return err
	}
	for i := range mods {
		o.xid++
		o.out = appendMod(o.out, o.Version, &mods[i], o.xid)
		if len(o.out) > sendSize && o.flush(ctx) != nil {
			break
		}
	}
	o.barrier()
	_ = o.flush(ctx) // which ends the exchange, too, where it fails
	o.unlock()
	return o.wait(ctx, r)
}

// barrier appends a barrier request, and returns its transaction.
func (o *Conn) barrier() uint32 {
	start := len(o.out)
	xid := o.next(typeBarrierReq)
	end(o.out, start)
	return xid
}

// LateErrors returns the refusals that came after the barrier that follows what they
// refuse, and that no call has returned yet.
func (o *Conn) LateErrors() []*Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	late := o.late
	o.late = nil
	return late
}

// takeLate is LateErrors as one error.
func (o *Conn) takeLate() error {
	late := o.LateErrors()
	if len(late) == 0 {
		return nil
	}
	first := *late[0]
	first.Late, first.Also = true, late[1:]
	return &first
}

// refuse takes in an error message, mu held.
func (o *Conn) refuse(m received) error {
	e := new(Error)
	if err := e.parse(m.body); err != nil {
		return err
	}
	if n := o.names; n != nil && n[m.xid%keptNames].xid == m.xid {
		e.Name = n[m.xid%keptNames].name
	}
	r := o.pending[m.xid]
	if r == nil {
		r = o.within(m.xid)
	}
	if r == nil {
		if len(o.late) == keptNames {
			return errRefusals
		}
		o.late = append(o.late, e)
		return nil
	}
	if i := int(m.xid - r.first); i < len(r.mods) {
		e.Name = r.mods[i].Name
	}
	switch {
	case r.refused == nil:
		r.refused = e
	case r.xid == m.xid: // the commit fails, since a change was refused
	case len(r.refused.Also) > len(r.mods):
		return errRefusals
	default:
		r.refused.Also = append(r.refused.Also, e)
	}
	if r.xid == m.xid {
		o.complete(r, nil)
	}
	return nil
}

// within is the question that a transaction before it belongs to, mu held; of several
// the one that began last.
func (o *Conn) within(xid uint32) *request {
	var in *request
	for _, r := range o.pending {
		if xid-r.low < r.xid-r.low && (in == nil || xid-r.low < xid-in.low) {
			in = r
		}
	}
	return in
}

// Bundle types and flags (1.4 §7.3.9).
const (
	bundleOpen    = 0
	bundleCommit  = 4
	bundleDiscard = 6
	bundleFlags   = 1<<0 | 1<<1 // atomic, ordered
)

func controlBody(bundle uint32, typ uint16) []byte {
	b := order.AppendUint32(make([]byte, 0, 8), bundle)
	return order.AppendUint16(order.AppendUint16(b, typ), bundleFlags)
}

// Commit carries out changes in their order, as one atomic bundle: all or none
// of them, and every frame sees the tables of before or of after. A refusal is
// an *Error with the name of the change that caused it; nothing has changed
// then. OpenFlow 1.3 has no bundles.
func (o *Conn) Commit(ctx context.Context, mods []Mod) error {
	if len(mods) == 0 {
		return nil
	}
	if o.Version < Version14 {
		return fmt.Errorf("OpenFlow %s has no bundles", o.Version)
	}
	if err := o.takeRole(ctx); err != nil {
		return err
	}
	if late := o.takeLate(); late != nil {
		return late
	}
	ctx, cancel := o.limit(ctx)
	defer cancel()
	bundle, opened, refused := o.fill(ctx, mods)
	if refused == nil { // what it refuses now it refuses by the change's own transaction
		return o.end(ctx, bundle, bundleCommit, request{low: opened, first: opened + 1, mods: mods})
	}
	if isRefusal(refused) {
		if err := o.end(ctx, bundle, bundleDiscard, request{}); err != nil && !isRefusal(err) {
			return err
		}
	}
	return refused
}

// end ends a bundle.
func (o *Conn) end(ctx context.Context, bundle uint32, how uint16, want request) error {
	want.typ = typeBundleControl
	return o.exchange(ctx, typeBundleControl, controlBody(bundle, how), want)
}

// fill opens a bundle and adds changes to it, and waits for their refusals: what
// cannot even be decoded is left out, and the rest would be committed without it.
func (o *Conn) fill(ctx context.Context, mods []Mod) (bundle, opened uint32, err error) {
	if err := o.begin(ctx); err != nil {
		return 0, 0, err
	}
	o.bundle++
	bundle, opened = o.bundle, o.xid+1
	r, err := o.expect(request{xid: opened + uint32(len(mods)) + 1, typ: typeBarrierRep, low: opened, first: opened + 1, mods: mods})
	if err != nil {
		o.unlock()
		return 0, 0, err
	}
	o.next(typeBundleControl)
	o.out = append(o.out, controlBody(bundle, bundleOpen)...)
	end(o.out, 0)
	for i := range mods {
		start := len(o.out)
		o.next(typeBundleAdd)
		o.out = order.AppendUint32(o.out, bundle)
		o.out = order.AppendUint16(zeros(o.out, 2), bundleFlags)
		o.out = appendMod(o.out, o.Version, &mods[i], o.xid)
		end(o.out, start)
		if len(o.out) > sendSize && o.flush(ctx) != nil {
			break
		}
	}
	o.barrier()
	_ = o.flush(ctx) // which ends the exchange, too, where it fails
	o.unlock()
	return bundle, opened, o.wait(ctx, r)
}
