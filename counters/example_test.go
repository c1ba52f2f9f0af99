package counters_test

import (
	"fmt"
	"log"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// Two readings of a port's egress counters are a window: what was free in it, and its bucket.
func ExampleEstimator() {
	table, err := quantize.Preset(quantize.MinABW, "log-10G")
	if err != nil {
		log.Fatal(err)
	}
	e := counters.NewEstimator(counters.EstimatorConfig{Interval: time.Second, Speed: 10e9})
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, octets := range []uint64{0, 750_000_000} {
		at := start.Add(time.Duration(i) * time.Second)
		est := e.Update(counters.Sample{Port: "swp1", Octets: octets, At: at, Up: true, Bits: 64, Overhead: 0})
		if b, ok := counters.BucketsOf(&est, &table); ok {
			fmt.Printf("%v: load %d bit/s, available %d bit/s, S=%d\n", est.State, est.Load(), est.ABW, b.S)
		} else {
			fmt.Printf("%v: no window yet\n", est.State)
		}
	}
	// Output:
	// first: no window yet
	// ok: load 6000000000 bit/s, available 4000000000 bit/s, S=27
}
