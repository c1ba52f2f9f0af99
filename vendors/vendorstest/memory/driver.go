package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Driver is one management session of a switch. Its methods are not safe for
// concurrent use; several sessions are.
type Driver struct {
	s        *Switch
	compiler *vlanrules.Compiler
	signals  map[string]*vendors.PortSignal
	closed   bool
}

var (
	_ vendors.Driver = (*Driver)(nil)
	_ vendors.Looker = (*Driver)(nil)

	_ vendors.TableFiller = (*Driver)(nil)
)

// Driver opens a session.
func (s *Switch) Driver() *Driver {
	return &Driver{s: s, signals: map[string]*vendors.PortSignal{}}
}

// Caps is what the switch's data sheet promises.
func Caps() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, Entries: Entries, Shared: true, MatchReserved: true}
}

var errClosed = errors.New("the session is closed")

// session locks the switch for one request.
func (d *Driver) session(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.closed {
		return nil, errClosed
	}
	time.Sleep(d.s.cfg.Takes)
	d.s.mu.Lock()
	d.s.settle(time.Now())
	return d.s.mu.Unlock, nil
}

// Probe is the data sheet.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	unlock, err := d.session(ctx)
	if err != nil {
		return vendors.Facts{}, err
	}
	defer unlock()
	ran := vendors.Source{Mark: vendors.Ran, From: "vendors/vendorstest/memory"}
	f := vendors.Facts{
		Platform: "software", Rules: Caps(), Others: maxOthers,
		Wide:      vendors.Refusal("its rules match 12 bits of a tag"),
		TagDepths: make([]vlanrules.Verdict, maxVLANs+1),
		Traits: vendors.Traits{
			Access: vendors.That("function calls", ran), Key: vendors.That(vendors.KeyWire, ran), Stage: vendors.That(vendors.StageEgress, ran),
			Table: vendors.That(vendors.Table{Entries: Entries}, ran), Independent: vendors.That(true, ran), Learning: vendors.That(true, ran),
			TPIDs: vendors.That(vendors.TPIDs{Any: true, Scope: vendors.ScopePort}, ran),
		},
	}
	for _, p := range d.s.ports {
		f.Ports = append(f.Ports, p.name)
	}
	f.Rules.Ports = len(f.Ports)
	return f, nil
}

// Observe is what the switch says of itself.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	seen, err := d.Look(ctx)
	return seen.Setup, err
}

// Look is what the switch says of itself, with the lease.
func (d *Driver) Look(ctx context.Context) (vendors.DataPlane, error) {
	unlock, err := d.session(ctx)
	if err != nil {
		return vendors.DataPlane{}, err
	}
	defer unlock()
	seen := vendors.DataPlane{Signal: vendors.SignalFallback}
	if d.s.setup == nil {
		return seen, nil
	}
	seen.Setup = *d.s.setup.Wanted()
	if left := time.Until(d.s.lease); left > 0 {
		seen.Signal, seen.Left = vendors.SignalWritten, left
	}
	return seen, nil
}

const maxOthers = 4

func validate(want *vendors.Setup, has func(string) bool) error {
	if len(want.Others) > maxOthers {
		return &vendors.PermanentError{Err: fmt.Errorf("%d TPIDs beside the domain's own: %d at most", len(want.Others), maxOthers)}
	}
	return want.Check("rules rewrite a tag and do not remove it", func(p *vendors.PortSetup) error {
		if has != nil && !has(p.Port) {
			return errors.New("the switch has no such port")
		}
		return nil
	})
}

// Diff lists what Apply would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want, nil); err != nil {
		return nil, err
	}
	out := append(vendors.DiffShared(&have, &want, "tags", describe), vendors.DiffProfile(&have, &want)...)
	return append(out, vendors.DiffPorts(&have, &want,
		func(p *vendors.PortSetup) string { return p.Action.String() },
		func(have, want *vendors.PortSetup) string {
			if have.StripOthers != want.StripOthers {
				return fmt.Sprintf("strips other TPIDs: %v", want.StripOthers)
			}
			return ""
		})...), nil
}

func describe(s *vendors.Setup) string {
	return fmt.Sprintf("0x%04x 0x%04x %s %s %s %s", s.TPID, s.WideTPID, s.Layout, strings.Join(s.SignalNames(), ","), s.OnStale, vendors.TPIDNames(s.Others))
}

