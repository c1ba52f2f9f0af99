package ovs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Defaults of Config.
const (
	DefaultRunDir = "/var/run/openvswitch"
	DefaultTable  = 60
)

// maxTable is the highest table that may be the first of csig's: OpenFlow ends
// at 254.
const maxTable = 255 - tables

// Config says where the bridge is.
type Config struct {
	Bridge string // its name
	RunDir string // the folder of Open vSwitch's sockets; "" is DefaultRunDir
	Table  uint8  // the first of csig's six tables; 0 is DefaultTable

	// Who is the owner's name, shown to others that want to program the bridge; ""
	// is csig. With Take the driver takes the bridge from its owner.
	Who  string
	Take bool

	// Role is requested before the first flow is changed; 0: none. Guard is of a bridge that
	// several controllers share: the next takes it from the one before.
	Role  ofp.Role
	Guard *ofp.Guard

	// Dial connects to a unix socket of the switch; nil is this machine.
	Dial func(ctx context.Context, path string) (net.Conn, error)
	// Done is called by Close, where it is not nil.
	Done func() error
}

// Driver drives one bridge. Its methods are not safe for concurrent use.
type Driver struct {
	cfg  Config
	of   *ofp.Conn
	db   database
	info bridgeInfo
	late *question // of the database, still without an answer
	told time.Time // when the question was asked that it answered last, or failed to

	instance uint32 // tells this driver from others
	owner    ownership
	bare     bool // Remove was called since the last Apply

	setup        *vendors.Setup // nil until Apply or the first Update
	pipe         *pipeline
	compiler     *vlanrules.Compiler
	ports        []*port
	byName       map[string]*port
	hasHooks     bool // it has flows that join ports and patches
	known        vendors.Knowledge
	checked      time.Time     // when the bridge was read
	glanceWait   time.Duration // glanceFor; tests wait longer
	askWait      time.Duration // patience; tests that read what is far too long wait longer
	othersReadAt time.Time     // when the flows of other applications were read
	passed       error         // why frames do not come to csig's tables, as it was then
	said         conditions    // that we told of last
	mods         []ofp.Mod
	leased       ofp.Flow
	leaseTaken   error     // why the lease cannot be written: a foreign flow has its place
	until        time.Time // what we gave the lease; zero: none that would have to be there
}

var (
	_ vendors.Driver = (*Driver)(nil)
	_ vendors.Looker = (*Driver)(nil)
)

// port is what the driver knows about one port.
type port struct {
	name   string
	action vlanrules.Action
	number uint32 // its OpenFlow port; 0: not there

	vendors.PortSignal
	want    []ofp.Flow // in tableLive
	have    []ofp.Flow
	state   portState
	foreign *ofp.Flow // one in csig's tables that may take its frames; nil: there is none
}

// portState is how far a port's live flows are.
type portState uint8

const (
	pending portState = iota // have may not be want
	settled                  // have is want
	closed                   // there was no room for want: the port has the fallback, and no live flows
)

// changes is after want or have may have changed.
func (p *port) changes() {
	if p.state == settled {
		p.state = pending
	}
}

