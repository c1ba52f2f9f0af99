package agent

import (
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

func TestLatency(t *testing.T) {
	var l latency
	for _, took := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 5 * time.Second, time.Minute} {
		l.note(took)
	}
	s := l.status()
	if want := time.Minute + 5*time.Second + 2*time.Millisecond + 1; s.Count != 5 || s.Sum != want {
		t.Errorf("%d took %v, want 5 and %v", s.Count, s.Sum, want)
	}
	for i, want := range map[int]api.Within{0: {Limit: time.Millisecond, Count: 2}, 1: {Limit: 2500 * time.Microsecond, Count: 3}, 11: {Limit: 5 * time.Second, Count: 4}, 12: {Limit: 10 * time.Second, Count: 4}} {
		if s.Most[i] != want {
			t.Errorf("%d: %+v, want %+v", i, s.Most[i], want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { l.note(time.Second) }); n != 0 {
		t.Errorf("counting allocates %v times", n)
	}
}
