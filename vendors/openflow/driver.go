package openflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// DefaultTable is the first of csig's tables where Config names none.
const DefaultTable = 10

// maxTable is the highest table that may be the first of csig's: OpenFlow ends at
// 254.
const maxTable = 255 - tables

// Config says how the switch is reached, and what its operator declares.
type Config struct {
	Platform string // as fleet files name it; "" is openflow
	Table    uint8  // the first of csig's three tables; 0 is DefaultTable

	// OrdinaryVLANs is why no frame with an ordinary VLAN tag meets csig's tables,
	// which could not tell it from a CSIG tag: NotHandedOver or NotParsed; "": the
	// operator does not say.
	OrdinaryVLANs OrdinaryVLANs

	// AckDelay is how long after the answer to a barrier the changes before it may
	// still take effect.
	AckDelay time.Duration

	// Measured is what csig qualify found of the switch's model; nil: nothing, and
	// AckDelay is assumed.
	Measured *inventory.Facts

	// Connect returns the connection with the switch, and makes one where the last
	// has broken. Those that it returned are its own.
	Connect func(context.Context) (*ofp.Conn, error)
	// Done is called by Close, where it is not nil.
	Done func() error
}

// OrdinaryVLANs is what an operator declares of ordinary VLAN tags.
type OrdinaryVLANs string

// The declarations.
const (
	NotHandedOver OrdinaryVLANs = "not-handed-over" // no flow hands such a frame over
	NotParsed     OrdinaryVLANs = "not-parsed"      // the switch takes CSIG's TPID alone for a VLAN tag's
)

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	device

	pipe     *pipeline
	compiler *vlanrules.Compiler

	// moved are numbers that ports of the setup had, and that the switch gives other names now.
	moved map[uint32]string

	reported conditions
	pathRead time.Time // when the operator's flows were read
	bypassed error     // why frames do not come to csig's tables, as it was then

	filled bool // the live table has flows of Fill

	slot      int               // which lease is renewed next
	ends      [leases]time.Time // when each ends at the latest
	leaseSeen bool              // one was there when the switch was last read
}

var _ vendors.Driver = (*Driver)(nil)

// complete is cfg with its defaults. The error is a *vendors.PermanentError.
func (cfg Config) complete() (Config, error) {
	if cfg.Platform == "" {
		cfg.Platform = "openflow"
	}
	if cfg.Table == 0 {
		cfg.Table = DefaultTable
	}
	if cfg.Table > maxTable {
		return cfg, &vendors.PermanentError{Err: fmt.Errorf("table %d: csig needs %d tables from there on, and OpenFlow ends at 254: use %d or less", cfg.Table, tables, maxTable)}
	}
	return cfg, nil
}

// Open returns a driver. It connects at the first use.
func Open(cfg Config) (*Driver, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Driver{device: device{cfg: cfg}, moved: map[uint32]string{}}, nil
}

// connect is device.connect, of a switch that has csig's tables.
func (d *Driver) connect(ctx context.Context) error {
	if err := d.device.connect(ctx); err != nil {
		return err
	}
	n := int(d.of.Datapath.Tables)
	if n == 0 || int(d.cfg.Table)+tables <= n {
		return nil
	}
	use := fmt.Sprintf("set management: {openflow: {table: %d}} or less", n-tables)
	if n <= tables {
		use = fmt.Sprintf("it needs %d, one of them the operator's: declare its forwarding ("+docs.OpenFlow+"), for which csig needs one table", tables+1)
	}
	return &vendors.PermanentError{Err: fmt.Errorf("the switch has %s, and csig's are tables %d to %d: %s", count(n, "table from 0 on", "tables from 0 on"), d.cfg.Table, d.cfg.Table+tables-1, use)}
}

// Observe reads back the setup. Foreign flows in csig's tables, where there is no
// setup of csig's, are a *vendors.ForeignError in a *vendors.PermanentError.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	if err := d.connect(ctx); err != nil {
		return vendors.Setup{}, err
	}
	s, err := d.read(ctx, true)
	if errors.Is(err, untrusted.ErrTooLong) {
		return d.observeOwn(ctx, err)
	}
	if err != nil {
		return vendors.Setup{}, err
	}
	if err := d.refuseForeign(s); err != nil {
		return vendors.Setup{}, err
	}
	return d.setupOf(s), nil
}

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Release ends the lease: every port falls back at once.
func (d *Driver) Release(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	pipe := pipeline{base: d.cfg.Table}
	d.until = time.Time{}
	j := job{steps: [][]ofp.Mod{nil}}
	for slot := range leases {
		f := pipe.lease(slot, 0)
		j.steps[0] = append(j.steps[0], remove(&f, ""))
	}
	_, err := d.run(ctx, &j)
	return errors.Join(err, j.err())
}

// Remove deletes csig's flows, in whatever tables they are. Where flows of the operator's
// lead there, those that send on what is handed over stay, for every port.
func (d *Driver) Remove(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	d.known, d.setup, d.until = vendors.Unread, nil, time.Time{}
	s, err := d.readAll(ctx)
	if errors.Is(err, untrusted.ErrTooLong) { // the operator's flows alone are too many
		return d.onlyPasses(ctx)
	}
	if err != nil {
		return err
	}
	j := job{steps: make([][]ofp.Mod, 3)}
	sent, stay := map[ofp.Key]bool{}, map[uint8]bool{} // the latter by first table
	for _, base := range s.bases() {
		stay[base] = s.leadsTo(base)
	}
	for i := range s.own {
		f := &s.own[i]
		if isPass(f, priorityOther) && stay[f.Table] {
			sent[f.Key()] = true
			continue
		}
		step := 2
		if portOf(f) != 0 { // what remains is found and removed by the record, if this is cut short
			step = 1
		}
		j.steps[step] = append(j.steps[step], remove(f, ""))
	}
	for _, base := range s.bases() {
		pipe := pipeline{base: base}
		for _, number := range s.numbers() {
			if f := pipe.pass(number, false); stay[base] && !sent[f.Key()] && !s.foreignAt(f.Key()) {
				j.steps[0] = append(j.steps[0], ofp.Mod{Kind: ofp.Add, Flow: &f})
			}
		}
	}
	_, err = d.run(ctx, &j)
	return errors.Join(err, j.err())
}

// stays reports whether Remove leaves flows, as it does where the operator's lead to csig's tables.
func (s *state) stays() bool {
	return s.leadsTo(s.base) || slices.ContainsFunc(s.bases(), s.leadsTo)
}

// leadsTo reports whether flows that are not csig's may lead frames to its tables from a first one on.
func (s *state) leadsTo(base uint8) bool {
	for _, flows := range [][]ofp.Flow{s.foreign, s.others} {
		for i := range flows {
			f := &flows[i]
			e := s.effects(f)
			if f.Goes && f.Goto >= base && f.Goto < base+tables || f.Other || e.Opaque || len(e.Resubmits) > 0 {
				return true
			}
		}
	}
	return false
}

// isPass reports whether a flow is one of pipeline.pass.
func isPass(f *ofp.Flow, priority uint16) bool {
	number := portOf(f)
	return number != 0 && f.Priority == priority && f.Match == to(number) && f.Actions.Same(output(number)) && f.Plain() && !f.Goes
}
