package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/rollout"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// reach opens the devices of a fleet: through their agents, which set them up, or
// directly where the platform permits that and the fleet file names no agent.
type reach struct {
	fleet    *inventory.Fleet
	registry *all.Registry
	profile  func() string // the hash of the fleet's

	reads bool // devices whose agent the fleet file does not name are opened directly, only to be read

	// bypassed reports each device that csig off drives directly because its daemon
	// does not answer, or may not be opened, with the mark that then keeps that
	// daemon from putting things back. nil: a daemon has to answer.
	bypassed func(device, silence, mark string)
}

func newReach(f *inventory.Fleet) *reach {
	return &reach{fleet: f, registry: all.Default(), profile: sync.OnceValue(f.Profile.Hash)}
}

// open connects to one device. It changes nothing there.
func (r *reach) open(ctx context.Context, name string) (rollout.Target, error) {
	d, ok := r.fleet.Device(name)
	if !ok {
		return nil, fmt.Errorf("%s has no device %s any more: this needs the fleet file the plan was made from", r.fleet.Path, name)
	}
	p, err := r.registry.Platform(d.Platform)
	if err != nil || p.Open == nil { // no way to reach it would help
		_, err := r.registry.Open(d.Platform, vendors.Config{})
		return nil, fmt.Errorf("%w: give it the level that it has in the fleet file, and make a new plan", err)
	}
	switch named := d.Management.Daemon != nil; {
	case !named && r.bypassed != nil:
		return r.openBeside(ctx, d)
	case !named && (r.reads || !p.ByAgent):
		return r.direct(d)
	case daemonOf(d) != nil:
		return r.openDaemon(ctx, d)
	}
	if d.Management.NetNS == "" && d.Management.SSH == nil {
		return nil, errNoWay
	}
	return nil, inLine(r.noAgent(d))
}

var errNoWay = errors.New("csig does not know how to reach it: mark it local: true, or give its management")

// noAgent is the mistake of a device whose agent the fleet file does not name.
func (r *reach) noAgent(d *inventory.Device) *inventory.Error {
	step, key := "install csig on it, start csig agent --wait there", "management: ssh"
	if d.Management.NetNS != "" {
		step, key = "start csig agent --wait in its network namespace", "management: netns"
	}
	return r.fleet.Mistake(d.Name, key, step+", and say where it listens, e.g. management: {daemon: {socket: /run/csig/agent.sock}}", errors.New("no agent is named that sets it up"))
}

// sshAlone is the mistake of a device that SSH leads to, and to no agent; nil for any
// other.
func (r *reach) sshAlone(d *inventory.Device) *inventory.Error {
	p, err := r.registry.Platform(d.Platform)
	set := d.Level.Support == inventory.LevelAuto || d.Level.Support == inventory.LevelSoftware
	if err != nil || !p.ByAgent || !set || d.Management.SSH == nil || daemonOf(d) != nil {
		return nil
	}
	return r.noAgent(d)
}

// inLine is a mistake in one line.
func inLine(e *inventory.Error) error {
	return fmt.Errorf("%s (%s:%d:%d): %s", e.Msg, e.File, e.Line, e.Col, e.Hint)
}

// direct opens a device's own driver.
func (r *reach) direct(d *inventory.Device) (rollout.Target, error) {
	switch {
	case d.Management.NetNS != "":
		return r.openNetNS(d)
	case !d.Local && d.Management.SSH == nil:
		return nil, errNoWay
	}
	cfg := vendors.Config{Device: *d, Who: "csig apply"}
	if r.bypassed != nil { // also where an agent runs
		cfg.Who, cfg.Take = "csig off", true
	}
	return r.registry.Open(d.Platform, cfg)
}

// openNetNS opens a device that is a network namespace of this machine.
func (r *reach) openNetNS(d *inventory.Device) (rollout.Target, error) {
	ns, err := os.Open(d.Management.NetNS)
	if err != nil {
		return nil, fmt.Errorf("its network namespace: %w", err)
	}
	driver, err := r.registry.Open(d.Platform, vendors.Config{Device: *d, NetNS: int(ns.Fd())})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("in network namespace %s: %w", d.Management.NetNS, err), ns.Close())
	}
	return inNetNS{driver, ns}, nil
}

// inNetNS is a driver that holds the namespace it works in.
type inNetNS struct {
	vendors.Driver
	ns *os.File
}

// Unwrap returns the driver, for its optional capabilities.
func (d inNetNS) Unwrap() any { return d.Driver }

func (d inNetNS) Close() error { return errors.Join(d.Driver.Close(), d.ns.Close()) }

// via is how a device is reached.
func (r *reach) via(d *inventory.Device) string {
	switch {
	case d.Management.Daemon != nil:
		return daemonVia(d)
	case d.Management.NetNS != "":
		return "netns " + d.Management.NetNS
	case d.Local:
		return "local"
	case d.Management.SSH != nil:
		via := "ssh " + d.Management.SSH.User + "@" + sshAddress(d)
		if d.Management.SSH.Sudo != nil {
			via += ", sudo"
		}
		return via
	}
	return ""
}

