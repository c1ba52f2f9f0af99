package ofp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// Role is what a controller may do beside others (1.3.5 §6.3.5, §7.3.9).
type Role uint32

// The roles. A switch has one master at most: who becomes it makes another one a slave.
const (
	roleAsk    Role = 0 // NOCHANGE: which it is
	RoleEqual  Role = 1 // may change everything; what a connection begins with
	RoleMaster Role = 2 // as equal, and the only one that is master
	RoleSlave  Role = 3 // may only read
)

// String is the role as OpenFlow's documents write it.
func (r Role) String() string {
	if names := [...]string{"NOCHANGE", "EQUAL", "MASTER", "SLAVE"}; int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("role %d", uint32(r))
}

// staleTries bounds how often a generation is chosen, where others choose one, too.
const staleTries = 4

// Guard is of a switch that several controllers may drive, one at a time.
type Guard struct {
	May func() error // asked before anything is sent

	// Generation is higher for each owner of the switch: a role of master is requested with
	// it (1.3.5 §6.3.5). Where the switch knows a newer one, another controller owns it.
	Generation uint64

	// Bound bounds how long the kernel goes on sending what was written; nil: something else does.
	Bound func(net.Conn) error
}

// Guard has everything that is sent from now on guarded, and the role requested again.
func (o *Conn) Guard(g *Guard) {
	if o.guard.Swap(g) == g {
		return
	}
	if g.Bound != nil {
		under := o.c
		if secured, is := under.(*tls.Conn); is {
			under = secured.NetConn()
		}
		if err := g.Bound(under); err != nil {
			o.fail(fmt.Errorf("bound how long unsent data is kept: %w", err))
		}
	}
	o.taking.Lock()
	defer o.taking.Unlock()
	o.taken = false
}

// Want has a role taken before the first change.
func (o *Conn) Want(r Role) { o.wants = r }

// SetRole requests a role, and checks that the switch has given it. A guarded master takes its
// guard's generation; other masters, and slaves, the one after the newest that the switch knows.
func (o *Conn) SetRole(ctx context.Context, want Role) error {
	for try := 1; ; try++ {
		generation, fixed := uint64(0), false
		if g := o.guard.Load(); g != nil && want == RoleMaster {
			generation, fixed = g.Generation, true
		} else if want != RoleEqual {
			_, newest, err := o.role(ctx, roleAsk, 0)
			if err != nil {
				return fmt.Errorf("which role csig has: %w", err)
			}
			generation = newest + 1 // of all ones, where there was none yet
		}
		is, _, err := o.role(ctx, want, generation)
		var refused *Error
		switch {
		case !fixed && errors.As(err, &refused) && refused.Type == errRoleRequest && refused.Code == roleStale && try < staleTries:
			continue // another controller was faster
		case err != nil && fixed:
			return fmt.Errorf("role %s as generation %#x: %w", want, generation, err)
		case err != nil:
			return fmt.Errorf("role %s: %w", want, err)
		case is != want:
			return fmt.Errorf("role %s was requested, and the switch answers %s", want, is)
		}
		return nil
	}
}

// takeRole takes the role of a Config's, once. One that only reads, or is not to change
// anything (vendors.Config.Claim), has taken it from no other controller then.
func (o *Conn) takeRole(ctx context.Context) error {
	o.taking.Lock()
	defer o.taking.Unlock()
	if o.wants == 0 || o.taken {
		return nil
	}
	err := o.SetRole(ctx, o.wants)
	switch {
	case err == nil:
		o.taken = true
	case isRefusal(err):
		return errors.New(err.Error()) // not of a change
	}
	return err
}

// roleStale is the code of errRoleRequest for a generation that is too old.
const roleStale = 0

// role requests a role and returns the answer.
func (o *Conn) role(ctx context.Context, want Role, generation uint64) (is Role, newest uint64, err error) {
	body := order.AppendUint64(zeros(order.AppendUint32(nil, uint32(want)), 4), generation)
	err = o.ask(ctx, typeRoleReq, typeRoleRep, body, func(b []byte) error {
		if len(b) < 16 {
			return errMalformed("a role")
		}
		is, newest = Role(order.Uint32(b)), order.Uint64(b[8:])
		return nil
	})
	return is, newest, err
}

// asyncKinds are packet-in, port status and flow removed, each for slaves and for the
// other roles.
const asyncKinds = 3 * 2

// MaskAsync asks the switch to send no packet-ins, port states and removed flows
// (1.3.5 §7.3.10).
func (o *Conn) MaskAsync(ctx context.Context) error {
	ctx, cancel := o.limit(ctx)
	defer cancel()
	if err := o.begin(ctx); err != nil {
		return err
	}
	low := o.next(typeSetAsync)
	for kind := range uint16(asyncKinds) {
		if o.Version >= Version14 { // properties, in place of masks alone
			o.out = order.AppendUint16(order.AppendUint16(o.out, kind), 8)
		}
		o.out = order.AppendUint32(o.out, 0)
	}
	end(o.out, 0)
	r, err := o.expect(request{xid: o.barrier(), typ: typeBarrierRep, low: low})
	if err != nil {
		o.unlock()
		return err
	}
	_ = o.flush(ctx) // which ends the exchange, too, where it fails
	o.unlock()
	return o.wait(ctx, r)
}
