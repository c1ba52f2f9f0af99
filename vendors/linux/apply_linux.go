package linux

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// conflictTries is how often a transaction is rebuilt because another process
// changed nftables between our reading and our writing.
const conflictTries = 5

// Apply makes the table and the programs those of the setup. Where the kernel
// takes the whole change in one transaction, which it does for hundreds of
// ports, frames see the old setup or the new one; otherwise ports change one
// after the other, each at once. What is refused, a strip port without the right
// to BPF among it, is refused before anything is written. A port whose device is missing is an error of
// that port; the others are done all the same.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := validate(&want); err != nil {
		return err
	}
	stale, err := staleEntries(&want)
	if err != nil {
		return &vendors.PermanentError{Err: err}
	}
	if err := d.canStrip(&want); err != nil {
		return err
	}
	if err := d.endOldReverts(); err != nil {
		return err
	}
	s := want.Wanted()
	d.reuse = d.written()
	d.alike = ""
	if d.setup != nil && d.setup.Measure.SameValues(s.Measure) {
		d.alike = d.setup.Profile
	}
	d.setup = s
	d.ports, d.byName = nil, make(map[string]*port, len(s.Ports))
	for i := range s.Ports {
		p := &port{name: s.Ports[i].Port, key: portKey(s.Ports[i].Port), action: s.Ports[i].Action, spec: stripSpecOf(s, &s.Ports[i]), label: "elements of port " + s.Ports[i].Port}
		d.ports = append(d.ports, p)
		d.byName[p.name] = p
	}
	d.known = vendors.Unread
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	d.stale, d.leaseKeys = stale, leaseKeys(s)
	_, err = d.sync(ctx)
	if d.known != vendors.Current {
		return err
	}
	for _, p := range d.ports {
		err = errors.Join(err, p.problem())
	}
	return err
}

// canStrip refuses a setup whose strip ports cannot have their program here.
// It changes nothing.
func (d *Driver) canStrip(s *vendors.Setup) error {
	if !s.Strips() {
		return nil
	}
	if err := d.links.Scan(); err != nil {
		return err
	}
	var errs []error
	err := d.Do(func() error {
		for i := range s.Ports {
			p := &s.Ports[i]
			spec := stripSpecOf(s, p)
			if !spec.wanted() {
				continue
			}
			_, err := d.strip.load(spec)
			if index := d.links.Index[p.Port]; err == nil && index != 0 {
				_, err = d.strip.check(index, spec)
			}
			if errors.Is(err, errNoBPF) { // anything else may pass: sync tries again
				errs = append(errs, &vendors.PermanentError{Port: p.Port, Err: err})
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// problem is why a port is not as its setup says, nil where it is.
func (p *port) problem() error {
	switch {
	case p.index == 0:
		return missing(p)
	case p.called != "":
		return renamed(p)
	}
	return p.strip
}

func missing(p *port) error {
	return &vendors.PortError{Port: p.name, Err: errors.New("there is no such network device; it is programmed as soon as it appears")}
}

// sync brings the device to d.setup and our knowledge to the device. It
// returns what it had to change. Afterwards d.known is Current
// where the rules are in place; an error then concerns single ports.
func (d *Driver) sync(ctx context.Context) ([]vendors.Change, error) {
	d.known.Doubt()
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changes, err := d.trySync()
		if !errors.Is(err, unix.ERESTART) || try == conflictTries {
			return changes, err
		}
	}
}

func (d *Driver) trySync() ([]vendors.Change, error) {
	if err := d.sock.reconnect(d.cfg.NetNS); err != nil {
		return nil, err
	}
	// Events first: the next cycle receives what happens after the scan.
	if _, err := d.links.Changed(); err != nil {
		return nil, err
	}
	if err := d.links.Scan(); err != nil {
		return nil, err
	}
	have, err := d.observe()
	if err != nil {
		return nil, err
	}
	if err := foreign(have); err != nil {
		return nil, err
	}
	have.alike = d.alike
	if d.setup == nil {
		return nil, &vendors.PermanentError{Err: errors.New("no setup is known: call Apply first")}
	}
	d.place(have)
	want, err := rulesetOf(d.setup, d.deviceOf, d.depths)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	groups := reconcile(d.setup, want, have)
	d.generation = have.generation
	if err := d.carryOut(groups); err != nil {
		return nil, err
	}
	var changes []vendors.Change
	for _, g := range groups {
		changes = append(changes, vendors.Change{Kind: g.kind, Port: g.port, What: "nftables", Detail: strings.Join(g.why, ", ")})
	}
	if d.leaseFlushed(have) {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, What: "nftables", Detail: "the lease was gone, and ports had fallen back: elements of set " + setLease})
		d.leaseUntil = time.Time{} // said once; Update gives the next one
	}
	same := have.sameMeaning(d.setup)
	if !same {
		d.leaseUntil = time.Time{} // taken back with what it was for
	}
	for _, p := range d.ports {
		var now []interval
		s, w := have.sets[p.key], want.set(p.key)
		if s != nil && w.isMap && w.same(s) && !s.irregular && same {
			now = s.intervals
		}
		if d.known != vendors.Unread && s != nil && !slices.Equal(now, p.have) {
			changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: p.name, What: "nftables", Detail: "elements of map " + p.key})
		}
		p.have = append(p.have[:0], now...)
	}
	for _, g := range groups {
		if p := d.byName[g.port]; p != nil && g.content != nil {
			p.have = append(p.have[:0], g.content...)
		}
	}
	d.known = vendors.Current
	stripped, err := d.syncStrip(have)
	changes = slices.DeleteFunc(append(changes, stripped...), func(c vendors.Change) bool {
		p := d.byName[c.Port]
		return p != nil && p.moved
	})
	for _, p := range d.ports {
		p.moved = false
	}
	return changes, err
}

