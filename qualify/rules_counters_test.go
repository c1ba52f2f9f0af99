package qualify

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
)

// chatty counts a frame at each reading, as of a port that sends by itself.
type chatty struct {
	counters.Source
	n uint64
}

func (c *chatty) Read(context.Context, []counters.Sample) ([]counters.Sample, error) {
	c.n++
	return []counters.Sample{{Port: "p2", Packets: c.n}}, nil
}

// TestCountersNeverStill: an experiment does not wait for ever for counters of a port that
// sends by itself.
func TestCountersNeverStill(t *testing.T) {
	b, _ := cabled(t)
	b.Patience, b.Counters = 5*time.Millisecond, &chatty{}
	r := reading{t: &Trial{Bench: b}}
	if _, err := r.settled(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "the switch sends by itself") {
		t.Error(err)
	}
}
