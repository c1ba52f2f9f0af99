package agent

import (
	"time"

	"github.com/csig-agent/csig/agent/api"
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
