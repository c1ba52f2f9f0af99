package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// leaseDuration is how long rules may outlive their last renewal: vendors.LeasePeriods of
// the schedule as it stands now, or of the source's own refreshing where that
// takes longer, so that two lost cycles are forgiven.
func (a *Agent) leaseDuration() time.Duration {
	now := time.Now()
	next := a.schedule.Next(now)
	own := a.pipe.Refresh()
	if own.Kind.EveryReading() {
		own.Period = 0 // what it has instead is the schedule's, as it came out
	}
	lease := max(vendors.LeasePeriods*max(a.between(next), a.gap(next.Sub(now)), own.Period), 2*a.facts.ConfigInterval().Is, vendors.MinLease)
	if a.reloads.Load() || a.reloaded {
		lease = max(lease, min(2*lease, reloadLease))
	}
	return lease
}

// reloadLease is how long a lease may be for the last cycle before a reload and the first one behind
// it: on a switch of hundreds of ports the rules take longer than three cycles of 100 ms.
const reloadLease = time.Second

// leaseIsShort reports whether the lease that a reload goes on with may end before the second
// tick: then the first cycle does not wait for its own.
func (a *Agent) leaseIsShort(next time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ends := a.cycle.LeaseEnds
	return !ends.IsZero() && !a.withoutLeaseLocked() && ends.Before(a.schedule.Next(next))
}

// tooOld refuses to renew the lease on the strength of a reading that began so
// long ago: we were stopped or the source was slow, and the lease would advertise
// what was true before the last one ended.
func tooOld(age, lease time.Duration) error {
	if age <= lease {
		return nil
	}
	return fmt.Errorf("the reading was %v old before it could be programmed, and the lease is %v: it is dropped", age.Round(time.Millisecond), lease)
}

// noteRenewal keeps count of the lease that an update began at from and done by to
// has given. The device counts from some instant between the two; the shorter
// one is stated. lost tells that the rules were not all there meanwhile, fellBack
// that ports were seen at their fallback.
func (a *Agent) noteRenewal(from, to time.Time, lease time.Duration, lost, fellBack bool) {
	// Behind a pause of the schedule the first window takes two cycles.
	if ended := a.cycle.LeaseEnds; !ended.IsZero() && to.After(ended) && from.Sub(a.pauseAfter(ended.Add(-lease))) > 2*lease {
		a.cycle.Lapses++
		a.cycle.LastLapseNS = int64(to.Sub(ended))
		log := a.log.WithFields(logrus.Fields{"lapsed": to.Sub(ended).Round(time.Millisecond).String(), "lapses": a.cycle.Lapses, "on_stale": a.cfg.Policy.OnStale})
		switch {
		case lost:
			log.Warn("lease expired before its renewal, and rules were missing or changed; restored")
		case a.unaided():
			log.Warn("no cycle had completed for too long: the chip has measured by itself meanwhile")
		case a.withoutLeaseLocked():
			a.noteRenewalNoLease(fellBack)
		default:
			log.Warn("lease expired before its renewal: the data plane had fallen back; renewed")
		}
	}
	a.cycle.LeaseEnds = from.Add(lease)
}

// Without a lease nothing comes after a release, and a cycle that was broken off can have left a
// session that has to end first.
const (
	releaseTries = 3
	releasePause = 200 * time.Millisecond
)

// release gives up the lease: ports fall back. A chip that measures by itself goes on.
func (a *Agent) release() error {
	if a.unaided() {
		a.look(context.Background(), a.lookLimit())
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.writeLimit())
	defer cancel()
	err := a.cfg.Driver.Release(ctx)
	for try := 1; try < releaseTries && err != nil && a.withoutLease() && !vendors.IsPermanent(err) && vendors.Wait(ctx, releasePause) == nil; try++ {
		err = a.cfg.Driver.Release(ctx)
	}
	if err == nil {
		a.mu.Lock()
		a.cycle.seen.fallback = true
		if now := time.Now(); now.Before(a.cycle.LeaseEnds) {
			a.cycle.LeaseEnds = now
		}
		a.mu.Unlock()
	}
	a.look(context.Background(), a.lookLimit()) // also after an error: there may be nothing left to release
	if err == nil || a.gone() {
		return nil
	}
	return fmt.Errorf("device %s: ports cannot be made to fall back: %w; %s", a.cfg.Device.Name, err, a.Left())
}

// Where the data plane cannot expire rules (Facts.Lease is refused), only
// this process can withdraw what it wrote: it makes ports fall back when a lease would
// have expired, when it stops, and when it starts, since the age of what it finds
// is unknown. When it is killed, the last values stay advertised.

// withoutLeaseLocked reports whether the device has no lease, and needs one.
func (a *Agent) withoutLeaseLocked() bool {
	return a.facts.Lease.Level == vlanrules.Refused && !a.facts.Native && !a.cfg.Shadow
}

func (a *Agent) withoutLease() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.withoutLeaseLocked()
}

// noteRenewalNoLease logs that cycles complete again after a gap on a device without
// lease support. In the gap the last values stayed advertised, or the agent had made
// the ports fall back.
func (a *Agent) noteRenewalNoLease(fellBack bool) {
	log := a.log.WithFields(logrus.Fields{"without_news": (time.Duration(a.cycle.LastLapseNS) + a.cycle.lastLease).Round(time.Millisecond).String(), "lapses": a.cycle.Lapses})
	if fellBack {
		log.WithField("on_stale", a.cfg.Policy.OnStale).Warn("no cycle had completed for too long: the agent had made the ports fall back; they are current again")
		return
	}
	log.Warn("no cycle had completed for too long: the device cannot expire rules, and the last values stayed advertised; they are current again")
}

// fallbackDueLocked reports whether ports have to fall back on a device without lease support.
func (a *Agent) fallbackDueLocked(now time.Time) bool {
	c := &a.cycle
	return a.withoutLeaseLocked() && !c.LeaseEnds.IsZero() && now.After(c.LeaseEnds) && !c.seen.fallback && c.seen.plane == ""
}

// fallBackOnExpiry makes every port fall back when the lease of the last cycle has expired on a
// device without lease support. Each failed cycle that
// may write tries it until it succeeds.
func (a *Agent) fallBackOnExpiry(ctx context.Context) {
	now := time.Now()
	a.mu.Lock()
	c := &a.cycle
	due := a.fallbackDueLocked(now) && a.mayWriteLocked(now)
	ended := c.LeaseEnds
	a.mu.Unlock()
	if !due || ctx.Err() != nil {
		return
	}
	err := a.cfg.Driver.Release(ctx)
	a.wrote()
	a.mu.Lock()
	defer a.mu.Unlock()
	c.seen.fallback, a.pacing.failed = err == nil, nil // the next turn is an update's
	log := a.log.WithFields(logrus.Fields{"without_news": (now.Sub(ended) + c.lastLease).Round(time.Millisecond).String(), "on_stale": a.cfg.Policy.OnStale})
	switch {
	case err == nil:
		c.stuck = ""
		if now.Before(a.pauseLocked()) {
			log.Info("the schedule pauses, and the device cannot expire rules: its ports were made to fall back")
			return
		}
		log.Warn("no cycle has completed for too long, and the device cannot expire rules: its ports were made to fall back")
	case c.stuck != err.Error():
		c.stuck = err.Error()
		log.WithError(err).Error("no cycle has completed for too long, and ports cannot be made to fall back: the last values stay advertised")
	}
}
