package openflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// checkEvery is how often the switch is read for foreign changes of csig's flows, and
// for ports that came or went. Switches answer from slow processors.
const checkEvery = 5 * time.Second

// maxLease is the longest lease: OpenFlow has 16 bits of seconds, and an agent
// that renews less than once an hour is none.
const maxLease = time.Hour

// device is what the drivers of both kinds of switches have: the connection, what is
// known of the switch and of its ports, and how changes are carried out (run).
type device struct {
	cfg Config
	of  *ofp.Conn

	setup       *vendors.Setup // nil until Apply or the first Update
	ports       []*port
	byName      map[string]*port
	known       vendors.Knowledge
	checked     time.Time // when the switch was read
	unread      bool      // a port was given its first values, or a repair was made, and the switch is to be read at once
	repaired    bool      // the last reading found something to repair
	reconnected bool      // and the switch was not read since
	until       time.Time // what the lease was given; zero: none that would have to be there

	otherPorts []error   // of ports that are in no setup
	lateErrs   []error   // refusals of what the switch had acknowledged, since the last update
	lateShared bool      // and of what all ports share, since the switch was read
	features   *features // of the last connection that was asked
}

// port is what a driver knows of one port.
type port struct {
	name   string
	action vlanrules.Action
	number uint32 // its OpenFlow port; 0: not there

	vendors.PortSignal
	current bool  // the switch has what its intents want
	unknown bool  // what came of its last changes is unknown
	late    bool  // a refusal came after its acknowledgement, since the switch was read
	held    held  // and for some time after that
	failed  error // why it is not as its setup says

	// With tables of csig's own:
	have     vlanrules.Table // in tableLive, unless dirty
	fallback bool            // it has the flow that makes it fall back
	dirty    bool            // what it has in tableLive is unknown

	// With one table:
	flat  flatPort
	until time.Time // when its band ends
}

// held keeps a port that the switch refused late in its fallback: what is written again
// may be refused as late, and its tags would pass meanwhile.
type held struct {
	until time.Time
	why   error
}

// lateHold is how long.
const lateHold = 30 * time.Second

// problem is why a port is not as its setup says, nil where it is.
func (p *port) problem() error {
	if p.failed == nil {
		return nil
	}
	return &vendors.PortError{Port: p.name, Err: p.failed}
}

// take makes the ports those of a setup, of which nothing is known.
func (d *device) take(s *vendors.Setup) {
	before := d.byName
	d.setup, d.known = s, vendors.Unread
	d.ports, d.byName = nil, make(map[string]*port, len(s.Ports))
	for _, p := range s.Ports {
		q := &port{name: p.Port, action: p.Action}
		if was := before[p.Port]; was != nil {
			q.number = was.number
		}
		d.ports = append(d.ports, q)
		d.byName[p.Port] = q
	}
}

// Close ends the driver. What is programmed stays, until its lease ends.
func (d *device) Close() error {
	d.of = nil
	if d.cfg.Done != nil {
		return d.cfg.Done()
	}
	return nil
}

// connect finds the connection. What was known is in doubt where it is another
// one: the switch may have restarted, and values of before are renewed only where they
// are given again.
func (d *device) connect(ctx context.Context) error {
	of, err := d.cfg.Connect(ctx)
	if err != nil || of != d.of {
		d.known.Doubt()
		d.of, d.until, d.reconnected = nil, time.Time{}, true
		for _, p := range d.ports {
			p.until = time.Time{}
		}
	}
	if err == nil {
		d.of = of
	}
	return err
}

// broken notes that what the switch has is in doubt.
func (d *device) broken(err error) error {
	d.known.Doubt()
	err = fmt.Errorf("reading the switch: %w", err)
	if errors.Is(err, untrusted.ErrTooLong) {
		err = fmt.Errorf("%w: %s", err, byCookie)
	}
	return err
}

// portNames are the switch's ports.
type portNames struct {
	list   []ofp.Port
	number map[string]uint32 // by the names that fleet files use
	names  map[uint32]string
}

func newPortNames(list []ofp.Port) portNames {
	n := portNames{list: list, number: map[string]uint32{}, names: map[uint32]string{}}
	for i := range list {
		p := &list[i]
		n.number[p.Label()], n.names[p.Number] = p.Number, p.Label()
	}
	return n
}

func (d *device) readPorts(ctx context.Context) (portNames, error) {
	list, err := d.of.Ports(ctx)
	if err != nil {
		return portNames{}, d.broken(err)
	}
	return newPortNames(list), nil
}

// shared are the numbers of the ports that share a name; "" is any.
func (n *portNames) shared(name string) (numbers []string) {
	for i := range n.list {
		if p := &n.list[i]; p.Shared && (name == "" || name == p.Name) {
			numbers = append(numbers, p.Label())
		}
	}
	return numbers
}