// sshAddress is where a device's sshd listens, with the port where it is not the
// usual one.
func sshAddress(d *inventory.Device) string {
	if p := d.Management.SSH.Port; p != 0 && p != 22 {
		return net.JoinHostPort(d.Address, strconv.Itoa(int(p)))
	}
	return d.Address
}

// look finds out about one device. A panic is its error.
func (r *reach) look(ctx context.Context, d *inventory.Device, timeout time.Duration) (seen plans.Seen) {
	defer untrusted.Recover(&seen.Err)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if seen, none := r.withoutDriver(d); none {
		return seen
	}
	seen = plans.Seen{Via: r.via(d)}
	t, err := r.open(ctx, d.Name)
	if err != nil {
		seen.Err = err
		return seen
	}
	defer t.Close()
	seen.Differ = t
	if seen.Facts, err = t.Probe(ctx); err != nil {
		seen.Err = fmt.Errorf("probing it: %w", err)
		return seen
	}
	if seen.Setup, err = t.Observe(ctx); err != nil {
		seen.Err = fmt.Errorf("reading its setup: %w", err)
		return seen
	}
	if seen.Armed = vendors.ArmedBy(ctx, t); seen.Armed != nil && !errors.As(seen.Armed, new(*vendors.ArmedError)) {
		seen.Err = fmt.Errorf("reading whether it goes back by itself: %w", seen.Armed)
		return seen
	}
	if m, ok := vendors.As[vendors.MTUSetter](t); ok {
		if seen.MTUs, err = m.MTUs(ctx); err != nil {
			seen.Err = err
		}
	}
	return seen
}

// lookAll finds out about every device, some at once.
func (r *reach) lookAll(ctx context.Context, parallel int, timeout time.Duration, answered func(done, of int)) (map[string]plans.Seen, error) {
	return eachDevice(ctx, r.fleet, parallel, answered, func(d *inventory.Device) plans.Seen { return r.look(ctx, d, timeout) })
}

// eachDevice asks about every device of a fleet, some at once, and collects the
// answers by the devices' names. answered is told after each, and once more at
// the end. The error is that ctx has ended.
func eachDevice[T any](ctx context.Context, fleet *inventory.Fleet, parallel int, answered func(done, of int), ask func(*inventory.Device) T) (map[string]T, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		out   = make(map[string]T, len(fleet.Devices))
		slots = make(chan struct{}, max(1, parallel))
	)
	if answered == nil {
		answered = func(int, int) {}
	}
	for i := range fleet.Devices {
		d := &fleet.Devices[i]
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			answer := ask(d)
			mu.Lock()
			defer mu.Unlock()
			out[d.Name] = answer
			if len(out) < len(fleet.Devices) {
				answered(len(out), len(fleet.Devices))
			}
		})
	}
	wg.Wait()
	answered(len(fleet.Devices), len(fleet.Devices))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return out, nil
}

// loadFleet reads a fleet file in which the devices of --device have to be. Offline
// it opens no device, and runs no program that the file names.
func loadFleet(path string, devices []string, offline bool) (*inventory.Fleet, error) {
	load := ownFleet
	if offline {
		load = inventory.Load
	}
	fleet, err := load(path)
	if err != nil {
		return nil, err
	}
	for _, name := range devices {
		if _, ok := fleet.Device(name); !ok {
			return nil, fmt.Errorf("--device %s: %s has no such device", name, path)
		}
	}
	return fleet, nil
}

// offline is what is known of a device without asking it: its platform's facts,
// and nothing of csig.
func (r *reach) offline(d *inventory.Device) plans.Seen {
	if seen, none := r.withoutDriver(d); none {
		return seen
	}
	p, _ := r.registry.Platform(d.Platform)
	seen := plans.Seen{Via: r.via(d), Facts: p.Offline(), Differ: differ(p.Diff)}
	if err := r.sshAlone(d); err != nil {
		seen.Err = inLine(err)
	}
	if d.Management.Daemon != nil || p.ByAgent && d.Local { // its configuration is rendered all the same
		seen.Differ = &daemon{fleet: r.fleet, dev: d, diff: p.Diff, hash: r.profile}
	}
	return seen
}

// withoutDriver is what is known of a device that csig cannot drive, whether it
// is asked or not; false for one that it can.
func (r *reach) withoutDriver(d *inventory.Device) (plans.Seen, bool) {
	p, err := r.registry.Platform(d.Platform)
	switch {
	case err != nil:
		if d.Level.Support == inventory.LevelAuto {
			where := ""
			if at := r.fleet.DeviceOrigins(d.Name)["platform"]; at.File != "" {
				where = fmt.Sprintf(" (%s:%d:%d)", at.File, at.Line, at.Col)
			}
			err = fmt.Errorf("%w; or give the device its level, passthrough or discard, with the reason%s", err, where)
		}
		return plans.Seen{Err: err}, true
	case p.Open != nil:
		return plans.Seen{}, false
	}
	why := p.NoDriver(d.Platform)
	return plans.Seen{Facts: p.Offline(), NoDriver: why, Differ: differ(func(_, _ vendors.Setup) ([]vendors.Change, error) {
		return nil, errors.New(why)
	})}, true
}

// differ is a platform's Diff as a plan wants it.
type differ func(have, want vendors.Setup) ([]vendors.Change, error)

// Diff is the platform's.
func (f differ) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return f(have, want) }
