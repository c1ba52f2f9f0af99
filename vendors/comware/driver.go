package comware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

// Config is what a driver needs.
type Config struct {
	// Dial opens a session with the switch's command line.
	Dial func(ctx context.Context) (*cli.Session, error)

	Outer   bool // the CSIG tag is the outer one, not the one behind it
	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	Now func() time.Time // nil: time.Now
}

// recheck is how often Update reads the configuration back.
const recheck = time.Minute

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	cfg     Config
	session *cli.Session // nil until it is needed, and after it was lost

	view    *view // nil: unread
	read    time.Time
	setup   *vendors.Setup // what the switch is to have; nil until Apply or the first Update
	signals map[string]*vendors.PortSignal
	tables  vlanrules.Table // scratch

	compiler *vlanrules.Compiler
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Driver{cfg: cfg, signals: map[string]*vendors.PortSignal{}}
}

func (d *Driver) at() position {
	if d.cfg.Outer {
		return outer
	}
	return inner
}

// connect opens a session, where there is none.
func (d *Driver) connect(ctx context.Context) error {
	if d.session != nil && d.session.Err() == nil {
		return nil
	}
	d.hangUp()
	var err error
	d.session, err = d.cfg.Dial(ctx)
	return err
}

// hangUp ends the session. What a change that it carried has done is unknown.
func (d *Driver) hangUp() {
	if d.session != nil {
		d.session.Close()
	}
	d.session, d.view = nil, nil
}

// Close ends the session. What is configured stays: there is no lease, so Release comes
// first where the signal ends.
func (d *Driver) Close() error {
	d.hangUp()
	return nil
}

// look reads the configuration.
func (d *Driver) look(ctx context.Context) (*view, error) {
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	d.view = nil
	lines, err := d.session.Run(ctx, "display current-configuration")
	if err != nil {
		return nil, err
	}
	v, err := parse(lines)
	if err != nil {
		return nil, err
	}
	if len(v.ports) == 0 {
		return nil, errors.New("the configuration that it displays has no interfaces: may the account read it (network-admin)?")
	}
	d.view, d.read = v, d.cfg.Now()
	return v, nil
}

// write gives the commands of a script.
func (d *Driver) write(ctx context.Context, s *script) error {
	err := d.session.Configure(ctx, s.lines)
	if err != nil {
		d.view = nil // how far it came is read back
	}
	return err
}

// Observe reads back the setup: the record, and the policies of ports.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	v, err := d.look(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	return v.setup(d.at()), nil
}

// setup is what a view has of ours.
func (v *view) setup(want position) vendors.Setup {
	var s vendors.Setup
	records, ports := v.records(), v.ours()
	switch len(records) {
	case 0:
		if len(ports) == 0 {
			if classes, behaviors := v.idle(); len(classes)+len(behaviors) > 0 {
				s.Damaged = "there are classes or behaviors of csig's, and nothing else"
			}
			return s
		}
		s.Damaged = "the record of the setup (traffic behavior csig-setup-…) is not there"
	default:
		var at position
		s, at, _ = parseRecord(records[len(records)-1])
		switch {
		case len(records) > 1:
			s.Damaged = "there is more than one record of the setup"
		case at != want:
			s.Damaged = fmt.Sprintf("it was made for the %s tag, and the CSIG tag is the %s one", at, want)
		case v.noTPID(&s, want) != "":
			s.Damaged = v.noTPID(&s, want)
		}
	}
	s.Layout = quantize.Draft00
	for _, name := range ports {
		p := vendors.PortSetup{Port: name, Action: vlanrules.Update}
		held := v.port(name)
		_, strays := v.table(nil, name, want)
		switch line := v.odd[policyName(name)]; {
		case held.outbound == "":
			p.Damaged = "its policy is not applied"
		case held.outbound != policyName(name):
			p.Damaged = "another policy is applied: " + held.outbound
		case line != "":
			p.Damaged = "its policy has something else: " + line
		case len(strays) > 0:
			p.Damaged = "its policy has classes that are not csig's, or not as csig left them: " + strings.Join(strays[:min(3, len(strays))], ", ")
		case v.portTPID(held, &s, want) != "":
			p.Damaged = v.portTPID(held, &s, want)
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// noTPID is why the switch does not take the domain's TPID for that of inner tags, "" where
// it does, or need not.
func (v *view) noTPID(s *vendors.Setup, at position) string {
	if at == inner && s.TPID != 0 && v.customer != s.TPID {
		return fmt.Sprintf("the TPID of inner tags is 0x%04x: configure qinq ethernet-type customer-tag %04x in system view", v.customer, s.TPID)
	}
	return ""
}

// portTPID is the same for a port, of outer tags.
func (v *view) portTPID(p *port, s *vendors.Setup, at position) string {
	if at == outer && s.TPID != 0 && p.service != s.TPID {
		return fmt.Sprintf("the TPID of its outer tags is 0x%04x: configure qinq ethernet-type service-tag %04x on every port that CSIG tags pass", p.service, s.TPID)
	}
	return ""
}

// validate refuses what no switch can have.
func validate(want *vendors.Setup) error {
	if want.Layout != quantize.Draft00 {
		return &vendors.PermanentError{Err: errors.New("layout uec: a VLAN ID range cannot test D, the lowest bit of the VID")}
	}
	return want.Check(noStrip, func(p *vendors.PortSetup) error {
		if why := portName(p.Port); why != "" {
			return errors.New(why)
		}
		if p.Strips() {
			return errors.New(noStrip)
		}
		return nil
	})
}

// Diff lists what Apply(want) would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Diff is Driver.Diff, without a driver. Ports that pass tags through need nothing, and the
// hash of the profile is recorded nowhere.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	have, want = *updating(&have), *updating(&want)
	return append(vendors.DiffShared(&have, &want, "record", describe), vendors.DiffPorts(&have, &want,
		func(*vendors.PortSetup) string {
			return "a QoS policy at its outbound direction that compares and replaces " + strings.Join(want.SignalNames(), ", ")
		},
		func(_, _ *vendors.PortSetup) string { return "" })...), nil
}

// updating is a setup without the ports that pass tags through.
func updating(s *vendors.Setup) *vendors.Setup {
	out := *s
	out.Ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p vendors.PortSetup) bool { return p.Action != vlanrules.Update })
	return &out
}

