package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A dead-man on the device (vendors.DeadMan) takes the place of a lease. The agent lets it
// fire once before it updates anything: one that was never seen to fire protects nothing. Only a cycle
// that has completed renews it, so an agent that is stopped, or has no counters, does not.

// deadMan is what is known of the one on the device.
type deadMan struct {
	state   string        // api.DeadMan…; "": not armed yet
	after   time.Duration // without a renewal it fires
	armed   time.Time     // for the proof
	renewed time.Time
	took    time.Duration // to fire, in the proof, at most
	fired   uint64        // since the proof
	why     string        // it does not work
}

// deadManGrace is how much later than stated a dead-man may be seen to fire.
const deadManGrace = 5 * time.Second

// needsDeadMan tells whether a dead-man on the device is what withdraws the signal.
func (a *Agent) needsDeadMan() bool {
	f := &a.facts
	return !a.cfg.Shadow && f.Lease.Level == vlanrules.Refused && f.ConfigUpdates != nil && f.ConfigUpdates.DeadMan != "" && a.cfg.Device.Lease != inventory.LeaseNone
}

// deadManReady tells whether the device may be updated, and arms its dead-man and lets it
// fire until then.
func (a *Agent) deadManReady(ctx context.Context, lease time.Duration) (bool, error) {
	if !a.needsDeadMan() {
		return true, nil
	}
	d, ok := vendors.As[vendors.DeadMan](a.cfg.Driver)
	if !ok {
		return false, fmt.Errorf("its driver cannot arm the dead-man on the device (%s): nothing is updated", a.facts.ConfigUpdates.DeadMan)
	}
	now, is := a.cfg.Now(), a.dead // only the cycle writes it
	var err error
	switch is.state {
	case api.DeadManArmed:
		return true, nil
	case api.DeadManFailed:
		return false, errors.New(is.why)
	case api.DeadManProving:
		var fired bool
		if fired, err = a.deadManFired(ctx, d); err != nil {
			return false, fmt.Errorf("asking whether the dead-man has fired: %w", err)
		}
		seen := a.cfg.Now()
		switch {
		case fired:
			if is.after, err = a.armDeadMan(ctx, d, lease); err != nil {
				return false, err
			}
			is.state, is.took, is.renewed = api.DeadManArmed, seen.Sub(is.armed), seen
			a.log.WithField("after", is.took.Round(time.Millisecond).String()).Info("the dead-man on the device has fired, as it has to: armed again, and updates begin")
		case now.Sub(is.armed) > is.after+deadManGrace:
			is.state, is.why = api.DeadManFailed, fmt.Sprintf("the dead-man on the device did not fire within %v: nothing would withdraw the signal when this agent is gone, so nothing is updated; repair it (%s) and start the agent again, or accept that (lease: none)", is.after+deadManGrace, a.facts.ConfigUpdates.DeadMan)
			err = errors.New(is.why)
		}
	default:
		if is.after, err = a.armDeadMan(ctx, d, lease); err != nil {
			return false, err
		}
		is.state, is.armed = api.DeadManProving, a.cfg.Now()
		a.log.WithField("after", is.after.String()).Info("the dead-man on the device is armed, and has to fire once before anything is updated")
	}
	a.mu.Lock()
	a.dead = is
	a.mu.Unlock()
	return is.state == api.DeadManArmed, err
}

// renewDeadMan renews it behind an update, unless the reading is too old by now: this
// process may have been stopped.
func (a *Agent) renewDeadMan(ctx context.Context, lease time.Duration, read time.Time) error {
	now, is := a.cfg.Now(), a.dead
	d, ok := vendors.As[vendors.DeadMan](a.cfg.Driver)
	if !ok || !a.needsDeadMan() || now.Sub(is.renewed) < is.after/4 {
		return nil
	}
	if err := tooOld(now.Sub(read), lease); err != nil {
		return err
	}
	release := a.lockDriver()
	err := d.RenewDeadMan(ctx)
	release()
	if err != nil && !errors.Is(err, vendors.ErrDeadManFired) {
		return fmt.Errorf("renewing the dead-man on the device: %w", err)
	}
	without := now.Sub(is.renewed).Round(time.Millisecond)
	is.renewed = now
	if fired := err; fired != nil {
		if is.after, err = a.armDeadMan(ctx, d, lease); err != nil {
			return fmt.Errorf("%w, and %w", fired, err)
		}
		is.fired++
		err = fmt.Errorf("no cycle renewed it for %v: %w; it is armed again, and current values come next", without, fired)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead = is; err != nil {
		a.cycle.seen.fallback = true // the next cycle replaces it
	}
	return err
}

func (a *Agent) armDeadMan(ctx context.Context, d vendors.DeadMan, after time.Duration) (time.Duration, error) {
	defer a.lockDriver()()
	made, err := d.ArmDeadMan(ctx, after)
	if err != nil {
		return 0, fmt.Errorf("arming the dead-man on the device: %w", err)
	}
	return max(made, after), nil
}

func (a *Agent) deadManFired(ctx context.Context, d vendors.DeadMan) (bool, error) {
	defer a.lockDriver()()
	return d.DeadManFired(ctx)
}

// deadManStatus is what Status says of it; nil where there is none that is needed.
func (a *Agent) deadManStatus() *api.DeadMan {
	if !a.needsDeadMan() {
		return nil
	}
	d := &a.dead
	s := &api.DeadMan{What: a.facts.ConfigUpdates.DeadMan, State: d.state, AfterNS: d.after.Nanoseconds(), ProvedNS: d.took.Nanoseconds(), Fired: d.fired, Reason: d.why, Renewed: d.renewed}
	if s.State == "" {
		s.State = api.DeadManNone
	}
	return s
}