// observe reads our table, unless no other process has changed nftables since reuse was so: this driver
// knows what it wrote, and that the kernel deletes the chain of a device that goes. At a reload the lease
// has no time for hundreds of ports.
func (d *Driver) observe() (*observed, error) {
	have := d.reuse
	d.reuse = nil
	if have != nil {
		now, err := d.sock.generation()
		if err != nil {
			return nil, err
		}
		if now == d.generation {
			chains, err := d.sock.chains()
			if err != nil {
				return nil, err
			}
			if have.keep(chains) {
				have.generation = now
				return have, nil
			}
		}
	}
	return d.sock.observe(false)
}

// written is our table as the last sync left it, with the elements that were written since; nil
// where that is not known.
func (d *Driver) written() *observed {
	left := time.Until(d.leaseUntil)
	if d.known != vendors.Current || left <= 0 {
		return nil
	}
	r, err := rulesetOf(d.setup, d.deviceOf, d.depths) // by the devices that were there
	if err != nil {
		return nil
	}
	have := r.asObserved()
	have.sets[setLease].keys, have.sets[setLease].left = d.leaseKeys, left
	for _, p := range d.ports {
		have.sets[p.key].intervals = slices.Clone(p.have)
	}
	return have
}

// leaseFlushed reports whether another process deleted the lease while it ran. The
// elements come back with the update that is about to follow.
func (d *Driver) leaseFlushed(have *observed) bool {
	lease := have.sets[setLease]
	return d.known != vendors.Unread && lease != nil && len(lease.keys) == 0 && time.Now().Before(d.leaseUntil)
}

// carryOut writes groups in as few transactions as the kernel allows.
func (d *Driver) carryOut(groups []group) error {
	if len(groups) == 0 {
		return nil
	}
	// A setup of hundreds of ports takes megabytes, which no cycle needs again.
	defer func() { d.batch = batch{} }()
	b := &d.batch
	b.begin(d.sock.seq+1, d.generation)
	empty := len(b.b)
	for _, g := range groups {
		start := *b
		g.write(b)
		if len(b.b) <= d.sock.max || len(start.b) == empty {
			continue
		}
		// Too long with this group: send what came before, begin again with it.
		*b = start
		if err := d.commit(); err != nil {
			return err
		}
		b.begin(d.sock.seq+1, d.generation)
		g.write(b)
	}
	return d.commit()
}

// commit ends and sends the batch, and keeps count of the generation.
func (d *Driver) commit() error {
	d.batch.end()
	if err := d.sock.commit(&d.batch); err != nil {
		if d.known.Doubt(); !errors.Is(err, unix.ERESTART) { // which is that nothing of it happened
			d.known = vendors.Unread
		}
		return err
	}
	d.generation++
	if d.generation == 0 {
		d.generation = 1 // as the kernel does: 0 is no generation
	}
	return nil
}

// syncStrip attaches and detaches programs, on all devices: one that is no
// longer in the setup must not keep its program. One that never was may be a port
// of it under another name: while a port that strips is missing, it keeps its
// program. What goes wrong at a port of
// the setup is noted there; the error is of other devices, or of all.
func (d *Driver) syncStrip(have *observed) ([]vendors.Change, error) {
	var changes []vendors.Change
	var errs []error
	missing, at := false, make(map[int]*port, len(d.ports))
	for _, p := range d.ports {
		p.strip = nil
		missing = missing || p.spec.wanted() && p.index == 0
		if p.index != 0 {
			at[p.index] = p
		}
	}
	err := d.Do(func() error {
		for index, name := range d.links.Name {
			p := at[index]
			var spec stripSpec
			switch {
			case p != nil:
				spec = p.spec
			case missing && have.sets[portKey(name)] == nil:
				continue
			}
			why, err := d.strip.restore(index, spec)
			switch err = stripProblem(name, err); {
			case err != nil && p != nil:
				p.strip = err
			case err != nil:
				errs = append(errs, err)
			case why != "" && spec.wanted():
				changes = append(changes, vendors.Change{Kind: vendors.Create, Port: name, What: "strip", Detail: why})
			case why != "":
				changes = append(changes, vendors.Change{Kind: vendors.Remove, Port: name, What: "strip", Detail: why})
			}
		}
		return nil
	})
	return changes, errors.Join(append(errs, err)...)
}

// stripProblem makes an error of a port's: one that trying again will not cure
// where the right is missing.
func stripProblem(port string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoBPF) || errors.Is(err, unix.EPERM):
		return &vendors.PermanentError{Port: port, Err: err}
	}
	return &vendors.PortError{Port: port, Err: err}
}
