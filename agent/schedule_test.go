package agent

import (
	"testing"
	"time"
)

func TestStepped(t *testing.T) {
	for name, tc := range map[string]struct {
		walls []time.Duration // at each second
		want  time.Duration   // at the last
	}{
		"put back":        {[]time.Duration{0, 1 * time.Second, -18 * time.Second}, -20 * time.Second},
		"put forward":     {[]time.Duration{0, 1 * time.Second, 3602 * time.Second}, time.Hour},
		"slewed, stepped": {[]time.Duration{0, 1001 * time.Millisecond, 2002 * time.Millisecond, 2902 * time.Millisecond}, -100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n < len(tc.walls); n++ {
				want := time.Duration(0)
				if n == len(tc.walls)-1 {
					want = tc.want
				}
				if got := stepped(tc.walls[n]-tc.walls[n-1], time.Second); got != want {
					t.Errorf("a step of %v at reading %d, want %v", got, n, want)
				}
			}
		})
	}
}
