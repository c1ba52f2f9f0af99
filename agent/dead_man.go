package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	took    time.Duration // to fire, in the proof, at most; 0: it is not proved
	missed  int           // times that it did not fire for its proof
	fired   uint64        // since the agent runs
	why     string        // it does not work
}

// deadManGrace is how much later than stated a dead-man may be seen to fire.
const deadManGrace = 5 * time.Second

// deadManTries is how often it may be let to fire for its proof: a switch that was busy once is not broken.
const deadManTries = 2

// needsDeadMan reports whether a dead-man on the device is what withdraws the signal.
func (a *Agent) needsDeadMan() bool {
	f := &a.facts
	return !a.cfg.Shadow && f.Lease.Level == vlanrules.Refused && f.ConfigUpdates != nil && f.ConfigUpdates.DeadMan != "" && a.cfg.Device.Lease != inventory.LeaseNone &&
		slices.ContainsFunc(a.ports, func(p port) bool { return p.cfg.Action == vlanrules.Update })
}

// deadManReady reports whether the device may be updated, and arms its dead-man and lets it
// fire until then.
func (a *Agent) deadManReady(ctx context.Context, lease time.Duration) (bool, error) {
	if !a.needsDeadMan() {
		return true, nil
	}
	d, ok := vendors.As[vendors.DeadMan](a.cfg.Driver)
	if !ok {
		return false, fmt.Errorf("its driver cannot arm the dead-man on the device (%s): nothing is updated", a.facts.ConfigUpdates.DeadMan)
	}
	is := a.dead // only the cycle writes it
	err := a.nextDeadMan(ctx, d, &is, lease)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dead = is
	return err == nil && is.state == api.DeadManArmed, err
}

// nextDeadMan brings the dead-man one step on its way to being armed and proved.
func (a *Agent) nextDeadMan(ctx context.Context, d vendors.DeadMan, is *deadMan, lease time.Duration) error {
	now := time.Now()
	latest := is.after + deadManGrace
	switch {
	case is.state == api.DeadManFailed:
		return errors.New(is.why)
	case is.state == api.DeadManArmed && now.Sub(is.renewed) > is.after/2: // no update without it
		fired, err := a.deadManFired(ctx, d)
		switch late := now.Sub(is.renewed); {
		case fired || errors.Is(err, vendors.ErrDeadManFired):
			a.deadManHasFired(is, now, fired)
		case err != nil:
			return err
		case late > latest: // what was proved of it does not hold
			is.state, is.took = "", 0
			a.log.WithField("without", late.Round(time.Millisecond).String()).Warn("no cycle renewed the dead-man on the device, and its ports do not have its fallback now: it has not fired, or what this agent wrote since has replaced it: it has to be proved again")
		default:
			return nil
		}
	case is.state == api.DeadManProving && is.took == 0:
		fired, err := a.deadManFired(ctx, d)
		seen := time.Now()
		switch took := seen.Sub(is.armed); {
		case errors.Is(err, vendors.ErrDeadManFired): // removed: that proves nothing
			is.state = ""
			a.log.WithError(err).Warn("the dead-man on the device has to be armed again")
		case err != nil:
			return err
		case fired && took > latest+lease/3: // lease/3: cycles come that often
			is.state = ""
			a.log.WithField("after", took.Round(time.Millisecond).String()).Warn("the dead-man on the device has fired, and was seen too late to tell whether in time: it has to fire once more")
		case fired:
			is.took = took
			a.fellBack()
		case now.Sub(is.armed) <= latest:
			return nil
		default:
			why := fmt.Sprintf("the dead-man on the device did not fire within %v", latest)
			if is.missed++; is.missed < deadManTries {
				is.state = ""
				a.log.Warn(why + ": it is armed once more")
				break
			}
			is.state, is.why = api.DeadManFailed, why+fmt.Sprintf(", %d times: nothing would withdraw the signal when this agent is gone, so nothing is updated; repair it (%s) and start the agent again, or accept that (lease: none)", is.missed, a.facts.ConfigUpdates.DeadMan)
			return errors.New(is.why)
		}
	}
	// Its proof is part of the setup: nothing else is written then, and it takes longer than an
	// interval.
	proved := is.took > 0
	if is.state == api.DeadManArmed && (lease <= is.after || !a.mayWrite()) {
		return nil
	}
	first := is.state == api.DeadManProving
	if err := a.armDeadMan(ctx, d, is, lease); err != nil {
		return err
	}
	switch log := a.log.WithField("after", is.after.String()); {
	case first:
		is.missed = 0
		a.log.WithField("after", is.took.Round(time.Millisecond).String()).Info("the dead-man on the device has fired, as it has to: armed again, and updates begin")
	case proved:
		log.Info("the dead-man on the device is armed again, for a longer lease")
	default:
		log.Info("the dead-man on the device is armed, and has to fire once before anything is updated")
	}
	return nil
}

