package linux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vlanrules"
)

// Driver drives the ports of one network namespace. Its methods are not safe
// for concurrent use.
type Driver struct {
	netdev.NS
	cfg      Config
	sock     *socket
	links    *netdev.Links
	strip    stripper
	depths   int
	depthWhy string // why depths is less than maxDepth

	setup      *vendors.Setup // what the table is to be; nil until Apply or the first Update
	alike      string         // the profile of the setup before, where values mean the same by both
	ports      []*port
	byName     map[string]*port
	compiler   *vlanrules.Compiler
	known      vendors.Knowledge
	generation uint32 // of the ruleset that is known

	reuse      *observed // our table, where it need not be read, for the sync that comes
	leaseUntil time.Time // what we gave the lease; zero: nothing that would have to be there

	stale     []interval // the fallback
	leaseKeys []uint16

	batch   batch
	pending []*port // of the batch being written

	sender *linkSender // of test frames; nil until the first
}

var (
	_ vendors.Driver       = (*Driver)(nil)
	_ vendors.SelfTester   = (*Driver)(nil)
	_ vendors.Looker       = (*Driver)(nil)
	_ vendors.MTUSetter    = (*Driver)(nil)
	_ vendors.HealthReader = (*Driver)(nil)
)

// port is what the driver knows about one port.
type port struct {
	name   string
	key    string
	action vlanrules.Action
	index  int    // of its device; 0: not there
	moved  bool   // its device came, went or was made again: no process changed its rules
	called string // the device's name, where it is not the port's any more
	label  string
	spec   stripSpec // of its BPF program

	vendors.PortSignal
	want     []interval
	have     []interval // in the kernel
	del, add []interval

	strip error // why a strip port has no program, nil where it has
}

// Open returns a driver for the ports of a network namespace. It changes
// nothing. The error says what is missing: rights, or nftables.
func Open(cfg Config) (*Driver, error) {
	d := &Driver{NS: netdev.NS(cfg.NetNS), cfg: cfg}
	d.depths, d.depthWhy = depthsOfKernel()
	var err error
	if d.sock, err = dial(cfg.NetNS); err != nil {
		return nil, err
	}
	if d.links, err = d.WatchLinks(); err != nil {
		return nil, errors.Join(err, d.sock.close())
	}
	if _, err = d.sock.generation(); err != nil {
		err = fmt.Errorf("%w: nftables needs CAP_NET_ADMIN in the network namespace and a kernel with NF_TABLES and NF_TABLES_NETDEV", err)
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close ends the driver's connections. What is programmed stays, until its
// lease ends.
func (d *Driver) Close() error {
	d.sender.close()
	return errors.Join(d.sock.close(), d.links.Close(), d.strip.close())
}

// Observe reads back the setup. Ports are in the order of their devices'
// indices, those without a device last, by name. A table "csig" that is not
// ours is a *vendors.PermanentError.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	seen, err := d.Look(ctx)
	return seen.Setup, err
}

// Look reads back the setup and the lease.
func (d *Driver) Look(ctx context.Context) (vendors.DataPlane, error) {
	if err := ctx.Err(); err != nil {
		return vendors.DataPlane{}, err
	}
	d.known.Doubt() // what the scan finds, no event reports again
	if err := d.sock.reconnect(d.cfg.NetNS); err != nil {
		return vendors.DataPlane{}, err
	}
	if err := d.links.Scan(); err != nil {
		return vendors.DataPlane{}, err
	}
	have, err := d.sock.observe(true)
	if err != nil {
		return vendors.DataPlane{}, err
	}
	seen := vendors.DataPlane{Signal: vendors.SignalFallback}
	if lease := have.sets[setLease]; have.ours() && lease != nil && lease.left > 0 {
		seen.Signal, seen.Left = vendors.SignalWritten, lease.left
	}
	seen.Setup, err = d.setupOf(have)
	return seen, err
}

// setupOf is the setup that the observed table was made for. The links have to
// be scanned.
func (d *Driver) setupOf(have *observed) (vendors.Setup, error) {
	s, readable, err := have.setup(d.links.Index, d.depths)
	if err != nil || !readable {
		return s, err
	}
	err = d.Do(func() error {
		for i := range s.Ports {
			p := &s.Ports[i]
			index := d.links.Index[p.Port]
			if index == 0 {
				continue
			}
			why, err := d.strip.check(index, stripSpecOf(&s, p))
			if errors.Is(err, errNoBPF) || errors.Is(err, errHidden) {
				why, err = "its BPF program cannot be looked at: "+err.Error(), nil
			}
			if err != nil {
				return fmt.Errorf("port %s: %w", p.Port, err)
			}
			if why != "" {
				damage(&s, p.Port, why)
			}
		}
		return nil
	})
	return s, err
}

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Release ends the lease: every port falls back at once.
func (d *Driver) Release(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	have, err := d.sock.observe(false)
	if err != nil || !have.ours() || have.sets[setLease] == nil {
		return err
	}
	d.known.Doubt()
	d.leaseUntil = time.Time{}
	d.batch.begin(d.sock.seq+1, have.generation)
	d.batch.labelNext("release of the lease")
	d.batch.flushSet(setLease)
	d.batch.end()
	return d.sock.commit(&d.batch)
}

// Remove deletes our table and our programs. A table of our name that is not
// ours stays.
func (d *Driver) Remove(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.known.Doubt()
	d.setup, d.leaseUntil = nil, time.Time{}
	if err := d.links.Scan(); err != nil {
		return err
	}
	var errs []error
	if err := d.endOldReverts(); err != nil {
		errs = append(errs, err)
	}
	have, err := d.sock.observe(false)
	switch {
	case err != nil:
		errs = append(errs, err)
	case have.ours():
		d.batch.begin(d.sock.seq+1, have.generation)
		d.batch.delTable()
		d.batch.end()
		errs = append(errs, d.sock.commit(&d.batch))
	}
	errs = append(errs, d.Do(func() error {
		var errs []error
		for index, name := range d.links.Name {
			if err := d.strip.remove(index); err != nil {
				errs = append(errs, fmt.Errorf("port %s: %w", name, err))
			}
		}
		return errors.Join(errs...)
	}))
	return errors.Join(errs...)
}
