package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/refreshtest"
	"github.com/csig-agent/csig/counters/snmp"
)

// judgedPort is that of the first snmpd of TestLongJudged.
const judgedPort = 1170

// TestLongJudged reads net-snmp and its cache of 3 s at six schedules, each an agent of its own, since readings fill
// the cache: no load is further off than is said of it. CSIG_JUDGED=150s is how long.
func TestLongJudged(t *testing.T) {
	t.Parallel()
	long := refreshtest.Long(t, 25*time.Second)
	s := newPolledSwitch(t)
	ports := []string{steadyPort, steppedPort, idlePort}
	truth := []refreshtest.Truth{s.truths[steadyPort], s.truths[steppedPort], s.truths[idlePort]}
	var judged []*refreshtest.Real
	for i, every := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second} {
		agent := startSnmpd(t, s.s1, uint16(judgedPort+i), nil, "")
		awaitSnmpd(t, s.s1, agent.v2c(ports...))
		src, err := snmp.New(agent.v2c(ports...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { src.Close() })
		judged = append(judged, &refreshtest.Real{
			Name: fmt.Sprintf("net-snmp, each %v", every), Source: src, Every: every, Speed: pollSpeed, Ports: ports, Truth: truth, Do: s.s1.Do,
		})
	}
	// What is shown at first was counted before, and what is shown last is counted for a while after.
	watch, end := context.WithTimeout(t.Context(), long+2*time.Second)
	defer end()
	read, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	check := refreshtest.Begin(read, t, judged)
	// Of 30 s, both pause from the 12th to the 16th, and the second is in bursts.
	loads := func(since time.Duration) [2]uint64 {
		switch at := since % (30 * time.Second); {
		case at > 12*time.Second && at < 16*time.Second:
			return [2]uint64{}
		case at%(7*time.Second) < 4*time.Second:
			return [2]uint64{steadyLoad, steps[int(since/(7*time.Second))%len(steps)]}
		}
		return [2]uint64{steadyLoad, 0}
	}
	if err := s.watchWhile(watch, loads); err != nil {
		t.Error(err)
	}
	check()
}
