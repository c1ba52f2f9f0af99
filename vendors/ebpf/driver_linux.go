package ebpf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vlanrules"
)

// Driver drives the ports of one network namespace. Its methods are not safe for
// concurrent use.
type Driver struct {
	netdev.NS

	plane  *plane         // nil until there is one
	setup  *vendors.Setup // what it is to be; nil until Apply or the first Update
	ports  []*port
	byName map[string]*port
	swept  bool // what an earlier process left on devices that are no ports was detached

	links   *netdev.Links // nil until they are needed
	scanned bool          // what links has is what there is
}

var (
	_ vendors.Driver       = (*Driver)(nil)
	_ vendors.Looker       = (*Driver)(nil)
	_ vendors.Measurer     = (*Driver)(nil)
	_ vendors.MTUSetter    = (*Driver)(nil)
	_ vendors.HealthReader = (*Driver)(nil)
)

// port is what the driver knows about one port.
type port struct {
	setup vendors.PortSetup
	index int       // of its device; 0: not there
	entry planePort // as the data plane has it

	intents []vlanrules.Intent // those that the entry was made for
	rate    uint64             // bit/s
	drain   netdev.Drain       // where it writes signals of the queue
	egress  netdev.Egress      // what its device is like
	held    *held              // while its interval changes

	before ebpf.ProgramID // runs before csig's program; 0: none
}

// Open returns a driver for the ports of a network namespace. It changes nothing, and takes
// the data plane over where there is one.
func Open(cfg Config) (*Driver, error) {
	return &Driver{NS: netdev.NS(cfg.NetNS)}, nil
}

// Close ends the driver. The data plane stays, until its ports' deadlines.
func (d *Driver) Close() error {
	err := d.closePlane()
	if d.links != nil {
		err = errors.Join(err, d.links.Close())
		d.links, d.scanned = nil, false
	}
	return err
}

func (d *Driver) closePlane() error {
	if d.plane == nil {
		return nil
	}
	err := d.plane.Close()
	d.plane = nil
	return err
}

// Probe loads the program, which has the kernel check it, without attaching it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := Offline()
	f.Notes = f.Notes[:len(f.Notes)-1]
	f.Identity.Version = netdev.KernelRelease()
	devices, err := d.devices(ctx)
	if err == nil {
		err = d.ready(devices)
	}
	if err != nil {
		if !errors.Is(err, errNoBPF) {
			return f, err
		}
		no := vendors.Refusal(err.Error())
		f.Update, f.Wide, f.Strip, f.Lease, f.Others = no, no, no, no, 0
		for i := range f.TagDepths {
			f.TagDepths[i] = no
		}
	}
	return f, nil
}

// devices are the network devices: their indices by name. They are listed again only when the
// kernel has reported that one came, went or was renamed.
func (d *Driver) devices(ctx context.Context) (map[string]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.links == nil {
		links, err := d.WatchLinks()
		if err != nil {
			return nil, err
		}
		d.links = links
	}
	changed, err := d.links.Changed()
	if d.scanned = d.scanned && !changed && err == nil; !d.scanned && err == nil {
		err = d.links.Scan()
		d.scanned = err == nil
	}
	return d.links.Index, err
}

// find opens the data plane that is attached to one of the devices, and reports whether there
// is any of ours.
func (d *Driver) find(devices map[string]int) (found bool, err error) {
	err = d.Do(func() error {
		for _, index := range devices {
			prog, err := attached(index)
			if err != nil {
				return err
			}
			if prog == nil {
				continue
			}
			found = true
			if d.plane == nil {
				d.plane, err = take(prog)
			}
			return errors.Join(err, prog.Close())
		}
		return nil
	})
	return found, err
}

// ready makes a data plane where there is none.
func (d *Driver) ready(devices map[string]int) error {
	if d.plane != nil {
		return nil
	}
	if _, err := d.find(devices); err != nil || d.plane != nil {
		return err
	}
	p, err := load(nil)
	if err == nil {
		d.plane = p
	}
	return err
}

// Observe reads back the setup.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	seen, err := d.Look(ctx)
	return seen.Setup, err
}