// fellBack notes that the device has made its ports fall back: an update replaces that.
func (a *Agent) fellBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cycle.seen.fallback = true
}

// deadManHasFired is after a renewal that came too late. Armed again it is another one, which
// nothing is known to renew: it has to be proved.
func (a *Agent) deadManHasFired(is *deadMan, now time.Time, fellBack bool) {
	is.state, is.took, is.fired = "", 0, is.fired+1
	if fellBack {
		a.fellBack()
	}
	a.log.WithField("without", now.Sub(is.renewed).Round(time.Millisecond).String()).Warn("the dead-man on the device has fired, or is gone: current values come when it is armed again and has fired once")
}

// renewDeadMan renews it behind an update, unless the reading is too old by now: this
// process may have been stopped.
func (a *Agent) renewDeadMan(ctx context.Context, lease time.Duration, read time.Time) error {
	now, is := time.Now(), a.dead
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
	switch {
	case errors.Is(err, vendors.ErrDeadManFired): // earlier than stated
		a.deadManHasFired(&is, now, false)
		// At once, though an update was just written: nothing else would withdraw that.
		err = errors.Join(err, a.armDeadMan(ctx, d, &is, lease))
	case err != nil:
		return fmt.Errorf("renewing the dead-man on the device: %w", err)
	default:
		is.renewed = now
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dead = is
	return err
}

// armDeadMan arms it; its time begins now. What ports still advertise is withdrawn before its
// proof, since they are not updated in it.
func (a *Agent) armDeadMan(ctx context.Context, d vendors.DeadMan, is *deadMan, after time.Duration) error {
	defer a.lockDriver()()
	var left error
	a.mu.Lock()
	live := is.took == 0 && !a.cycle.LeaseEnds.IsZero() && !a.cycle.seen.fallback
	a.mu.Unlock()
	if live {
		if left = a.cfg.Driver.Release(ctx); left == nil {
			a.fellBack()
		} else {
			left = fmt.Errorf("ports cannot be made to fall back: %w", left)
		}
	}
	now := time.Now()
	made, err := d.ArmDeadMan(ctx, after)
	a.wrote()
	a.mu.Lock()
	a.cycle.armed = true // many lines, which no other cycle has
	a.mu.Unlock()
	if err != nil {
		return errors.Join(left, fmt.Errorf("arming the dead-man on the device: %w", err))
	}
	is.after, is.armed, is.renewed = max(made, after), time.Now(), now
	if is.state = api.DeadManArmed; is.took == 0 {
		is.state = api.DeadManProving
	}
	return left
}

// deadManFired asks the device.
func (a *Agent) deadManFired(ctx context.Context, d vendors.DeadMan) (bool, error) {
	defer a.lockDriver()()
	fired, err := d.DeadManFired(ctx)
	if err != nil {
		err = fmt.Errorf("asking whether the dead-man has fired: %w", err)
	}
	return fired, err
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
