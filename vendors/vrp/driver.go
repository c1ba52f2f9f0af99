package vrp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// Config is what a driver needs.
type Config struct {
	Platform string // SSeries or CloudEngine

	// Dial opens a session with the switch's command line.
	Dial func(ctx context.Context) (*cli.Session, error)

	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	Settle time.Duration // how long the switch may report the state of before a change; 0: 300 ms
}

// recheck is how often Update reads the configuration back.
const recheck = time.Minute

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	cfg     Config
	profile *profile
	session *cli.Session // nil until it is needed, and after it was lost

	identity vendors.Identity
	view     *view // nil: unread
	compared time.Time
	setup    *vendors.Setup // what the switch is to have; nil until Apply or the first Update
	refused  []error        // *PermanentError of ports that cannot have it as the switch is configured
	signals  map[string]*vendors.PortSignal
	freed    []string // of qos.Script
	trial    *trial   // nil: commits are kept
	compiler *vlanrules.Compiler
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Settle == 0 {
		cfg.Settle = 300 * time.Millisecond
	}
	return &Driver{cfg: cfg, profile: profiles[cfg.Platform], signals: map[string]*vendors.PortSignal{}}
}

// connect opens a session, where there is none, with a switch of the platform.
func (d *Driver) connect(ctx context.Context) error {
	if !d.lost() {
		return nil
	}
	d.hangUp()
	var err error
	if d.session, err = d.cfg.Dial(ctx); err != nil {
		return err
	}
	lines, err := d.session.Run(ctx, "display version")
	if err != nil {
		return err
	}
	if d.identity = d.profile.identity(lines); d.identity.Version != "" {
		return nil
	}
	defer d.hangUp()
	if id := profiles[d.profile.other].identity(lines); id.Version != "" {
		return &vendors.PermanentError{Err: fmt.Errorf("it runs %s %s, and platform %s is %s: its platform is %s", profiles[d.profile.other].runs, id.Version, d.profile.name, d.profile.runs, d.profile.other)}
	}
	return &vendors.PermanentError{Err: fmt.Errorf("display version shows no %s: is it such a switch, and does it answer at this address (platform, address, management)?", d.profile.runs)}
}

// hangUp ends the session. What a change that it carried has done is unknown.
func (d *Driver) hangUp() {
	if d.session != nil {
		d.session.Close()
	}
	d.session, d.view = nil, nil
}

// lost reports whether there is no session of use.
func (d *Driver) lost() bool { return d.session == nil || d.session.Err() != nil }

// Close ends the session. What is configured stays: there is no lease, so Release comes
// first where the signal ends.
func (d *Driver) Close() error {
	d.hangUp()
	return nil
}

// look reads the configuration, and what of it is in hardware.
func (d *Driver) look(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	d.view = nil
	lines, err := d.session.Run(ctx, "display current-configuration")
	if err != nil {
		return err
	}
	v, err := d.profile.parse(lines)
	if err != nil {
		return err
	}
	if len(v.Ports) == 0 {
		return errors.New("the configuration that it displays has no interfaces: may the account read it (level 3)?")
	}
	if err := d.states(ctx, v); err != nil {
		return err
	}
	d.view = v
	return nil
}

// howOften is how many times csig asks, each time after Settle, whether a policy that the
// switch works on is in hardware.
const howOften = 20

// states reads which policies are in hardware.
func (d *Driver) states(ctx context.Context, v *view) error {
	for n := range howOften {
		lines, err := d.session.Run(ctx, "display traffic-policy applied-record")
		if err != nil {
			return err
		}
		if v.states = d.profile.status(lines); !v.underWay() || n == howOften-1 {
			break
		}
		if err := d.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle reads which policies are in hardware after a change: a success that is reported at once
// may be that of before.
func (d *Driver) settle(ctx context.Context) error {
	err := d.pause(ctx)
	if err == nil {
		err = d.states(ctx, d.view)
	}
	if err != nil {
		d.view = nil
	}
	return err
}

func (d *Driver) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d.cfg.Settle):
		return nil
	}
}

// write gives the commands of a script.
func (d *Driver) write(ctx context.Context, s *qos.Script) error {
	if len(s.Lines) == 0 {
		return nil
	}
	lines := s.Lines
	if d.profile.commits {
		commit, err := d.commit()
		if err != nil {
			d.view = nil
			return err
		}
		lines = append(slices.Clone(lines), commit)
	}
	err := d.session.Configure(ctx, lines)
	if err != nil {
		d.view = nil // how far it came is read back
	}
	if d.trial != nil {
		d.trial.begun = d.trial.begun || err == nil
	}
	return err
}

func (d *Driver) script() *qos.Script { return &qos.Script{View: d.view.View, At: at, Freed: &d.freed} }

// Observe reads back the setup: the record, and the policies of ports.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	if err := d.look(ctx); err != nil {
		return vendors.Setup{}, err
	}
	return d.view.setup(), nil
}

