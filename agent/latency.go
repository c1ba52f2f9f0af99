package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// latencyLimits are those that latencies are counted by.
var latencyLimits = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// latency counts how long something took. Counting allocates nothing.
type latency struct {
	counts [len(latencyLimits) + 1]uint64 // up to each limit, and longer
	sum    time.Duration
}

func (l *latency) note(took time.Duration) {
	l.sum += took
	for i, limit := range latencyLimits {
		if took <= limit {
			l.counts[i]++
			return
		}
	}
	l.counts[len(latencyLimits)]++
}

func (l *latency) status() api.Latency {
	out := api.Latency{Sum: l.sum, Most: make([]api.Within, len(latencyLimits))}
	for i, limit := range latencyLimits {
		out.Count += l.counts[i]
		out.Most[i] = api.Within{Limit: limit, Count: out.Count}
	}
	out.Count += l.counts[len(latencyLimits)]
	return out
}

// updateTimes are how long the last updates of the device took.
type updateTimes struct {
	took [16]time.Duration
	n    int // all that were noted
}

// fewestUpdates are enough to say how long one takes.
const fewestUpdates = 4

func (u *updateTimes) note(took time.Duration) {
	u.took[u.n%len(u.took)] = took
	u.n++
}

// longer is what every fourth of them takes or more, so that a single one that was held up does
// not count; 0 while there are few.
func (u *updateTimes) longer() time.Duration {
	if u.n < fewestUpdates {
		return 0
	}
	sorted := u.took // a copy
	last := sorted[:min(u.n, len(sorted))]
	slices.Sort(last)
	return last[len(last)*3/4]
}

// noteUpdateTime takes in how long an update took that renewed its lease, or was too late to.
func (a *Agent) noteUpdateTime(took, lease time.Duration, res *vendors.UpdateResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.cfg.Shadow && (res.Leased || took > lease) {
		a.cycle.updateTimes.note(took)
	}
}

// measuredLocked is facts with how long the agent's own updates take, where that is more than the
// facts have.
func (a *Agent) measuredLocked(f vendors.Facts) vendors.Facts {
	if took := a.cycle.updateTimes.longer(); took > f.Traits.MinUpdate.Is {
		n := min(a.cycle.updateTimes.n, len(a.cycle.updateTimes.took))
		f.Traits.MinUpdate = vendors.That(took, vendors.Source{Mark: vendors.Ran, From: fmt.Sprintf("every fourth of the last %d updates of its agent takes that or more", n)})
	}
	return f
}

func (a *Agent) withMeasured(f vendors.Facts) vendors.Facts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.measuredLocked(f)
}