// Look reads back the setup, and whether ports have a deadline to come.
func (d *Driver) Look(ctx context.Context) (vendors.DataPlane, error) {
	seen := vendors.DataPlane{Signal: vendors.SignalFallback}
	devices, err := d.devices(ctx)
	if err != nil {
		return seen, err
	}
	found, err := d.find(devices)
	if errors.Is(err, errNoBPF) && d.plane == nil {
		return seen, nil // then there is none of ours either
	}
	if err != nil || !found {
		return seen, err
	}
	if d.plane == nil {
		seen.Setup.Damaged = "the BPF program " + programName + " is another version's"
		return seen, nil
	}
	s, damaged, err := d.plane.recorded()
	if err != nil {
		return seen, err
	}
	s.Damaged = damaged
	now := monotonic()
	err = d.Do(func() error {
		for i := range s.Ports {
			p := &s.Ports[i]
			index := devices[p.Port]
			if index == 0 {
				continue
			}
			var e planePort
			if p.Damaged, _, err = d.plane.check(index, &s, p, &e); err != nil {
				return err
			}
			if left := time.Duration(e.Deadline - now); e.Deadline > now && (seen.Left == 0 || left < seen.Left) {
				seen.Signal, seen.Left = vendors.SignalWritten, left
			}
		}
		return nil
	})
	seen.Setup = s
	return seen, err
}

// check says what is wrong with a port, "" for nothing, and reads its entry and which program
// runs before csig's. It runs inside the namespace.
func (p *plane) check(index int, s *vendors.Setup, port *vendors.PortSetup, e *planePort) (string, ebpf.ProgramID, error) {
	switch err := p.lookup(uint32(index), e); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return "its entry in csig_ports is missing", 0, nil
	case err != nil:
		return "", 0, err
	case setupPart(*e) != entryOf(s, port):
		return "its entry in csig_ports is another one", 0, nil
	}
	at, err := p.attachedAt(index)
	if err != nil || at.same {
		return "", at.before, err
	}
	if at.program == nil {
		return "BPF program " + programName + " is missing", 0, nil
	}
	same, err := p.is(at.program)
	if err = errors.Join(err, at.program.Close()); err != nil || same {
		return "", at.before, err
	}
	return "BPF program " + programName + " is another one", at.before, nil
}

// Diff lists what Apply(want) would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Apply makes the data plane that of the setup. A port whose entry changes in more than its tags
// advertises stale until the next Update; another one keeps what it has. A port whose device is missing is
// an error of that port; the others are done all the same.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := validate(&want); err != nil {
		return err
	}
	devices, err := d.devices(ctx)
	if err != nil {
		return err
	}
	if err := d.ready(devices); err != nil {
		if errors.Is(err, errNoBPF) {
			return &vendors.PermanentError{Err: err}
		}
		return err
	}
	s := want.Wanted()
	alike, err := d.alike(s)
	if err != nil {
		return err
	}
	// The record comes first: what it names and is not there is damaged, and repaired.
	if err := d.plane.record(s); err != nil {
		return err
	}
	d.adopt(s)
	return errors.Join(d.sync(devices, alike)...)
}

// alike reports whether what ports write means the same by a setup as by the one before.
func (d *Driver) alike(s *vendors.Setup) (bool, error) {
	before := d.setup
	if before == nil {
		recorded, _, err := d.plane.recorded()
		if err != nil {
			return false, err
		}
		before = &recorded
	}
	return before.Profile == s.Profile || before.Measure.SameValues(s.Measure), nil
}

// adopt takes a setup as what the device is to have.
func (d *Driver) adopt(s *vendors.Setup) {
	d.setup, d.ports, d.byName = s, nil, make(map[string]*port, len(s.Ports))
	for i := range s.Ports {
		p := &port{setup: s.Ports[i]}
		d.ports = append(d.ports, p)
		d.byName[p.setup.Port] = p
	}
}

// sync brings the data plane to the setup. The errors are of single ports, or of all.
func (d *Driver) sync(devices map[string]int, alike bool) (errs []error) {
	err := d.Do(func() error {
		slots, entries, err := d.plane.slots()
		if err != nil {
			return err
		}
		ours := make(map[int]bool, len(d.ports))
		for _, p := range d.ports {
			p.index, p.intents = devices[p.setup.Port], nil
			if p.index == 0 {
				errs = append(errs, missing(p.setup.Port))
				continue
			}
			ours[p.index] = true
			if err := d.place(p, entries, slots, alike); err != nil {
				errs = append(errs, portError(p, err))
			}
		}
		// A program goes before its entry, without which frames pass with their tags. One without
		// an entry is of another data plane, which this one takes the place of once.
		if !d.swept {
			d.swept = true
			for _, index := range devices {
				if ours[index] {
					continue
				}
				if err := detach(index); err != nil {
					errs, d.swept = append(errs, err), false
				}
			}
		}
		for index := range entries {
			if !ours[int(index)] {
				errs = append(errs, detach(int(index)), d.plane.remove(index))
			}
		}
		return nil
	})
	return append(errs, err)
}

