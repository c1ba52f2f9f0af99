package vendors

import (
	"testing"
	"time"
)

// TestWriteTime: a command line gets time for its lines, and no more than a service manager
// gives an agent to end.
func TestWriteTime(t *testing.T) {
	for _, tc := range []struct {
		lines, buckets int
		want           time.Duration
	}{{0, 1000, 5 * time.Second}, {6, 4, 44 * time.Second}, {6, 1000, 75 * time.Second}} {
		f := &Facts{}
		if tc.lines > 0 {
			f.ConfigUpdates = &ConfigUpdates{Lines: tc.lines}
		}
		if got := f.WriteTime(tc.buckets); got != tc.want {
			t.Errorf("%d buckets of %d lines: %v, want %v", tc.buckets, tc.lines, got, tc.want)
		}
	}
}
