// Package device opens the devices of a fleet: through their agents, directly, or, for
// csig off, without an agent that does not answer. It opens their counter sources, too,
// takes the lock of the agent that programs a device, and checks who owns the files that
// say how devices are opened.
package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// Opener opens the devices of a fleet through their agents, which set them up.
type Opener struct {
	Fleet    *inventory.Fleet
	Registry *all.Registry

	// ReadOnly opens devices directly whose agent the fleet file does not name, only to
	// read them.
	ReadOnly bool

	// Bypassed makes the opener one for csig off, which bypasses a daemon that does not
	// answer, or may not be opened. It is called for each such device, also from several
	// goroutines, with the reason and with the off-marker that keeps that daemon from
	// restoring its rules. nil: a daemon has to answer.
	Bypassed func(device, reason, marker string)

	Operator *api.Operator // who changes devices; nil: they are only read

	profile func() string // the hash of the fleet's
}

// NewOpener opens devices with the drivers of this program.
func NewOpener(f *inventory.Fleet) *Opener {
	return &Opener{Fleet: f, Registry: all.Default(), profile: sync.OnceValue(f.Profile.Hash)}
}

// Open connects to one device. It changes nothing there, except that csig off leaves
// its off-marker for a daemon that it bypasses.
func (o *Opener) Open(ctx context.Context, name string) (rollout.Target, error) {
	d, ok := o.Fleet.Device(name)
	if !ok {
		return nil, fmt.Errorf("%s has no device %s any more: this needs the fleet file the plan was made from", o.Fleet.Path, name)
	}
	p, err := o.Registry.Platform(d.Platform)
	if err != nil || p.Open == nil { // no management would help
		_, err := o.Registry.Open(d.Platform, vendors.Config{})
		return nil, fmt.Errorf("%w: give it the level that it has in the fleet file, and make a new plan", err)
	}
	switch named := d.Management.Daemon != nil; {
	case !p.Reached(d):
		return o.Registry.Open(d.Platform, vendors.Config{Device: *d})
	case !named && o.Bypassed != nil:
		return o.bypassAgent(ctx, d)
	case !named && o.ReadOnly:
		return o.openDriver(d)
	case daemonOf(d) != nil:
		return o.openDaemon(ctx, d)
	}
	if d.Management.NetNS == "" && !reaches(d) {
		return nil, errNoManagement
	}
	return nil, oneLine(o.agentMistake(d))
}

var errNoManagement = errors.New("csig does not know how to reach it: mark it local: true, or give its management")

// agentMistake is the mistake of a device whose agent the fleet file does not name.
func (o *Opener) agentMistake(d *inventory.Device) *inventory.Error {
	step, key := "install csig on it, start csig agent --wait there", "management: ssh"
	if d.Management.NetNS != "" {
		step, key = "start csig agent --wait in its network namespace", "management: netns"
	}
	step += ", and say where it listens, e.g. management: {daemon: {socket: /run/csig/agent.sock}}"
	if d.Reaches() != "" {
		return o.Fleet.Mistake(d.Name, "management", "start it here, and say where it listens: management: {daemon: {at: here, socket: /run/csig/"+d.Name+".sock}}", errors.New("no agent is named that sets it up"))
	}
	if p, err := o.Registry.Platform(d.Platform); err == nil && !p.OnDevice && d.Management.SSH != nil {
		step += "; or start it here: management: {daemon: {at: here, socket: /run/csig/" + d.Name + ".sock}}"
	}
	return o.Fleet.Mistake(d.Name, key, step, errors.New("no agent is named that sets it up"))
}

// MissingAgent is the mistake of a device that is reached remotely and for which the
// fleet file names no agent, or one elsewhere that cannot drive it; nil for any other.
func (o *Opener) MissingAgent(d *inventory.Device) *inventory.Error {
	p, err := o.Registry.Platform(d.Platform)
	set := d.Level.Support == inventory.LevelAuto || d.Level.Support == inventory.LevelSoftware
	switch {
	case err != nil || p.Open == nil || !p.Reached(d) || !set || !reaches(d):
		return nil
	case daemonOf(d) == nil:
		return o.agentMistake(d)
	case d.Remote() && p.OnDevice:
		return o.Fleet.Mistake(d.Name, "management: daemon", "leave at out, and run csig agent --wait on the device", fmt.Errorf("%s is driven by an agent on the device alone", p.Title))
	}
	return nil
}

// oneLine is a mistake in one line.
func oneLine(e *inventory.Error) error {
	return fmt.Errorf("%s (%s:%d:%d): %s", e.Msg, e.File, e.Line, e.Col, e.Hint)
}