// missing is why no port has a name.
func (n *portNames) missing(name string) error {
	if numbers := n.shared(name); name != "" && numbers != nil {
		return fmt.Errorf("%d ports of the switch have this name, of which OpenFlow has 15 bytes: write their numbers in its place (%s)", len(numbers), strings.Join(numbers, ", "))
	}
	return errors.New("the switch has no such port: it is programmed as soon as it appears, and if csig never found it, tags pass there as they are")
}

// updater is what the two kinds of switches do in their own ways.
type updater interface {
	vendors.Driver
	connect(context.Context) error
	check(context.Context, *vendors.UpdateResult) error // reads the switch and repairs what is not as it was left

	// write brings ports to their intents and then renews the lease, which began at start.
	// errs are of single ports; err ends the update.
	write(ctx context.Context, updates []vendors.PortUpdate, start time.Time, lease time.Duration, res *vendors.UpdateResult) (errs []error, err error)
}

// update is Update.
//
// The first one of a driver that was not told a setup takes over the one it
// finds. An intent that cannot be carried out is a *vendors.PermanentError of
// its port, and what the switch refuses a *vendors.PortError; these ports then fall
// back alone.
func (d *device) update(ctx context.Context, u updater, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if lease <= 0 || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want up to %v", lease, maxLease)}
	}
	start := time.Now()
	if d.setup == nil {
		if err := vendors.TakeOver(ctx, u, func() bool { return d.known == vendors.Current }); err != nil {
			return res, err
		}
	}
	if err := u.connect(ctx); err != nil {
		return res, err
	}
	d.takeLate()
	if d.known != vendors.Current || d.unread || time.Since(d.checked) >= checkEvery {
		err := u.check(ctx, &res)
		again := d.repaired
		d.repaired = len(res.Repaired) > 0
		d.unread = d.repaired && !again // a switch that does not do as it says is not read in every update
		if err != nil {
			return res, err
		}
		res.ReadBack = vendors.ReadBackBefore
	}
	errs, err := u.write(ctx, updates, start, lease, &res)
	errs = append(append(errs, d.otherPorts...), d.lateErrs...)
	d.lateErrs = nil
	if err != nil {
		return vendors.UpdateResult{Repaired: res.Repaired, ReadBack: res.ReadBack, Restarted: res.Restarted, Facts: res.Facts}, errors.Join(append(errs, err)...)
	}
	res.Leased = true
	return res, errors.Join(errs...)
}

// takeLate takes in the refusals that have arrived.
func (d *device) takeLate() {
	for _, r := range d.of.LateErrors() {
		d.late(r)
	}
}

// late takes in a refusal of what the switch had acknowledged. A port of which it is
// is written again from the beginning, as its statistics may say that all is there.
func (d *device) late(r *ofp.Error) {
	d.known.Doubt()
	err := fmt.Errorf("the switch refused a change after it had acknowledged it, and its flows are written again: %w", r)
	p := d.byName[r.Name]
	if p == nil {
		// The lease may be among what was refused.
		d.lateShared, d.until = true, time.Time{}
		d.lateErrs = append(d.lateErrs, err)
		return
	}
	p.held = held{time.Now().Add(lateHold), fmt.Errorf("the switch refused a change after it had acknowledged it: it has the fallback, and its flows are written again %v later: %w", lateHold, r)}
	p.late = true
	p.dirty, p.current = true, false
	d.lateErrs = append(d.lateErrs, &vendors.PortError{Port: p.name, Err: err})
}

// flowsObject is the object of all repairs: what csig has on a switch are its flows.
const flowsObject = "flows"

// emptied is what an update has found of a switch that has none of csig's flows.
func emptied(restarted bool) string {
	if restarted {
		return "the switch has connected again, and had none of csig's flows"
	}
	return "the switch had none of csig's flows: another process has deleted them, or the switch is in fail-standalone mode and has lost its own controllers (then it forwards by itself past all flows: set fail-secure)"
}

// describe adds to a device's facts what the switch reports of itself, and what of csig's
// ways with it was not measured.
func (d *device) describe(ctx context.Context, ports *portNames, f *vendors.Facts) error {
	f.Ports = slices.Sorted(maps.Keys(ports.number))
	if numbers := ports.shared(""); numbers != nil {
		f.Notes = append(f.Notes, "ports whose names have the same first 15 bytes, which are all that OpenFlow has, go by their numbers: "+strings.Join(numbers, ", "))
	}
	desc, err := d.of.Desc(ctx)
	var refused *ofp.Error
	switch {
	case err == nil:
		f.Identity = vendors.Identity{Maker: desc.Maker, Model: desc.Hardware, Version: desc.Software, Serial: desc.Serial}
	case !errors.As(err, &refused):
		return d.broken(err)
	}
	if q := d.cfg.Measured; q == nil || q.AckToWire == nil || f.OtherModel(q) != "" {
		f.Notes = append(f.Notes, "assumed, not measured: a change has taken effect when the switch answers the barrier behind it (csig qualify measures that)")
	}
	return nil
}
