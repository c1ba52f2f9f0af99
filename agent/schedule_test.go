package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
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

// A thousand devices of one controller are not polled at once, and each keeps its place.
func TestPhases(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 123456789, time.UTC)
	for _, tc := range []struct {
		schedule string
		devices  int
		spread   time.Duration // all are within
		busiest  int           // at most so many begin within 20 ms
	}{
		{"@every 100ms", 1, 0, 1},
		{"@every 10s", 4, 4 * time.Millisecond, 4},
		{"@every 1s", 1000, 500 * time.Millisecond, 70},
		{"@every 10s", 1000, time.Second, 45},
		{"* * * * *", 5, 5 * time.Millisecond, 5},
	} {
		within := map[time.Duration]int{}
		for n := range tc.devices {
			d := &inventory.Device{Name: fmt.Sprintf("leaf-%03d", n), Schedule: tc.schedule}
			plain, _, err := scheduleOf(d, 0)
			if err != nil {
				t.Fatal(err)
			}
			s, phase, err := scheduleOf(d, tc.devices-1)
			if err != nil {
				t.Fatal(err)
			}
			again, _, _ := scheduleOf(d, tc.devices-1)
			first := s.Next(at)
			second := s.Next(first)
			if phase < 0 || phase > tc.spread || !again.Next(at).Equal(first) || !first.After(at) || !first.Equal(plain.Next(at.Add(-phase)).Add(phase)) || second.Sub(first) != inventory.LongestGap(plain) {
				t.Errorf("%s, %s of %d: phase %v, at %v and %v", tc.schedule, d.Name, tc.devices, phase, first, second)
			}
			within[phase/(20*time.Millisecond)]++
		}
		for slot, n := range within {
			if n > tc.busiest {
				t.Errorf("%s: %d of %d devices begin within 20 ms (slot %d)", tc.schedule, n, tc.devices, slot)
			}
		}
	}
}