// openDriver opens a device's own driver.
func (o *Opener) openDriver(d *inventory.Device) (rollout.Target, error) {
	switch {
	case d.Management.NetNS != "":
		return o.openNetNS(d)
	case !d.Local && !reaches(d):
		return nil, errNoManagement
	}
	cfg := vendors.Config{Device: *d, Who: "csig apply"}
	if o.Bypassed != nil { // also where an agent runs
		cfg.Who, cfg.Take = "csig off", true
	}
	return o.Registry.Open(d.Platform, cfg)
}

// openNetNS opens a device that is a network namespace of this machine.
func (o *Opener) openNetNS(d *inventory.Device) (rollout.Target, error) {
	ns, err := os.Open(d.Management.NetNS)
	if err != nil {
		return nil, fmt.Errorf("its network namespace: %w", err)
	}
	driver, err := o.Registry.Open(d.Platform, vendors.Config{Device: *d, NetNS: int(ns.Fd())})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("in network namespace %s: %w", d.Management.NetNS, err), ns.Close())
	}
	return &wrapped{Target: driver, holds: ns}, nil
}

// wrapped is a device with what has to be closed after it, and with what its removal has
// to report: that an agent may restore what is removed.
type wrapped struct {
	rollout.Target
	holds  io.Closer // nil: nothing
	report error
}

func restoredByAgent(t rollout.Target, format string, args ...any) rollout.Target {
	return &wrapped{Target: t, report: fmt.Errorf(format, args...)}
}

// Unwrap returns the target, for its optional capabilities.
func (t *wrapped) Unwrap() any { return t.Target }

func (t *wrapped) Remove(ctx context.Context) error {
	return errors.Join(t.Target.Remove(ctx), t.report)
}

func (t *wrapped) Close() error {
	err := t.Target.Close()
	if t.holds != nil {
		err = errors.Join(err, t.holds.Close())
	}
	return err
}

// Via is how a device is reached, for people; "" where the fleet file does not say.
func Via(d *inventory.Device) string {
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
	return d.Reaches()
}

// reaches reports whether the fleet file says how a device is reached that its agent
// does not run on.
func reaches(d *inventory.Device) bool { return d.Management.SSH != nil || d.Reaches() != "" }

// sshAddress is where a device's sshd listens, with the port where it is not the
// usual one.
func sshAddress(d *inventory.Device) string {
	if p := d.Management.SSH.Port; p != 0 && p != 22 {
		return net.JoinHostPort(d.Address, strconv.Itoa(int(p)))
	}
	return d.Address
}

// Observe reads one device: its facts, its setup and the MTU of its ports. The error, a
// driver's panic included, is in what it returns.
func (o *Opener) Observe(ctx context.Context, d *inventory.Device, timeout time.Duration) (seen plans.Observation) {
	defer untrusted.Recover(&seen.Err)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if seen, none := o.withoutDriver(d); none {
		return seen
	}
	p, _ := o.Registry.Platform(d.Platform) // withoutDriver has the error
	seen = plans.Observation{Via: Via(d), Experimental: p.Experimental}
	t, err := o.Open(ctx, d.Name)
	if err != nil {
		seen.Err = err
		return seen
	}
	defer t.Close()
	seen.Differ = t
	seen.Facts, err = t.Probe(ctx)
	if errors.Is(err, api.ErrNoAgent) && o.nearby(d) {
		why := err
		seen.NoAgent = "it was read without an agent, and csig apply needs one: " + o.start(d)
		if t, err = o.openDriver(d); err != nil {
			seen.Err = fmt.Errorf("%w; nor can it be read without one: %w", why, err)
			return seen
		}
		defer t.Close()
		if seen.Facts, err = t.Probe(ctx); err != nil {
			err = fmt.Errorf("without an agent (%w): %w", why, err)
		}
	}
	if err != nil {
		seen.Err = fmt.Errorf("probing it: %w", err)
		return seen
	}
	if seen.Setup, err = t.Observe(ctx); err != nil {
		seen.Err = fmt.Errorf("reading its setup: %w", err)
		return seen
	}
	if seen.PendingRevert = vendors.PendingRevert(ctx, t); seen.PendingRevert != nil && !errors.As(seen.PendingRevert, new(*vendors.PendingRevertError)) {
		seen.Err = fmt.Errorf("reading whether an auto-revert is pending: %w", seen.PendingRevert)
		return seen
	}
	if m, ok := vendors.As[vendors.MTUSetter](t); ok {
		if seen.MTUs, err = m.MTUs(ctx); err != nil {
			seen.Err = err
		}
	}
	return seen
}

// nearby reports whether a device's agent would reach it from this machine: then csig reads it by itself where none runs.
func (o *Opener) nearby(d *inventory.Device) bool {
	return d.Local || d.Management.NetNS != "" || d.Management.Daemon != nil && d.Management.Daemon.At == inventory.Here
}

// ObserveAll reads every device, some at once. The error is that ctx has ended.
func (o *Opener) ObserveAll(ctx context.Context, parallel int, timeout time.Duration, answered func(done, of int)) (map[string]plans.Observation, error) {
	return Each(ctx, o.Fleet, parallel, answered, func(d *inventory.Device) plans.Observation { return o.Observe(ctx, d, timeout) })
}