// complete is cfg with its defaults. The error is a *vendors.PermanentError.
func (cfg Config) complete() (Config, error) {
	if cfg.Bridge == "" {
		return cfg, &vendors.PermanentError{Err: errors.New("the device has no bridge: add management: {ovs: {bridge: NAME}} to the fleet file")}
	}
	if cfg.RunDir == "" {
		cfg.RunDir = DefaultRunDir
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
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return &Driver{cfg: cfg, instance: rand.Uint32(), glanceWait: glanceFor, askWait: patience}, nil
}

// Close ends the driver's connections. What is programmed stays, until its
// lease ends.
func (d *Driver) Close() error {
	err := d.disconnect()
	if d.cfg.Done != nil {
		err = errors.Join(err, d.cfg.Done())
	}
	return err
}

func (d *Driver) disconnect() error {
	if d.late != nil {
		d.late.stop()
		_ = d.answer(<-d.late.answer) // of no use any more
	}
	if d.db.lock == lockHeld {
		d.release()
	}
	err := d.db.close()
	if d.of != nil {
		err = errors.Join(err, d.of.Close())
		d.of = nil
	}
	return err
}

// patience bounds what is asked of a switch outside of a caller's own limit.
const patience = 5 * time.Second

// connect connects, where there is no connection.
func (d *Driver) connect(ctx context.Context) error {
	if d.of != nil {
		return nil
	}
	d.known.Doubt()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer for %v", patience))
	defer cancel()
	at := path.Join(d.cfg.RunDir, d.cfg.Bridge+".mgmt")
	c, err := d.cfg.Dial(ctx, at)
	if vendors.IsPermanent(err) { // it has its own advice
		return fmt.Errorf("bridge %s: %w", d.cfg.Bridge, err)
	}
	if local := new(net.OpError); errors.As(err, &local) && local.Net == "unix" {
		err = fmt.Errorf("%w: is ovs-vswitchd running, has it a bridge of this name, and may this account open its socket?", err)
	}
	if err != nil { // over SSH with the advice of that
		return fmt.Errorf("bridge %s: %w", d.cfg.Bridge, err)
	}
	of, err := ofp.NewConn(ctx, c, ofp.Version14)
	if err != nil {
		var refused *ofp.Error
		if errors.As(err, &refused) {
			return &vendors.PermanentError{Err: fmt.Errorf("bridge %s does not speak OpenFlow 1.4: ovs-vsctl add bridge %s protocols OpenFlow14 (%w)", d.cfg.Bridge, d.cfg.Bridge, err)}
		}
		return fmt.Errorf("bridge %s: %w", d.cfg.Bridge, err)
	}
	of.Want(d.cfg.Role)
	if d.cfg.Guard != nil {
		of.Guard(d.cfg.Guard)
	}
	d.of = of
	return nil
}

// broken drops a connection that failed, so that the next call makes another.
func (d *Driver) broken(err error) error {
	var refused *ofp.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	d.known.Doubt()
	if d.of != nil {
		_ = d.of.Close() // it has failed already
		d.of = nil
	}
	return fmt.Errorf("bridge %s: %w", d.cfg.Bridge, err)
}

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Release ends the lease: every port falls back at once.
func (d *Driver) Release(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	switch d.owner {
	case watching, claiming:
		if err := d.claim(ctx); err != nil {
			return err
		}
	case lost:
		_ = d.look(ctx) // who has it now, where that can be found out
		return d.checkOwner()
	}
	pipe := pipeline{base: d.cfg.Table}
	lease := pipe.lease(0)
	d.until = time.Time{}
	return d.broken(d.of.Commit(ctx, []ofp.Mod{remove(&lease, "")}))
}

// Remove deletes csig's flows, in whatever tables they are, but for those that
// hand frames over and send them on: without them a bridge that was made for
// csig, or whose controller uses its tables, would forward nothing. It gives ports
// back the VLANs that they had, but for those of leftVLANs.
//
// From whom the bridge was taken away (Config.Take) may write for a moment until
// it knows: what that leaves is removed as well.
func (d *Driver) Remove(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	d.bare = true
	if err := d.claim(ctx); err != nil {
		return err
	}
	d.known, d.setup, d.until = vendors.Unread, nil, time.Time{}
	n, err := d.remove(ctx)
	for d.cfg.Take && n > 0 && err == nil {
		if err := vendors.Wait(ctx, checkEvery+2*glanceFor); err != nil {
			return fmt.Errorf("bridge %s: its flows are removed, and who had the bridge may write some again until it notices: run this once more: %w", d.cfg.Bridge, err)
		}
		n, err = d.remove(ctx)
	}
	if err != nil || d.info.keepsVLANs() {
		return err
	}
	return d.restore(ctx)
}

// restore gives the ports back the VLANs that they had before isolate.
func (d *Driver) restore(ctx context.Context) error {
	if err := d.look(ctx); err != nil {
		return err
	}
	if err := d.checkOwner(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer for %v", patience))
	defer cancel()
	err := d.db.during(ctx, func() error { return d.db.restore(d.cfg.Bridge, d.info.ports) })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, errNotOwner) {
		_ = d.db.close()
	}
	return err
}

// remove deletes csig's flows and returns how many there were.
func (d *Driver) remove(ctx context.Context) (n int, err error) {
	s, err := d.read(ctx, true)
	if err != nil {
		return 0, err
	}
	var mods []ofp.Mod
	for i := range s.flows {
		f := &s.flows[i]
		if !isHook(f) && !sendsOn(f) {
			mods = append(mods, remove(f, ""))
		}
	}
	if s.groups[groupID] != nil {
		mods = append(mods, ofp.Mod{Kind: ofp.Delete, Group: &ofp.Group{ID: groupID}})
	}
	return len(mods), d.broken(d.of.Commit(ctx, mods))
}
