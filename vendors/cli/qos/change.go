package qos

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vlanrules"
)

// MaxIdle is how many classifiers, and behaviors, stay that no policy has: a bucket that comes back needs no
// lines for those. The least that a switch has for all is 256 (vendors/vrp).
const MaxIdle = 16

// Change is what one port is to get. It is made in two halves: what is new is bound beside the old, and where the
// switch reports the policy in hardware the old is taken out.
type Change struct {
	port    string
	compile func(have vlanrules.Table) ([]vlanrules.Op, error) // nil: its entries stay
	apply   bool                                               // its policy has to be applied
	tpid    uint16                                             // its outer tags have to have; 0: any

	had        uint16 // the TPID of its outer tags before
	ops        int
	fresh      bool     // it had no policy
	wrote      bool     // the first half has lines
	added, out []string // classifiers that came with the first half, and that go with the second
}

// first adds the first half to a script.
func (c *Change) first(s *Script) error {
	s.For(c.port)
	defer s.For("")
	port := s.View.Port(c.port)
	if port == nil { // its card was taken out meanwhile
		return &vendors.PortError{Port: c.port, Err: errors.New("the switch has no such interface any more")}
	}
	c.had = port.TPID
	name, lines := PolicyName(c.port), len(s.Lines)
	before, there := s.View.Policies[name]
	have, strays := s.View.Table(nil, c.port, s.At)
	var ops []vlanrules.Op
	if c.compile != nil {
		var err error
		if ops, err = c.compile(have); err != nil {
			return err
		}
	}
	c.fresh, c.ops = !there, len(ops)
	c.out = append(s.View.Deleted(c.port, s.At, ops), strays...)
	if err := s.Add(c.port, ops); err != nil {
		return &vendors.PermanentError{Port: c.port, Err: err}
	}
	c.added = nil
	for _, b := range s.View.Policies[name] {
		if !slices.ContainsFunc(before, func(old Binding) bool { return old.Class == b.Class }) {
			c.added = append(c.added, b.Class)
		}
	}
	if c.apply && !port.Ours() { // no frame meets what is to go, and none shall
		s.Out(c.port, c.out)
		c.out = nil
	}
	if c.tpid != 0 {
		s.TPID(port, c.tpid)
	}
	if c.apply {
		s.Apply(port)
	}
	c.wrote = len(s.Lines) > lines
	return nil
}

// second adds the second half, or what takes the first back.
func (c *Change) second(s *Script, healthy bool) {
	s.For(c.port)
	defer s.For("")
	switch {
	case healthy:
		s.Out(c.port, c.out)
	case c.fresh:
		s.Drop(c.port)
	default:
		s.Out(c.port, c.added)
	}
	if p := s.View.Port(c.port); !healthy && p.TPID != c.had {
		if c.had == DefaultTPID {
			s.GiveBack(func(_ Found, port *Port) bool { return port != p })
		} else {
			s.TPID(p, c.had)
		}
	}
}

// CarryOut makes changes, after what prepare adds, but for ports that skip is true of. A port whose lines are
// refused, or whose policy the switch does not take into hardware, is an error of its own. done has the operations
// of the ports that changed.
func (d *Driver) CarryOut(ctx context.Context, prepare func(s *Script, skip func(port string) bool), changes []*Change) (done map[string]int, err error) {
	done = map[string]int{}
	if d.AllAtOnce {
		return done, d.together(ctx, prepare, changes, done)
	}
	err = d.together(ctx, prepare, nil, done)
	for _, c := range changes {
		if d.Lost() {
			break
		}
		err = errors.Join(err, d.together(ctx, nil, []*Change{c}, done))
	}
	return done, err
}

