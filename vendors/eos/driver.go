package eos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vlanrules"
)

const updates = vlanrules.Update

// Config is what a driver needs.
type Config struct {
	// Dial opens a session with the switch's command line.
	Dial func(ctx context.Context) (*cli.Session, error)

	Forwarding []Forwarding
	Priority   uint16 // the lowest of csig's flows; 0: DefaultPriority
	Updates    bool   // the operator takes lines of configuration for an update (updates: cli)
}

const (
	settle = 5 * time.Second // that flows may take into hardware
	late   = 3 * time.Second // that an action of the dead-man may still run when its handler goes (assumed)
)

// DefaultPriority is the lowest priority of csig's flows where Config has none.
const DefaultPriority = 30000

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	*reconcile.Loop
	cfg     Config
	session *cli.Session // nil until it is needed, and after it was lost

	view   *view               // nil: unread
	masked *bool               // match vlan takes a mask; nil: not tried
	trial  *trial              // of the next commit, nil for none
	armed  map[string][]string // event handlers of the dead-man; nil: not by this process
}

var (
	_ vendors.Driver       = (*Driver)(nil)
	_ vendors.AutoReverter = (*Driver)(nil)
)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Priority == 0 {
		cfg.Priority = DefaultPriority
	}
	d := &Driver{cfg: cfg}
	d.Loop = reconcile.New(device{d}, Rules())
	return d
}

// Dial opens a session with a switch's command line.
func Dial(ctx context.Context, cfg ssh.Config) (*cli.Session, error) {
	return cli.Dial(ctx, cli.Config{Platform: cli.EOS, SSH: cfg})
}

func (d *Driver) forward(id string) *Forwarding {
	for i := range d.cfg.Forwarding {
		if d.cfg.Forwarding[i].id() == id {
			return &d.cfg.Forwarding[i]
		}
	}
	return nil
}

// connect opens a session, where there is none, and ends what sessions of before have left.
func (d *Driver) connect(ctx context.Context) error {
	if d.session != nil && d.session.Err() == nil {
		return nil
	}
	d.hangUp()
	var err error
	if d.session, err = d.cfg.Dial(ctx); err != nil {
		return err
	}
	return d.abandon(ctx)
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
	lines, err := d.session.Run(ctx, "show running-config")
	if err != nil {
		return nil, err
	}
	v, err := parse(lines)
	if err != nil {
		return nil, err
	}
	if len(v.ports) == 0 {
		return nil, errors.New("the configuration that it shows has no interfaces: may the account read it (privilege 15)?")
	}
	d.view = v
	return v, nil
}

// Observe reads back the setup: the records, and the flows of ports.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	v, err := d.look(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	return d.setup(v), nil
}

// validate refuses what no switch can have.
func validate(want *vendors.Setup) error {
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

// Diff is Driver.Diff, without a driver. The hash of the profile is recorded nowhere.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	have, want = *tagging(&have), *tagging(&want)
	out := vendors.DiffShared(&have, &want, "record", describe)
	out = append(out, vendors.DiffPorts(&have, &want,
		func(p *vendors.PortSetup) string {
			if p.Action != updates {
				return fmt.Sprintf("TPID 0x%04x, with which tags leave as they are", want.TPID)
			}
			return fmt.Sprintf("TPID 0x%04x, there and at the ports that its declared flows come in by, and flows of DirectFlow that compare and replace %s", want.TPID, strings.Join(want.SignalNames(), ", "))
		},
		func(_, _ *vendors.PortSetup) string {
			if have.TPID != want.TPID {
				return fmt.Sprintf("TPID 0x%04x -> 0x%04x", have.TPID, want.TPID)
			}
			return ""
		})...)
	for i := range out {
		if c := &out[i]; c.Port != "" && (c.Kind != vendors.Alter || have.TPID != want.TPID) {
			c.Disruptive = disruptive
		}
	}
	return out, nil
}

// tagging is what csig writes of a setup. Where a port updates, those that pass tags through
// get the TPID, too: else a tag would leave them as an ordinary one. Where none does, no port
// needs anything.
func tagging(s *vendors.Setup) *vendors.Setup {
	if len(reconcile.Updating(s).Ports) > 0 {
		return s
	}
	out := *s
	out.Ports = nil
	return &out
}

// describe is what all ports share, in a line.
func describe(s *vendors.Setup) string {
	return fmt.Sprintf("tpid=0x%04x layout=%s signals=%s on_stale=%s", s.TPID, s.Layout, strings.Join(s.SignalNames(), ","), s.OnStale)
}