// Apply programs the setup. Ports whose action stays keep their rules, unless what all
// share changes.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	unlock, err := d.session(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s := d.s
	if err := validate(&want, func(name string) bool { return s.Port(name) != nil }); err != nil {
		return err
	}
	fresh := s.setup == nil || describe(s.setup) != describe(&want)
	old := s.setup
	s.setup = want.Wanted()
	d.start()
	for _, p := range s.ports {
		if !want.HasPort(p.name) {
			p.rows, p.hw = nil, hardware{tpid: s.cfg.TPID}
			continue
		}
		set := want.Ports[slices.IndexFunc(want.Ports, func(x vendors.PortSetup) bool { return x.Port == p.name })]
		if fresh || old.ActionOf(p.name) != set.Action || set.Action != vlanrules.Update {
			p.rows, p.hw = nil, hardware{fallsBack: true}
		}
		p.hw.tpid, p.hw.action, p.hw.others = want.TPID, set.Action, nil
		if set.Strips() {
			p.hw.others = slices.Clone(want.Others)
			if want.WideTPID != 0 && set.Action == vlanrules.Strip {
				p.hw.others = append(p.hw.others, vendors.OtherTPID{TPID: want.WideTPID, Wide: true})
			}
		}
		if set.Action == vlanrules.Update {
			p.hw.stale = compileStale(&want)
		}
	}
	return nil
}

// start has the session know the switch's setup.
func (d *Driver) start() {
	d.compiler = newCompiler(d.s.setup.Layout)
	clear(d.signals)
}

// Lease limits.
const (
	minLease = 10 * time.Millisecond
	maxLease = time.Hour
)

// Update programs the rules of ports, one operation at a time, and renews the lease.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	unlock, err := d.session(ctx)
	if err != nil {
		return res, err
	}
	defer unlock()
	s := d.s
	switch {
	case lease < minLease || lease > maxLease:
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want %v to %v", lease, minLease, maxLease)}
	case s.setup == nil:
		return res, vendors.NoSetup("")
	case d.compiler == nil:
		d.start()
	}
	var errs []error
	for i := range updates {
		if err := d.update(&updates[i], &res); err != nil {
			errs = append(errs, err)
		}
	}
	until := time.Now().Add(lease)
	s.later(s.cfg.Faults.AckEarly, func() { s.lease = until })
	s.settle(time.Now())
	res.Leased = true
	return res, errors.Join(errs...)
}

func (d *Driver) update(u *vendors.PortUpdate, res *vendors.UpdateResult) error {
	p := d.s.Port(u.Port)
	if p == nil || !d.s.setup.HasPort(u.Port) {
		return vendors.NotInSetup(u.Port)
	}
	g := d.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		d.signals[u.Port] = g
	}
	_, err := g.Give(d.s.setup, p.name, d.s.setup.ActionOf(p.name), u.Intents)
	if err == nil {
		err = g.Compile(d.compiler, p.name, p.rows)
	}
	if err != nil {
		d.s.later(d.s.faultsOf(p).AckEarly, func() { p.hw.fallsBack = true })
		return err
	}
	ops := slices.Clone(g.Result.Ops)
	if err := d.s.program(p, ops); err != nil {
		return &vendors.PermanentError{Port: p.name, Err: err}
	}
	d.s.later(d.s.faultsOf(p).AckEarly, func() { p.hw.fallsBack = false })
	if len(ops) > 0 {
		res.Ports++
		res.Ops += len(ops)
	}
	return nil
}

// Release ends the lease.
func (d *Driver) Release(ctx context.Context) error {
	unlock, err := d.session(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	d.s.later(d.s.cfg.Faults.AckEarly, func() { d.s.lease = time.Time{} })
	return nil
}

// Remove deletes what is ours.
func (d *Driver) Remove(ctx context.Context) error {
	unlock, err := d.session(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	d.s.clear()
	d.compiler = nil
	return nil
}

// Fill adds entries that match nothing.
func (d *Driver) Fill(ctx context.Context, most int) (entries int, full bool, err error) {
	unlock, err := d.session(ctx)
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	s := d.s
	for s.entries() < most {
		if s.entries() >= s.capacity() {
			return s.entries(), true, nil
		}
		s.fillers++
	}
	return s.entries(), false, nil
}

// Drain removes them.
func (d *Driver) Drain(ctx context.Context) error {
	unlock, err := d.session(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	d.s.fillers = 0
	return nil
}

// Close ends the session.
func (d *Driver) Close() error {
	d.closed = true
	return nil
}

// Port is a port by name, nil where there is none. Ports are added before it is called.
func (s *Switch) Port(name string) *Port {
	for _, p := range s.ports {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Setup is a setup that the switch takes, for tests: these ports update both signals
// that byte counters show.
func Setup(tpid uint16, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC}, OnStale: inventory.Conservative}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Update})
	}
	return s
}