// together makes changes in two halves that all have.
func (d *Driver) together(ctx context.Context, prepare func(*Script, func(string) bool), changes []*Change, done map[string]int) error {
	var errs []error
	bad := map[string]bool{}
	for {
		err := d.attempt(ctx, func(s *Script) {
			if prepare != nil {
				prepare(s, func(port string) bool { return bad[port] })
			}
		}, changes, done, &errs)
		refused := (*portRefused)(nil)
		if !errors.As(err, &refused) {
			return errors.Join(append(errs, err)...)
		}
		switch {
		case refused.port != "":
		case len(changes) > 1: // a commit: which of them it is not said
			for _, c := range changes {
				errs = append(errs, d.together(ctx, prepare, []*Change{c}, done))
			}
			return errors.Join(errs...)
		case len(changes) == 1:
			refused.port = changes[0].port
		}
		if refused.port == "" || bad[refused.port] {
			return errors.Join(append(errs, refused.err)...)
		}
		errs = append(errs, &vendors.PortError{Port: refused.port, Err: refused.err})
		bad[refused.port] = true
		changes = slices.DeleteFunc(slices.Clone(changes), func(c *Change) bool { return c.port == refused.port })
	}
}

// portRefused is a line that the switch did not take, of a port, "" for none in particular.
type portRefused struct {
	port string
	err  error
}

func (e *portRefused) Error() string { return e.err.Error() }

// attempt makes changes until one line is refused, which is a *portRefused.
func (d *Driver) attempt(ctx context.Context, prepare func(*Script), changes []*Change, done map[string]int, errs *[]error) error {
	if err := d.see(ctx); err != nil {
		return err
	}
	s := d.Script()
	prepare(s)
	var made []*Change
	for _, c := range changes {
		if err := c.first(s); err != nil {
			*errs = append(*errs, err)
			continue
		}
		made = append(made, c)
	}
	if err := d.half(ctx, s); err != nil {
		return err
	}
	unproved := slices.DeleteFunc(slices.Clone(made), func(c *Change) bool { return !c.wrote && !d.unproved(c) })
	if err := d.settle(ctx, unproved); err != nil {
		return err
	}
	touched := len(s.Lines) > 0
	s = d.Script()
	for _, c := range made {
		if !slices.Contains(unproved, c) || d.View.Hardware[c.port] == nil {
			c.second(s, true)
			continue
		}
		why := d.View.Hardware[c.port]
		if d.TakesBack {
			c.second(s, false)
			why = fmt.Errorf("%w; it has what it had before", why)
		}
		*errs = append(*errs, &vendors.PortError{Port: c.port, Err: why})
	}
	if touched && len(changes) > 0 || len(s.Lines) > 0 {
		s.Tidy(MaxIdle)
	}
	if err := d.half(ctx, s); err != nil {
		return err
	}
	if d.AllAtOnce && len(s.Lines) > 0 { // the whole policy was delivered again
		if err := d.settle(ctx, unproved); err != nil {
			return err
		}
		for _, c := range unproved {
			if why := d.View.Hardware[c.port]; why != nil && reconcile.Of(*errs, c.port) == nil {
				*errs = append(*errs, &vendors.PortError{Port: c.port, Err: why})
			}
		}
	}
	for _, c := range made {
		if c.ops > 0 && reconcile.Of(*errs, c.port) == nil {
			done[c.port] = c.ops
		}
	}
	return nil
}

// unproved reports whether what a change takes out may be all that is in hardware: where what is new stays beside it, an earlier
// change may have bound that.
func (d *Driver) unproved(c *Change) bool {
	why, asked := d.View.Hardware[c.port]
	return !d.TakesBack && len(c.out) > 0 && (!asked || why != nil)
}

// half writes one half of the changes.
func (d *Driver) half(ctx context.Context, s *Script) error {
	err := d.Write(ctx, s)
	if refused := (*cli.RefusedError)(nil); errors.As(err, &refused) && !d.Lost() {
		return &portRefused{port: s.PortOf(refused.Line), err: refused}
	}
	return err
}

// settle reads which policies are in hardware after a change of these: a success that is reported at once may be that of
// before.
func (d *Driver) settle(ctx context.Context, changes []*Change) error {
	if len(changes) == 0 || d.offline {
		return nil
	}
	var err error
	if d.Settle > 0 {
		err = vendors.Wait(ctx, d.Settle)
	}
	if err == nil {
		var ports []string
		for _, c := range changes {
			ports = append(ports, c.port)
		}
		err = d.Hardware(ctx, d.View, ports)
	}
	if err != nil {
		d.View = nil
	}
	return err
}
