package vrp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// maxIdle is how many classifiers or behaviors csig leaves for the next change, of the 512
// and 256 that the S series has for all (V200R011C10 Command Reference, traffic classifier,
// traffic behavior).
const maxIdle = 16

// change is what one port is to get. It is made in two halves: what is new is bound beside
// the old, and where the switch reports the policy in hardware the old is taken out.
type change struct {
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
func (c *change) first(s *qos.Script) error {
	s.For(c.port)
	defer s.For("")
	port := s.View.Port(c.port)
	if port == nil { // its card was taken out meanwhile
		return &vendors.PortError{Port: c.port, Err: errors.New("the switch has no such interface any more")}
	}
	c.had = port.TPID
	name, lines := qos.PolicyName(c.port), len(s.Lines)
	before, there := s.View.Policies[name]
	have, strays := s.View.Table(nil, c.port, at)
	var ops []vlanrules.Op
	if c.compile != nil {
		var err error
		if ops, err = c.compile(have); err != nil {
			return err
		}
	}
	c.fresh, c.ops = !there, len(ops)
	c.out = append(s.View.Deleted(c.port, at, ops), strays...)
	if err := s.Add(c.port, ops); err != nil {
		return &vendors.PermanentError{Port: c.port, Err: err}
	}
	c.added = nil
	for _, b := range s.View.Policies[name] {
		if !slices.ContainsFunc(before, func(old qos.Binding) bool { return old.Class == b.Class }) {
			c.added = append(c.added, b.Class)
		}
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
func (c *change) second(s *qos.Script, healthy bool) {
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
		if c.had == defaultTPID {
			s.GiveBack(func(port string) bool { return port != c.port })
		} else {
			s.TPID(p, c.had)
		}
	}
}

// carryOut makes changes, after what prepare adds. A port whose lines are refused, or whose
// policy the switch does not take into hardware, is an error of its own, and keeps what it
// had. done has the operations of the ports that changed.
func (d *Driver) carryOut(ctx context.Context, prepare func(*qos.Script), changes []*change) (done map[string]int, err error) {
	done = map[string]int{}
	var errs []error
	for {
		err := d.attempt(ctx, prepare, changes, done, &errs)
		refused := (*portRefused)(nil)
		if !errors.As(err, &refused) {
			return done, errors.Join(append(errs, err)...)
		}
		if refused.port == "" && len(changes) > 1 { // a commit: which of them it is not said
			if err := d.look(ctx); err != nil {
				return done, errors.Join(append(errs, err)...)
			}
			for _, c := range changes {
				one, err := d.carryOut(ctx, prepare, []*change{c})
				errs = append(errs, err)
				for port, ops := range one {
					done[port] = ops
				}
			}
			return done, errors.Join(errs...)
		}
		if refused.port == "" && len(changes) == 1 {
			refused.port = changes[0].port
		}
		if refused.port == "" {
			return done, errors.Join(append(errs, refused.err)...)
		}
		errs = append(errs, &vendors.PortError{Port: refused.port, Err: refused.err})
		changes = slices.DeleteFunc(slices.Clone(changes), func(c *change) bool { return c.port == refused.port })
		if err := d.look(ctx); err != nil {
			return done, errors.Join(append(errs, err)...)
		}
	}
}

// portRefused is a line that the switch did not take, of a port, "" for none in particular.
type portRefused struct {
	port string
	err  error
}

func (e *portRefused) Error() string { return e.err.Error() }

// attempt makes changes until one line is refused, which is a *portRefused.
func (d *Driver) attempt(ctx context.Context, prepare func(*qos.Script), changes []*change, done map[string]int, errs *[]error) error {
	if d.view == nil {
		if err := d.look(ctx); err != nil {
			return err
		}
	}
	s := d.script()
	prepare(s)
	var made []*change
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
	wrote := slices.ContainsFunc(made, func(c *change) bool { return c.wrote })
	if wrote {
		if err := d.settle(ctx); err != nil {
			return err
		}
	}
	touched := len(s.Lines) > 0
	s = d.script()
	for _, c := range made {
		var why error
		if c.wrote {
			why = d.view.notInHardware(c.port)
		}
		if c.second(s, why == nil); why != nil {
			*errs = append(*errs, &vendors.PortError{Port: c.port, Err: fmt.Errorf("%w; it has what it had before", why)})
		}
	}
	if touched || len(s.Lines) > 0 {
		s.Tidy(maxIdle)
	}
	if err := d.half(ctx, s); err != nil {
		return err
	}
	if wrote && len(s.Lines) > 0 { // the whole policy was delivered again
		if err := d.settle(ctx); err != nil {
			return err
		}
		for _, c := range made {
			if why := d.view.notInHardware(c.port); why != nil && c.wrote && refusal(*errs, c.port) == nil {
				*errs = append(*errs, &vendors.PortError{Port: c.port, Err: why})
			}
		}
	}
	for _, c := range made {
		if c.ops > 0 && refusal(*errs, c.port) == nil {
			done[c.port] = c.ops
		}
	}
	return nil
}

// half writes one half of the changes.
func (d *Driver) half(ctx context.Context, s *qos.Script) error {
	err := d.write(ctx, s)
	if refused := (*cli.RefusedError)(nil); errors.As(err, &refused) && d.session.Err() == nil {
		return &portRefused{port: s.PortOf(refused.Line), err: err}
	}
	return err
}
