package counters

import (
	"context"
	"testing"
	"time"
)

// stated is a source that moves at every reading, a second apart, and says itself
// how old its values may be.
type stated struct {
	n      int
	period time.Duration
}

func (s *stated) Close() error { return nil }
func (s *stated) Read(_ context.Context, dst []Sample) ([]Sample, error) {
	s.n++
	at := time.Unix(1_000_000, 0).Add(time.Duration(s.n) * time.Second)
	return append(dst[:0], Sample{Port: "p", Octets: uint64(s.n) * 1e6, Packets: uint64(s.n) * 1000, Speed: 1e9, Up: true, Bits: 64, At: at, Cache: s.period}), nil
}

// TestDocumented: the period that a device states stands in for one that is
// configured, and not for more than that.
func TestDocumented(t *testing.T) {
	for _, tc := range []struct {
		name               string
		stated, configured time.Duration
		want               time.Duration // about how much the values' instant is uncertain
	}{
		{"not stated", 0, 0, 500 * time.Millisecond}, // it came between two readings
		{"stated", 500 * time.Millisecond, 0, 500 * time.Millisecond},
		{"stated and configured", 500 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, refresh := &stated{period: tc.stated}, NewRefresh(RefreshConfig{Period: tc.configured})
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