// Each calls ask for every device of a fleet, some at once, and collects the
// answers by the devices' names. answered, if not nil, is called after each, and once
// more at the end. The error is that ctx has ended.
func Each[T any](ctx context.Context, fleet *inventory.Fleet, parallel int, answered func(done, of int), ask func(*inventory.Device) T) (map[string]T, error) {
	if answered == nil {
		answered = func(int, int) {}
	}
	var mu sync.Mutex
	out := make(map[string]T, len(fleet.Devices))
	names := make([]string, len(fleet.Devices))
	for i := range fleet.Devices {
		names[i] = fleet.Devices[i].Name
	}
	err := rollout.SideBySide(ctx, parallel, names, false, func(name string) error {
		d, _ := fleet.Device(name)
		answer := ask(d)
		mu.Lock()
		defer mu.Unlock()
		out[name] = answer
		if len(out) < len(fleet.Devices) {
			answered(len(out), len(fleet.Devices))
		}
		return nil
	})
	answered(len(fleet.Devices), len(fleet.Devices))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Offline is what is known of a device without asking it: its platform's facts,
// and nothing of csig.
func (o *Opener) Offline(d *inventory.Device) plans.Observation {
	if seen, none := o.withoutDriver(d); none {
		return seen
	}
	p, _ := o.Registry.Platform(d.Platform)
	seen := plans.Observation{Via: Via(d), Facts: p.Offline(), Differ: differ(p.Diff), Experimental: p.Experimental}
	if err := o.MissingAgent(d); err != nil {
		seen.Err = oneLine(err)
	}
	if daemonOf(d) != nil { // its configuration is rendered all the same
		seen.Differ = &Daemon{fleet: o.Fleet, dev: d, diff: p.Diff, hash: o.profile}
	}
	return seen
}

// Unreached refuses a plan with steps for devices that csig does not reach.
func (o *Opener) Unreached(p *plans.Plan) error {
	for step := range p.Steps() {
		d, ok := o.Fleet.Device(step.Device)
		if !ok {
			continue
		}
		if platform, err := o.Registry.Platform(d.Platform); err == nil && !platform.Reached(d) {
			return fmt.Errorf("device %s: csig does not reach it: csig plan --commands --device %s prints what a person carries out there ("+docs.SAI+")", d.Name, d.Name)
		}
	}
	return nil
}

// Unproven refuses a plan that sets up a device by an experimental driver, where the fleet
// file has neither facts that show its rules to be right nor lets csig do so, or updates one
// by changes of configuration that it does not allow: an older csig made it.
func (o *Opener) Unproven(p *plans.Plan) error {
	if p.Goal != plans.RollOut {
		return nil
	}
	for step := range p.Steps() {
		d, ok := o.Fleet.Device(step.Device)
		if !ok || step.Want.Nothing() {
			continue
		}
		platform, err := o.Registry.Platform(d.Platform)
		if err != nil {
			continue // the step says so
		}
		untested := plans.Untested(d.Facts, &step.Want)
		if platform.Experimental != "" && untested != "" && !d.Experimental {
			return fmt.Errorf("device %s: %s", d.Name, plans.Unproven(o.Fleet, d, platform.Experimental, untested))
		}
		if facts := platform.Offline(); plans.Buckets(&step.Want) > 0 {
			if why := facts.UpdatesRefused(d); why != "" {
				return fmt.Errorf("device %s: %s", d.Name, why)
			}
		}
	}
	return nil
}

// withoutDriver is what is known of a device that csig cannot drive, whether it
// is asked or not; false for one that it can.
func (o *Opener) withoutDriver(d *inventory.Device) (plans.Observation, bool) {
	p, err := o.Registry.Platform(d.Platform)
	switch {
	case err != nil:
		if d.Level.Support == inventory.LevelAuto {
			where := ""
			if at := o.Fleet.DeviceOrigins(d.Name)["platform"]; at.File != "" {
				where = fmt.Sprintf(" (%s:%d:%d)", at.File, at.Line, at.Col)
			}
			err = fmt.Errorf("%w; or give the device its level, passthrough or discard, with the reason%s", err, where)
		}
		return plans.Observation{Err: err}, true
	case p.Open != nil:
		return plans.Observation{}, false
	}
	why := p.NoDriver(d.Platform)
	return plans.Observation{Facts: p.Offline(), NoDriver: why, Differ: differ(func(_, _ vendors.Setup) ([]vendors.Change, error) {
		return nil, errors.New(why)
	})}, true
}

// differ is a platform's Diff as a plan wants it.
type differ func(have, want vendors.Setup) ([]vendors.Change, error)

// Diff is the platform's.
func (f differ) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return f(have, want) }
