package counters

import (
	"context"
	"testing"
	"time"
)

// told is a source that moves at every reading, a second apart, and says itself
// how old its values may be.
type told struct {
	n      int
	period time.Duration
}

func (s *told) Close() error { return nil }
func (s *told) Read(_ context.Context, dst []Sample) ([]Sample, error) {
	s.n++
	at := time.Unix(1_000_000, 0).Add(time.Duration(s.n) * time.Second)
	return append(dst[:0], Sample{Port: "p", Octets: uint64(s.n) * 1e6, Packets: uint64(s.n) * 1000, Speed: 1e9, Up: true, Bits: 64, At: at, Cache: s.period}), nil
}

// TestDocumented: the period that a device tells stands in for one that is
// configured, and not for more than that.
func TestDocumented(t *testing.T) {
	for _, tc := range []struct {
		name             string
		told, configured time.Duration
		want             time.Duration // about how much the values' instant is uncertain
	}{
		{"not told", 0, 0, 0},
		{"told", 500 * time.Millisecond, 0, 500 * time.Millisecond},
		{"told and configured", 500 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, refresh := &told{period: tc.told}, NewRefresh(RefreshConfig{Period: tc.configured})
			var last Sample
			for range 50 {
				list, err := src.Read(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				refresh.Observe(list)
				last = list[0]
			}
			if got := last.AtError; got > tc.want || got < tc.want/2 {
				t.Errorf("the instant of the values is known to %v, want about %v", got, tc.want)
			}
		})
	}
}
