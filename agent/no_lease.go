package agent

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vlanrules"
)

// Where the data plane cannot expire rules (Facts.Lease is refused), only
// this process can withdraw what it wrote: it makes ports fall back when a lease would
// have expired, when it stops, and when it starts, since the age of what it finds
// is unknown. When it is killed, the last values stay advertised.

// withoutLeaseLocked tells whether the device has no lease.
func (a *Agent) withoutLeaseLocked() bool {
	return a.facts.Lease.Level == vlanrules.Refused && !a.cfg.Shadow
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

// fallbackDueLocked tells whether ports have to fall back on a device without lease support.
func (a *Agent) fallbackDueLocked(now time.Time) bool {
	c := &a.cycle
	return a.withoutLeaseLocked() && !c.LeaseEnds.IsZero() && now.After(c.LeaseEnds) && !c.seen.fallback && c.seen.plane == ""
}

// fallBackOnExpiry makes every port fall back when the lease of the last cycle has expired on a
// device without lease support. Each failed cycle that
// may write tries it until it succeeds.
func (a *Agent) fallBackOnExpiry(ctx context.Context) {
	now := a.cfg.Now()
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
		c.frozen = ""
		log.Warn("no cycle has completed for too long, and the device cannot expire rules: its ports were made to fall back")
	case c.frozen != err.Error():
		c.frozen = err.Error()
		log.WithError(err).Error("no cycle has completed for too long, and ports cannot be made to fall back: the last values stay advertised")
	}
}