// portError is an error of one port; a refusal stays one.
func portError(p *port, err error) error {
	if vendors.IsPermanent(err) {
		return err
	}
	return &vendors.PortError{Port: p.setup.Port, Err: err}
}

func missing(port string) error {
	return &vendors.PortError{Port: port, Err: errors.New("there is no such network device; it is programmed as soon as it appears")}
}

// slots are those that ports have, and the entries.
func (p *plane) slots() (used map[uint32]bool, entries map[uint32]planePort, err error) {
	used = make(map[uint32]bool)
	entries, err = p.entries()
	for _, e := range entries {
		used[e.Slot] = true
	}
	return used, entries, err
}

// place makes a port's entry, where it is not there, and attaches the program. alike: what entries have means the
// same by the setup.
func (d *Driver) place(p *port, entries map[uint32]planePort, used map[uint32]bool, alike bool) error {
	want := entryOf(d.setup, &p.setup)
	e, ok := entries[uint32(p.index)]
	if ok && alike && setupPart(e) == want {
		p.entry = e
		return d.plane.attach(p.index)
	}
	if want.Slot = e.Slot; ok && alike && e.Deadline != 0 && sameSignals(&e, &want) {
		// What it measures and writes stays: only the tags that it does so in are others.
		want.Deadline, want.Interval, want.Capacity, want.Signals = e.Deadline, e.Interval, e.Capacity, e.Signals
		want.Shortest, want.Pace, want.Hold = e.Shortest, e.Pace, e.Hold
	}
	if !ok {
		if d.setup.Measure != nil { // it measures from now on
			want.Interval = uint64(d.setup.Measure.Interval)
		}
		for used[want.Slot] {
			want.Slot++
		}
		if want.Slot >= maxDevices {
			return &vendors.PermanentError{Port: p.setup.Port, Err: fmt.Errorf("there are more than %d ports", maxDevices)}
		}
		used[want.Slot] = true
		if err := d.plane.restart(want.Slot); err != nil {
			return err
		}
	}
	if err := d.plane.put(uint32(p.index), &want); err != nil {
		return err
	}
	p.entry = want
	return d.plane.attach(p.index)
}

// sameSignals reports whether what the signals of one entry hold means the same in another.
func sameSignals(a, b *planePort) bool {
	for i := range a.Signals {
		if a.Signals[i].Carried != b.Signals[i].Carried || a.Signals[i].Max != b.Signals[i].Max {
			return false
		}
	}
	return a.Uec == b.Uec && a.Update == b.Update
}

// restart has a slot wait for a whole interval.
func (p *plane) restart(slot uint32) error {
	return p.CsigState.Put(slot, &planeState{})
}

// Release has all ports fall back now.
func (d *Driver) Release(ctx context.Context) error {
	devices, err := d.devices(ctx)
	if err != nil {
		return err
	}
	if found, err := d.find(devices); err != nil || !found || d.plane == nil {
		return err
	}
	_, entries, err := d.plane.slots()
	for index, e := range entries {
		e.Deadline = 0
		err = errors.Join(err, d.plane.put(index, &e))
		for _, p := range d.ports {
			if p.index == int(index) {
				p.entry = e
			}
		}
	}
	return err
}

// Remove detaches the program from all devices; the kernel frees it and its maps.
func (d *Driver) Remove(ctx context.Context) error {
	devices, err := d.devices(ctx)
	if err != nil {
		return err
	}
	err = d.Do(func() (err error) {
		for _, index := range devices {
			err = errors.Join(err, detach(index))
		}
		return err
	})
	if errors.Is(err, errNoBPF) {
		err = nil // then there is none of ours
	}
	d.setup, d.ports, d.byName = nil, nil, nil
	return errors.Join(err, d.closePlane())
}

// monotonic is the clock that the program reads, in ns.
func monotonic() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}
