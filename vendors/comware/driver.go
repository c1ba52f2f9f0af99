package comware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
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
	Dial func(ctx context.Context) (Session, error)

	Outer   bool // the CSIG tag is the outer one, not the one behind it
	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	Now func() time.Time // nil: time.Now
}

// Session is a login at a command line: a *cli.Session.
type Session interface {
	Run(ctx context.Context, command string) ([]string, error)
	Configure(ctx context.Context, commands []string) error
	LocalAddr() net.Addr // of this machine, as the device sees it
	Err() error          // why it is of no use any more
	Close() error
}

// recheck is how often Update reads the configuration back.
const recheck = time.Minute

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	cfg     Config
	session Session // nil until it is needed, and after it was lost

	view    *view // nil: unread
	read    time.Time
	setup   *vendors.Setup // what the switch is to have; nil until Apply or the first Update
	signals map[string]*vendors.PortSignal
	tables  vlanrules.Table // scratch
	freed   []string        // classes and behaviors, in the order in which they went out of use

	refusal  error            // why it cannot have the setup, as it was read last
	refused  map[string]error // the same of ports
	unproved map[string]bool  // ports of which the switch has not reported that what is configured is in hardware

	dead *deadMan // nil until it is armed

	compiler *vlanrules.Compiler
	offline  *[]string // commands go there, and no switch is asked
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Driver{cfg: cfg, signals: map[string]*vendors.PortSignal{}, refused: map[string]error{}, unproved: map[string]bool{}}
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
	s, err := d.cfg.Dial(ctx)
	if err == nil {
		d.session = s
	}
	return err
}

// hangUp ends the session. What a change that it carried has done is unknown.
func (d *Driver) hangUp() {
	if d.session != nil {
		_ = d.session.Close() // what it was for is done, or lost
	}
	d.session, d.view = nil, nil
}

// lost reports whether there is no session of use.
func (d *Driver) lost() bool {
	return d.offline == nil && (d.session == nil || d.session.Err() != nil)
}

// Close ends the session. What is configured stays: there is no lease, so Release comes
// first where the signal ends.
func (d *Driver) Close() error {
	d.hangUp()
	if d.dead != nil {
		return d.dead.conn.Close()
	}
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
			if classes, behaviors := v.idle(); len(classes)+len(behaviors)+len(v.orphans()) > 0 {
				s.Damaged = "there are classes, behaviors or policies of csig's, and nothing else"
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
		case len(ports) > 0 && v.noTPID(&s, want) != "":
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
		case held.outbound == deadPolicy:
			p.Damaged = "it has fallen back: the dead-man on the switch has fired"
		case held.outbound != policyName(name):
			p.Damaged = "another policy is applied: " + held.outbound
		case held.foreign != "":
			p.Damaged = "another policy is applied: " + held.foreign
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
		return fmt.Sprintf("the TPID of inner tags is 0x%04x: the setup has 0x%04x", v.customer, s.TPID)
	}
	return ""
}

// portTPID is the same for a port, of outer tags.
func (v *view) portTPID(p *port, s *vendors.Setup, at position) string {
	if at == outer && s.TPID != 0 && p.service != s.TPID {
		return fmt.Sprintf("the TPID of its outer tags is 0x%04x: the setup has 0x%04x", p.service, s.TPID)
	}
	return ""
}