// validate refuses what no switch of the platform can have.
func (p *profile) validate(want *vendors.Setup) error {
	switch {
	case want.Layout != quantize.Draft00:
		return &vendors.PermanentError{Err: errors.New("layout uec: a VLAN ID range cannot test D, the lowest bit of the VID")}
	case want.TPID != 0 && !p.tpids.Takes(want.TPID):
		return &vendors.PermanentError{Err: fmt.Errorf("qinq protocol takes the TPIDs %s beside 0x8100, and the domain's is 0x%04x", p.tpidNames(), want.TPID)}
	}
	return want.Check(noStrip, func(port *vendors.PortSetup) error {
		if why := p.portName(port.Port); why != "" {
			return errors.New(why)
		}
		if port.Strips() {
			return errors.New(noStrip)
		}
		return nil
	})
}

func (p *profile) tpidNames() string {
	var list []string
	for _, t := range p.tpids.List {
		list = append(list, fmt.Sprintf("0x%04x", t))
	}
	return strings.Join(list, " and ")
}

func (p *profile) portName(name string) string {
	if strings.Contains(name, ".") {
		return "a sub-interface has no traffic policy for what it sends"
	}
	return qos.PortName(name, p.example)
}

// Diff lists what Apply(want) would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	return Diff(d.cfg.Platform, have, want)
}

// Diff is Driver.Diff, without a driver. Ports that pass tags through need nothing, and the
// hash of the profile is recorded nowhere.
func Diff(platform string, have, want vendors.Setup) ([]vendors.Change, error) {
	if err := profiles[platform].validate(&want); err != nil {
		return nil, err
	}
	have, want = *updating(&have), *updating(&want)
	shared := vendors.DiffShared(&have, &want, "record", describe)
	if have.TPID != want.TPID && len(shared) > 0 && len(want.Ports) > 0 {
		shared[0].Disruptive = tpidChange
	}
	return append(shared, vendors.DiffPorts(&have, &want,
		func(*vendors.PortSetup) string {
			return "a traffic policy at its outbound direction that compares and replaces " + strings.Join(want.SignalNames(), ", ")
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
// entries of the fallback, until Update. What a port cannot have as the switch is configured
// is refused before anything is written.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := d.profile.validate(&want); err != nil {
		return err
	}
	if err := d.look(ctx); err != nil {
		return err
	}
	want = *want.Wanted()
	if refused := d.view.refusals(updating(&want)); len(refused) > 0 {
		return errors.Join(refused...)
	}
	d.start(&want)
	return d.onTrial(ctx, func() error { return d.apply(ctx) })
}

// refusals are *PermanentError of ports that cannot have a setup.
func (v *view) refusals(want *vendors.Setup) (errs []error) {
	for i := range want.Ports {
		if err := v.refuses(want.Ports[i].Port, want.TPID); err != nil {
			errs = append(errs, &vendors.PermanentError{Port: want.Ports[i].Port, Err: err})
		}
	}
	return errs
}

// start has the driver know the switch's setup.
func (d *Driver) start(s *vendors.Setup) {
	d.setup, d.refused = s, nil
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	clear(d.signals)
}

// apply gives the switch its setup, but for ports that are refused.
func (d *Driver) apply(ctx context.Context) error {
	p := &plan{profile: d.profile, compiler: d.compiler, want: d.setup, signals: d.signals, skip: func(port string) bool { return refusal(d.refused, port) != nil }}
	_, err := d.carryOut(ctx, p.prepare, p.changes(d.view))
	if d.lost() {
		d.setup = nil // it is taken over from what is there
		return err
	}
	if d.view == nil {
		if seen := d.look(ctx); seen != nil {
			return errors.Join(err, seen)
		}
	}
	s := d.script()
	p.finish(s)
	return errors.Join(err, d.write(ctx, s))
}

func refusal(list []error, port string) (found error) {
	for _, err := range list {
		vendors.EachPort(err, func(name string, why error) {
			if name == port {
				found = &vendors.PortError{Port: name, Err: why}
				if permanent := (*vendors.PermanentError)(nil); errors.As(err, &permanent) && permanent.Port == name {
					found = permanent
				}
			}
		})
	}
	return found
}

// Remove deletes everything that is ours.
func (d *Driver) Remove(ctx context.Context) error {
	if err := d.look(ctx); err != nil {
		return err
	}
	s := d.script()
	var errs []error
	for _, name := range d.view.Ours() {
		if d.view.ForeignIn(name) != "" {
			errs = append(errs, &vendors.PermanentError{Port: name, Err: d.view.foreignIn(name)})
			continue
		}
		s.Drop(name)
	}
	s.Orphans()
	s.Tidy(0)
	s.GiveBack(func(string) bool { return false })
	if len(errs) == 0 {
		s.Forget("")
	}
	d.setup = nil
	if errs = append(errs, d.onTrial(ctx, func() error { return d.write(ctx, s) })); !d.lost() {
		errs = append(errs, d.framesBack(ctx))
	}
	return errors.Join(errs...)
}

// Dial opens a session with the command line of a platform's switch, without log messages
// among its answers. Its owner is nil where no other controller drives the switch.
func Dial(ctx context.Context, platform string, cfg ssh.Config, owner *vendors.Owner) (*cli.Session, error) {
	return cli.Dial(ctx, profiles[platform].session(cli.Config{SSH: cfg, Logins: owner.KeptLogins()}))
}
