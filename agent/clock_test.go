package agent

import (
	"context"
	"testing"
	"time"
)

func TestStepped(t *testing.T) {
	base := time.Unix(1e9, 0)
	for name, tc := range map[string]struct {
		walls []time.Duration // at each second
		want  time.Duration
	}{
		"put back":        {[]time.Duration{0, 1 * time.Second, -18 * time.Second}, -20 * time.Second},
		"put forward":     {[]time.Duration{0, 1 * time.Second, 3602 * time.Second}, time.Hour},
		"slewed, stepped": {[]time.Duration{0, 1001 * time.Millisecond, 2002 * time.Millisecond, 2902 * time.Millisecond}, -100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			n := -1
			read := func() (time.Time, time.Duration) {
				n++
				return base.Add(tc.walls[n]), time.Duration(n) * time.Second
			}
			ticks := make(chan time.Time, len(tc.walls))
			for range tc.walls {
				ticks <- base
			}
			if got := stepped(t.Context(), read, ticks); got != tc.want || n != len(tc.walls)-1 {
				t.Errorf("a step of %v at reading %d, want %v at %d", got, n, tc.want, len(tc.walls)-1)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := stepped(ctx, systemClock(), nil); got != 0 {
		t.Errorf("%v at the end", got)
	}
}