// describe is what all ports share, in a line.
func describe(s *vendors.Setup) string {
	return fmt.Sprintf("tpid=0x%04x signals=%s on_stale=%s", s.TPID, strings.Join(s.SignalNames(), ","), s.OnStale)
}

// Apply makes the setup that of want. A port that is new among those that update has the
// entries of the fallback, until Update. A foreign policy at a port's outbound direction is
// refused, before anything is written.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	want = *want.Wanted()
	if err := v.refuses(updating(&want), d.at()); err != nil {
		return err
	}
	s := &script{view: v, at: d.at()}
	if err := d.apply(s, want); err != nil {
		d.view = nil
		return err
	}
	d.start(&want)
	if err := d.write(ctx, s); err != nil {
		d.setup = nil
		return err
	}
	return nil
}

// refuses is why a switch cannot have a setup as it is configured.
func (v *view) refuses(want *vendors.Setup, at position) error {
	if why := v.noTPID(want, at); why != "" && len(want.Ports) > 0 {
		return &vendors.PermanentError{Err: errors.New(why)}
	}
	for i := range want.Ports {
		name := want.Ports[i].Port
		p := v.port(name)
		switch {
		case p == nil:
			return &vendors.PermanentError{Port: name, Err: errors.New("the switch has no such interface")}
		case p.outbound != "" && p.outbound != policyName(name):
			return &vendors.PermanentError{Port: name, Err: &vendors.ForeignError{What: "QoS policy " + p.outbound + " is applied at its outbound direction, which takes one policy: remove it (undo qos apply policy outbound)"}}
		case v.portTPID(p, want, at) != "":
			return &vendors.PermanentError{Port: name, Err: errors.New(v.portTPID(p, want, at))}
		}
	}
	return nil
}

// start has the driver know the switch's setup.
func (d *Driver) start(s *vendors.Setup) {
	d.setup = s
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	clear(d.signals)
}

// setUp gives a port its policy. What one that had it already writes stays, unless what all
// ports share changes.
func (d *Driver) setUp(s *script, c *vlanrules.Compiler, want *vendors.Setup, port string, fresh bool) error {
	name := policyName(port)
	_, there := s.view.policies[name]
	if line := s.view.odd[name]; line != "" {
		s.drop(port)
		delete(s.view.odd, name)
		there = false
	}
	have, strays := s.view.table(nil, port, d.at())
	if !there || fresh || len(strays) > 0 {
		var r vlanrules.Result
		c.Compile(&r, have, want.Fallback())
		if r.Verdict.Level == vlanrules.Refused || r.Gap {
			return &vendors.PermanentError{Port: port, Err: errors.New(r.Verdict.Reason)}
		}
		if err := s.change(name, r.Ops, strays); err != nil {
			return &vendors.PermanentError{Port: port, Err: err}
		}
	}
	s.apply(s.view.port(port))
	return nil
}

// Remove deletes everything that is ours.
func (d *Driver) Remove(ctx context.Context) error {
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	s := &script{view: v, at: d.at()}
	for _, name := range v.ours() {
		s.drop(name)
	}
	s.tidy()
	s.record("")
	d.setup = nil
	return d.write(ctx, s)
}

// Dial opens a session with a switch's command line, without log messages among its
// answers.
func Dial(ctx context.Context, cfg ssh.Config) (*cli.Session, error) {
	return cli.Dial(ctx, cli.Config{Platform: cli.Comware, SSH: cfg, Start: []string{"undo terminal monitor"}})
}