// Apply makes the setup that of want, in one commit. A port that is new among those that
// update has the entries of the fallback, until Update.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	defer func() { d.trial = nil }() // also of a change of nothing
	if err := validate(&want); err != nil {
		return err
	}
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	want = *want.Wanted()
	if refused := d.refuses(v, tagging(&want)); len(refused) > 0 {
		return errors.Join(refused...)
	}
	if len(reconcile.Updating(&want).Ports) > 0 {
		if err := d.tryMask(ctx); err != nil {
			return err
		}
		if !*d.masked {
			return &vendors.PermanentError{Err: errors.New(noMask)}
		}
	}
	d.Start(&want)
	s, old := newScript(), newScript()
	if err := d.apply(s, old, v, &want); err != nil {
		d.view = nil
		d.Stop()
		return err
	}
	held := d.trial != nil // a second commit would have to wait for its confirmation
	if err := d.commit(ctx, s); err != nil {
		d.Stop()
		return err
	}
	if err := d.inHardware(ctx, s); err != nil {
		d.view = nil
		return err
	}
	if !held { // else the next update does
		var failed []error
		failed, err = d.exchange(ctx, newScript(), d.byPort(old))
		err = errors.Join(append(failed, err)...)
	}
	d.view = nil
	return err
}

// apply adds to a script what makes a setup of what the view has, and to old what goes
// after it.
func (d *Driver) apply(s, old *script, v *view, want *vendors.Setup) error {
	ports := reconcile.Updating(want)
	have := d.setup(v)
	fresh := describe(&have) != describe(want)
	record := recordName(want)
	for _, name := range v.records {
		if _, ok := parseRecord(name); ok && name != record {
			s.record(v, name, false)
		}
	}
	s.record(v, record, true)
	for _, name := range v.records { // also of ports that there are no more
		if port, ok := portOf(updateRecord, name); ok && !ports.HasPort(port) {
			s.record(v, name, false)
		}
		for _, kind := range []string{passRecord, tpidRecord} {
			if port, ok := portOf(kind, name); ok && v.port(port) == nil {
				s.record(v, name, false)
			}
		}
	}
	passing := map[string]bool{}
	tagged := map[string]bool{}
	for _, p := range tagging(want).Ports {
		tagged[p.Port], passing[p.Port] = true, p.Action != updates
	}
	for i := range v.ports {
		name := v.ports[i].name
		s.record(v, ofPort(passRecord, name), passing[name])
	}
	s.del(v, d.orphans(v)...)
	for _, name := range sorted(v.handlers) {
		id, _, _ := strings.Cut(strings.TrimPrefix(name, deadFlows), "-")
		if f := d.forward(id); f == nil || !ports.HasPort(f.Port) {
			s.handler(v, name, nil)
		}
	}
	for i := range d.cfg.Forwarding { // of ports that do not update
		if name := d.cfg.Forwarding[i].Port; !ports.HasPort(name) {
			flows, damaged, _ := d.held(v, name)
			for _, flow := range slices.Concat(sorted(flows), damaged, d.fallen(v, name)) {
				if !slices.Contains(s.dels, flow) {
					s.del(v, flow)
				}
			}
		}
	}
	for i := range ports.Ports {
		name := ports.Ports[i].Port
		for j := range d.cfg.Forwarding {
			if f := &d.cfg.Forwarding[j]; f.Port == name {
				tagged[f.InPort] = true
			}
		}
		if d.Held(name) != nil { // it keeps its flows, and Update gives them the fallback
			continue
		}
		record := ofPort(updateRecord, name)
		if _, damaged, _ := d.held(v, name); fresh || !v.has(record) || len(damaged) > 0 {
			if err := d.replace(s, old, v, name, want.Fallback()); err != nil {
				return err
			}
		}
		s.record(v, record, true)
	}
	d.tag(s, v, tagged, want.TPID)
	return nil
}

// tag gives ports the TPID, and takes it from those that had it from csig.
func (d *Driver) tag(s *script, v *view, tagged map[string]bool, tpid uint16) {
	for i := range v.ports {
		p := &v.ports[i]
		record := ofPort(tpidRecord, p.name)
		switch {
		case tagged[p.name] && p.tpid != tpid && p.tpid != defaultTPID && !v.has(record): // not csig's to change
		case tagged[p.name]:
			s.record(v, record, v.has(record) || p.tpid == defaultTPID) // else it is the operator's
			s.tpid(p, tpid)
		case v.has(record):
			s.record(v, record, false)
			s.tpid(p, defaultTPID)
		}
	}
}

// Remove deletes everything that is csig's, and what the dead-man still writes meanwhile.
func (d *Driver) Remove(ctx context.Context) error {
	defer func() { d.trial = nil }()
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	acts := len(v.handlers) > 0 && (d.armed == nil || v.fell())
	if err := d.remove(ctx); err != nil || !acts {
		return err
	}
	if err := vendors.Wait(ctx, late); err != nil {
		return err
	}
	if _, err := d.look(ctx); err != nil {
		return err
	}
	return d.remove(ctx)
}

// remove deletes what a view has of csig's.
func (d *Driver) remove(ctx context.Context) error {
	v, s := d.view, newScript()
	for _, name := range slices.Clone(v.records) {
		if _, ours := portOf(tpidRecord, name); !ours {
			s.record(v, name, false)
		}
	}
	for _, name := range sorted(v.flows) {
		if _, ok := parseRule(name); ok {
			s.del(v, name)
		}
	}
	for _, name := range sorted(v.handlers) {
		s.handler(v, name, nil)
	}
	d.tag(s, v, nil, 0)
	d.armed = nil
	d.Stop()
	if err := d.commit(ctx, s); err != nil {
		return err
	}
	d.view = nil
	return nil
}
