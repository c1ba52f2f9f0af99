package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors"
)

// What goes around a data plane makes its port fall back until as many readings agree as
// showed it; what its queue drops, what is on the way between the two, and a restart do not.
func TestSupervision(t *testing.T) {
	for _, tc := range []struct {
		name   string
		own    func(counted uint64, second int) uint64
		missed string // by second, or by twentieth of one
	}{
		{"equal", func(n uint64, _ int) uint64 { return n }, "............"},
		{"some are on the way", func(n uint64, _ int) uint64 { return n - min(n, 200<<10) }, "............"},
		{"the queue drops half", func(n uint64, _ int) uint64 { return 2 * n }, "............"},
		{"a tenth goes around", func(n uint64, _ int) uint64 { return n - n/10 }, ".xxxxxxxxxxx"},
		{"a tenth goes around, counters inexact", func(n uint64, _ int) uint64 { return n - n/10 }, ".xxxxxxxxxxx"},
		{"counters inflated", func(n uint64, _ int) uint64 { return n - n/10 }, "............"},
		{"a twentieth goes around", func(n uint64, _ int) uint64 { return n - n/20 }, "..xxxxxxxxxx"},
		{"twentieths of a second, and a tenth goes around", func(n uint64, _ int) uint64 { return n - n/10 }, "...........xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
		{"twentieths of a second", func(n uint64, _ int) uint64 { return n }, "........................................."},
		{"a tenth, until the fifth second", func(n uint64, s int) uint64 {
			if s < 5 {
				return n - n/10
			}
			return n - 5*1_250_000
		}, ".xxxxxx....."},
		{"the data plane restarts", func(n uint64, s int) uint64 {
			if s < 5 {
				return n
			}
			return n - 5*12_500_000
		}, "............"},
	} {
		var v supervision
		got := ""
		every := time.Second
		if strings.HasPrefix(tc.name, "twentieths") {
			every /= 20
		}
		for reading := range len(tc.missed) {
			since := every * time.Duration(reading)
			second, packets := int(since/time.Second), uint64(since/time.Millisecond)
			counted := packets * 12_500 // 100 Mbit/s
			s := counters.Sample{Octets: counted - 24*packets, Packets: packets, Overhead: 24, Speed: 1e9 / 10, Up: true, At: time.Unix(1, 0).Add(since)}
			s.Inflated = strings.HasSuffix(tc.name, "inflated")
			if s.Inflated || strings.HasSuffix(tc.name, "inexact") {
				s.Degraded = "why"
			}
			v.compare(&s, &vendors.Measurement{Bytes: tc.own(counted, second)}, s.Speed)
			if v.missed == "" {
				got += "."
				continue
			}
			got += "x"
			if !strings.Contains(v.missed, "went around the data plane") {
				t.Errorf("%s: %s", tc.name, v.missed)
			}
		}
		if got != tc.missed {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.missed)
		}
	}
}
