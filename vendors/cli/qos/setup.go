package qos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vlanrules"
)

// Observe reads back the setup: the record, and the policies of ports.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	v, err := d.Look(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	return v.Setup(d.At), nil
}

// Setup is what a view has of csig's.
func (v *View) Setup(at Position) vendors.Setup {
	var s vendors.Setup
	records, ports := v.Records(), v.Ours()
	switch len(records) {
	case 0:
		if len(ports) == 0 {
			if classes, behaviors := v.Idle(); len(classes)+len(behaviors)+len(v.Orphans())+len(v.Found()) > 0 {
				s.Damaged = "there are classifiers, behaviors or policies of csig's, and nothing else"
			}
			return s
		}
		s.Damaged = "the record of the setup (traffic behavior csig-setup-…) is not there"
	default:
		var was Position
		s, was, _ = ParseRecord(records[len(records)-1])
		switch {
		case len(records) > 1:
			s.Damaged = "there is more than one record of the setup"
		case was != at:
			s.Damaged = fmt.Sprintf("it was made for the %s tag, and the CSIG tag is the %s one", was, at)
		case len(ports) > 0 && at == Inner && v.InnerTPID != s.TPID:
			s.Damaged = fmt.Sprintf("the TPID of inner tags is 0x%04x: the setup has 0x%04x", v.InnerTPID, s.TPID)
		}
	}
	s.Layout = quantize.Draft00
	for _, name := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update, Damaged: v.Damage(name, s.TPID, at)})
	}
	return s
}

// Damage is what is not as csig left it at a port that has a policy of csig's; "" for nothing. A port that
// has fallen back is as csig leaves it.
func (v *View) Damage(name string, tpid uint16, at Position) string {
	p := v.Port(name)
	_, strays := v.Table(nil, name, at)
	why := v.refuses(name, tpid, at)
	switch {
	case why != nil:
		return why.Error()
	case at == Outer && tpid != 0 && p.TPID != tpid:
		return fmt.Sprintf("the TPID of its outer tags is 0x%04x: the setup has 0x%04x", p.TPID, tpid)
	case !p.Ours() && !v.fallen(p):
		return "its policy is not applied"
	case len(strays) > 0:
		return "classifiers or behaviors of its policy are not as csig left them: " + strings.Join(strays[:min(3, len(strays))], ", ")
	}
	if why := v.Hardware[name]; why != nil {
		return why.Error()
	}
	return ""
}

// fallen reports whether the dead-man has had a port fall back.
func (v *View) fallen(p *Port) bool {
	return p != nil && v.Kept != "" && slices.Contains(p.Applied, v.Kept)
}

// refuses is why a port cannot have a policy of csig's as the switch is configured; nil where it can.
func (v *View) refuses(name string, tpid uint16, at Position) error {
	p := v.Port(name)
	if p == nil {
		return errors.New("the switch has no such interface")
	}
	foreign := cmp.Or(v.ForeignAt(p), v.foreignIn(name))
	if foreign == nil && at == Outer && tpid != 0 {
		foreign = v.foreignTPID(p, tpid, at)
	}
	return foreign
}

// ForeignAt is what is in the place of csig's policy at a port, nil for nothing.
func (v *View) ForeignAt(p *Port) error {
	switch other := p.Foreign(); {
	case other != "" && other != v.Kept:
		return &vendors.ForeignError{What: v.Dialect.Noun + " " + other + " is applied at its outbound direction, which takes one: remove it (" + v.Dialect.Unapply(other) + ")"}
	case p.Blocked != "":
		return &vendors.ForeignError{What: p.Blocked}
	}
	return nil
}

// foreignIn is what in a port's policy csig did not make, and does not remove.
func (v *View) foreignIn(name string) error {
	line := v.ForeignIn(name)
	if line == "" {
		return nil
	}
	return &vendors.ForeignError{What: "its " + v.Dialect.Noun + " " + PolicyName(name) + " has a line that is not csig's, so csig leaves it alone: remove the line (" + untrusted.Text(line, 120) + "), which csig did not make"}
}

// Foreign is why a port cannot have csig's policy, whatever the setup: what is at it, in its policy or elsewhere.
func (v *View) Foreign(p *Port) error {
	return cmp.Or(v.ForeignAt(p), v.foreignIn(p.Name), v.elsewhere())
}

// elsewhere is the policy that something else than a port applies to what leaves ports.
func (v *View) elsewhere() error {
	if v.Elsewhere == "" {
		return nil
	}
	return &vendors.ForeignError{What: "a " + v.Dialect.Noun + " that is not csig's is applied to what leaves this port, too: remove it (" + v.Elsewhere + ")"}
}

// inForce reports whether csig's policy is what is applied at a port, whatever is near it.
func (v *View) inForce(name string) bool {
	p := v.Port(name)
	return p != nil && p.Ours() && p.Foreign() == ""
}

// foreignInner is the *PermanentError of a switch whose TPID of inner tags is another user's.
func (d *Driver) foreignInner(want *vendors.Setup) error {
	if len(reconcile.Updating(want).Ports) > 0 && d.At == Inner {
		if err := d.View.foreignTPID(nil, want.TPID, Inner); err != nil {
			return &vendors.PermanentError{Err: err}
		}
	}
	return nil
}

// refusals are *PermanentError of ports that cannot have a setup, or of all.
func (d *Driver) refusals(want *vendors.Setup) (errs []error) {
	v := d.View
	if err := d.foreignInner(want); err != nil {
		return []error{err}
	}
	for i := range want.Ports {
		if err := v.refuses(want.Ports[i].Port, want.TPID, d.At); err != nil {
			errs = append(errs, &vendors.PermanentError{Port: want.Ports[i].Port, Err: err})
		}
	}
	return errs
}

// Validate refuses what no switch of the platform can have.
func (p *Platform) Validate(want *vendors.Setup) error {
	if want.Layout != quantize.Draft00 {
		return &vendors.PermanentError{Err: errors.New("layout uec: a VLAN ID range cannot test D, the lowest bit of the VID")}
	}
	if err := p.TakesTPID(want); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	return want.Check(p.NoStrip, func(port *vendors.PortSetup) error {
		if why := p.PortName(port.Port); why != "" {
			return errors.New(why)
		}
		if port.Strips() {
			return errors.New(p.NoStrip)
		}
		return nil
	})
}

// Diff lists what Apply(want) would change. Ports that pass tags through need nothing, and the hash of the
// profile is recorded nowhere.
func (p *Platform) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := p.Validate(&want); err != nil {
		return nil, err
	}
	have, want = *reconcile.Updating(&have), *reconcile.Updating(&want)
	shared := vendors.DiffShared(&have, &want, "record", describe)
	if have.TPID != want.TPID && len(shared) > 0 && len(want.Ports) > 0 {
		shared[0].Disruptive = p.TPIDChange
	}
	return append(shared, vendors.DiffPorts(&have, &want,
		func(*vendors.PortSetup) string {
			return "a " + p.Dialect.Noun + " at its outbound direction that compares and replaces " + strings.Join(want.SignalNames(), ", ")
		},
		func(_, _ *vendors.PortSetup) string { return "" })...), nil
}

// describe is what all ports share, in a line.
func describe(s *vendors.Setup) string {
	return fmt.Sprintf("tpid=0x%04x signals=%s on_stale=%s", s.TPID, strings.Join(s.SignalNames(), ","), s.OnStale)
}