// validate refuses what no switch can have.
func validate(want *vendors.Setup) error {
	if want.Layout != quantize.Draft00 {
		return &vendors.PermanentError{Err: errors.New("layout uec: a VLAN ID range cannot test D, the lowest bit of the VID")}
	}
	if slices.Contains(reserved, want.TPID) && len(updating(want).Ports) > 0 {
		return &vendors.PermanentError{Err: fmt.Errorf("tpid 0x%04x: %w", want.TPID, errReserved)}
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
	shared := vendors.DiffShared(&have, &want, "record", describe)
	if have.TPID != want.TPID && len(shared) > 0 && len(want.Ports) > 0 {
		shared[0].Disruptive = tpidChange
	}
	return append(shared, vendors.DiffPorts(&have, &want,
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
// entries of the fallback, until Update. What ports cannot have as they are configured is
// refused before anything is written; what the switch refuses is that port's error.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	want = *want.Wanted()
	if err := v.refusesAll(&want, d.at()); err != nil {
		return err
	}
	var errs []error
	for _, p := range updating(&want).Ports {
		if err := cmp.Or(v.refuses(&want, p.Port, d.at()), v.everywhere()); err != nil {
			errs = append(errs, permanent(p.Port, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	d.start(&want)
	err = d.program(ctx, &want)
	if d.lost() {
		d.setup = nil // the next Update takes over what is there
	}
	return err
}

// permanent makes an error that of a port, which trying again will not cure.
func permanent(port string, err error) error {
	if errors.As(err, new(*vendors.PermanentError)) {
		return err
	}
	return &vendors.PermanentError{Port: port, Err: err}
}

// program gives the switch what a setup of its view lacks, but for ports that are refused.
// The record of another setup goes last: what stands at any moment between is csig's by a
// record, or by its name.
func (d *Driver) program(ctx context.Context, want *vendors.Setup) error {
	old, record := d.view.setup(d.at()), recordName(want, d.at())
	fresh := describe(&old) != describe(want) || old.Damaged != ""
	if err := d.carryOut(ctx, d.shared(func(s *script) { s.note(record) })); err != nil {
		return err
	}
	wrote := len(d.view.records()) > 1
	ports := updating(want)
	gone := slices.DeleteFunc(d.view.ours(), ports.HasPort)
	was := d.view
	if has := d.view.ours(); fresh || len(gone) > 0 || len(has) < len(ports.Ports) { // the dead-man is of other ports
		if err := d.withdraw(ctx, want); err != nil {
			return err
		}
		if err := d.carryOut(ctx, d.shared((*script).disarm)); err != nil {
			return err
		}
	}
	err := d.each(ctx, gone, d.removal)
	if !d.lost() && d.view != nil && d.at() == inner && len(ports.Ports) > 0 {
		err = errors.Join(err, d.carryOut(ctx, d.shared(func(s *script) { s.tpid(nil, want.TPID) })))
	}
	if !d.lost() {
		err = errors.Join(err, d.each(ctx, names(ports), func(name string) (*change, error) { return d.setUp(want, name, fresh) }))
	}
	if d.lost() {
		return err
	}
	if wrote = wrote || d.view != was; d.view == nil {
		if _, seen := d.look(ctx); seen != nil {
			return errors.Join(err, seen)
		}
	}
	return errors.Join(err, d.carryOut(ctx, d.shared(func(s *script) {
		if wrote {
			s.orphans()
			s.tidy(0) // what Update made and has no use for is no reason to write
		}
		s.giveBack(keeps(want, d.at()))
		s.forget(record)
	})))
}

// each carries out what plan makes of ports, one after the other. What one lacks is its
// error, and the others go on, as long as the session does.
func (d *Driver) each(ctx context.Context, ports []string, plan func(port string) (*change, error)) error {
	var errs []error
	for _, name := range ports {
		if d.refused[name] != nil {
			continue
		}
		if d.view == nil {
			if _, err := d.look(ctx); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		c, err := plan(name)
		if err == nil {
			err = d.carryOut(ctx, c)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if d.lost() {
			break
		}
	}
	return errors.Join(errs...)
}

// names are those of a setup's ports.
func names(s *vendors.Setup) (list []string) {
	for i := range s.Ports {
		list = append(list, s.Ports[i].Port)
	}
	return list
}

// start has the driver know the switch's setup.
func (d *Driver) start(s *vendors.Setup) {
	d.setup = s
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	clear(d.signals)
	clear(d.refused)
	d.refusal = nil
	for _, p := range updating(s).Ports { // it may be another process's
		d.unproved[p.Port] = true
	}
}

// Remove deletes everything that is ours. A policy of csig's name with a line that is not
// csig's stays, and is that port's error.
func (d *Driver) Remove(ctx context.Context) error {
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.setup = nil
	clear(d.refused)
	// The dead-man goes after the values that it would withdraw.
	err = d.each(ctx, v.ours(), d.removal)
	if d.lost() || err != nil && d.view == nil {
		return err
	}
	if err == nil {
		err = d.carryOut(ctx, d.shared((*script).disarm))
	}
	if err != nil {
		return err
	}
	if v, err = d.look(ctx); err != nil { // it may have fired meanwhile
		return err
	}
	err = d.carryOut(ctx, d.shared(func(s *script) {
		s.orphans()
		for i := range v.ports {
			if v.ports[i].outbound == deadPolicy {
				s.drop(v.ports[i].name)
			}
		}
		s.drop(deadPort)
		s.tidy(0)
		s.giveBack(func(found) bool { return false })
		s.forget("")
	}))
	if d.lost() {
		return err
	}
	return errors.Join(err, d.framesBack(ctx))
}

// Dial opens a session with a switch's command line, without log messages among its
// answers.
func Dial(ctx context.Context, cfg ssh.Config) (Session, error) {
	s, err := cli.Dial(ctx, cli.Config{Platform: cli.Comware, SSH: cfg, Start: []string{"undo terminal monitor"}})
	if err != nil {
		return nil, err // not a nil *cli.Session in an interface that is not nil
	}
	return s, nil
}
