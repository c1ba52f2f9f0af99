package comware

import (
	"errors"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// script begins a script with a copy of the view, which take makes the driver's.
func (d *Driver) script() *script {
	return newScript(d.view.clone(), d.at(), &d.freed)
}

// setUp is what gives a port its policy; nil where it has it. The entries of one that had
// it already stay, unless what all ports share changes.
func (d *Driver) setUp(want *vendors.Setup, port string, fresh bool) (*change, error) {
	s := d.script()
	have, strays := s.view.Table(nil, port, d.at())
	_, there := s.view.Policies[policyName(port)]
	p := s.view.Port(port)
	if p == nil { // its card was taken out meanwhile
		return nil, &vendors.PortError{Port: port, Err: errors.New("the switch has no such interface any more")}
	}
	fell := outbound(p) == deadPolicy
	c := &change{port: port}
	if !there || fresh || fell || len(strays) > 0 {
		intents := want.Fallback()
		if g := d.signals[port]; g != nil && g.Given() && !g.Refused() && !fresh && !fell {
			intents = g.Intents()
		}
		var err error
		if c, err = d.entries(s, port, have, strays, intents); err != nil {
			return nil, err
		}
	}
	if outbound(p) != policyName(port) { // no frame meets what is to go, and none shall
		c.first, c.then = append(c.first, c.then...), nil
	}
	if d.at() == outer {
		s.tpid(p, want.TPID)
	}
	s.apply(p)
	c.first = append(c.first, s.Lines...)
	c.policy = s.view.associated(port)
	if len(c.first)+len(c.then) == 0 {
		return nil, nil
	}
	d.view = s.view
	return c, nil
}

// entries is what gives a policy those of intents, before it is applied.
func (d *Driver) entries(s *script, port string, have vlanrules.Table, strays []string, intents []vlanrules.Intent) (*change, error) {
	var r vlanrules.Result
	d.compiler.Compile(&r, have, intents)
	if r.Verdict.Level == vlanrules.Refused || r.Gap {
		return nil, permanent(port, errors.New(r.Verdict.Reason))
	}
	c, err := s.change(port, r.Ops, strays)
	if err != nil {
		return nil, permanent(port, err)
	}
	return c, nil
}

// update is what gives a port the entries of its intents; nil where it has them.
func (d *Driver) update(u *vendors.PortUpdate) (*change, error) {
	if !d.setup.HasPort(u.Port) {
		return nil, vendors.NotInSetup(u.Port)
	}
	g := d.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		d.signals[u.Port] = g
	}
	if _, err := g.Give(d.setup, u.Port, d.setup.ActionOf(u.Port), u.Intents); err != nil {
		return nil, err
	}
	if d.setup.ActionOf(u.Port) != vlanrules.Update {
		return nil, nil
	}
	s := d.script()
	have, _ := s.view.Table(d.tables, u.Port, d.at())
	d.tables = have
	if err := g.Compile(d.compiler, u.Port, have); err != nil || len(g.Result.Ops) == 0 {
		return nil, err
	}
	c, err := s.change(u.Port, g.Result.Ops, nil)
	if err != nil {
		return nil, g.Refuse(u.Port, err.Error())
	}
	s.Tidy(maxIdle)
	c.then = append(c.then, s.Lines...)
	d.view = s.view
	return c, nil
}

// removal is what takes csig off a port. A policy that is not csig's alone is left alone.
func (d *Driver) removal(port string) (*change, error) {
	if err := d.view.notOurs(port); err != nil {
		return nil, permanent(port, err)
	}
	s := d.script()
	s.drop(port)
	d.view = s.view
	return &change{port: port, first: s.Lines}, nil
}

// shared is lines that no port needs by itself.
func (d *Driver) shared(write func(*script)) *change {
	s := d.script()
	if write(s); len(s.Lines) > 0 {
		d.view = s.view
	}
	return &change{first: s.Lines}
}

// notOurs is why a policy of csig's name is left alone; nil where it is csig's.
func (v *view) notOurs(port string) error {
	line := v.ForeignIn(port)
	if line == "" {
		return nil
	}
	return &vendors.ForeignError{What: "its QoS policy " + policyName(port) + " has a line that is not csig's, so csig leaves it alone: remove the line (" + untrusted.Text(line, 120) + ")"}
}

// foreignAt is what is in the place of csig's policy at a port, nil for nothing.
func (v *view) foreignAt(p *qos.Port) error {
	switch {
	case outbound(p) != "" && outbound(p) != policyName(p.Name) && outbound(p) != deadPolicy:
		return &vendors.ForeignError{What: "QoS policy " + outbound(p) + " is applied at its outbound direction, which takes one policy: remove it (undo qos apply policy outbound)"}
	case p.Blocked != "":
		return &vendors.ForeignError{What: "a QoS policy is applied to what leaves it in a way that csig does not use: remove it (" + p.Blocked + ")"}
	}
	return v.notOurs(p.Name)
}

// refusesAll is why a switch cannot have a setup as it is configured.
func (v *view) refusesAll(want *vendors.Setup, at position) error {
	if len(updating(want).Ports) == 0 {
		return nil
	}
	if at == inner && v.foreignTPID(nil, want.TPID, at) != nil {
		return &vendors.PermanentError{Err: v.foreignTPID(nil, want.TPID, at)}
	}
	return nil
}

// everywhere is the policy that something else than a port applies to what leaves ports.
func (v *view) everywhere() error {
	if v.elsewhere == "" {
		return nil
	}
	return &vendors.ForeignError{What: "a QoS policy that is not csig's is applied to what leaves this port, too: remove it (" + v.elsewhere + ")"}
}

// refuses is why a port cannot be part of a setup as it is configured.
func (v *view) refuses(want *vendors.Setup, name string, at position) error {
	p := v.Port(name)
	switch {
	case p == nil:
		return permanent(name, errors.New("the switch has no such interface"))
	case v.foreignAt(p) != nil:
		return permanent(name, v.foreignAt(p))
	case at == outer && v.foreignTPID(p, want.TPID, at) != nil:
		return permanent(name, v.foreignTPID(p, want.TPID, at))
	}
	return nil
}
