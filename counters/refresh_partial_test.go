package counters

import (
	"fmt"
	"testing"
	"time"
)

// An agent that refreshes while it is being read answers one part of a reading from
// before and the other from after. Where the readings come at the refreshes' own rhythm
// that happens again and again, and it can go through the middle of a port: then
// its frames have moved and its octets have not, which as it stands would be bandwidth
// that is not there.
func TestRefreshInTheMiddleOfAReading(t *testing.T) {
	const rate, period = 5000.0, 5.0
	for _, first := range []string{"octets", "packets"} {
		for cut := range 3 { // the port through which it goes; those before are old
			t.Run(fmt.Sprintf("%s first, port %d", first, cut), func(t *testing.T) {
				r := NewRefresh(RefreshConfig{})
				est := [3]*Estimator{}
				for i := range est {
					est[i] = NewEstimator(EstimatorConfig{})
				}
				counted := func(k int) uint64 { return uint64(rate * period * float64(k)) }
				load := uint64(rate * 8 * (frameOctets + 24))
				valid := 0
				for i := range 200 {
					k := i / 5
					var samples []Sample
					for p := range 3 {
						octets, packets := k, k
						if i%5 == 0 && i > 0 {
							switch {
							case p < cut:
								octets, packets = k-1, k-1
							case p == cut && first == "octets":
								octets = k - 1
							case p == cut:
								packets = k - 1
							}
						}
						at := epoch0.Add(time.Duration(i) * time.Second)
						samples = append(samples, Sample{Port: string(rune('a' + p)), Octets: frameOctets * counted(octets), Packets: counted(packets),
							Speed: gbps, Up: true, At: at, Bits: 64, Overhead: 24, Epoch: 1})
					}
					r.Observe(samples)
					for p := range samples {
						e := est[p].Update(samples[p])
						if e.State != OK {
							continue
						}
						valid++
						if lo, hi := e.LoadRange(); lo > load+load/100 || hi < load-load/100 {
							t.Errorf("reading %d, port %d: load in [%d, %d], want %d (Δt %v ±%v)", i, p, lo, hi, load, e.End.Sub(e.Start), e.Error)
						}
						if off := e.End.Sub(e.Start) - 5*time.Second; i > 30 && off.Abs() > 50*time.Millisecond {
							t.Errorf("reading %d, port %d: Δt %v ±%v", i, p, e.End.Sub(e.Start), e.Error)
						}
					}
				}
				if valid < 3*30 {
					t.Errorf("%d windows of three ports in 200 s", valid)
				}
			})
		}
	}
}

// A port one of whose counters has stopped for good is not held for ever.
func TestPortThatCountsOneThingOnly(t *testing.T) {
	r := NewRefresh(RefreshConfig{})
	e := NewEstimator(EstimatorConfig{})
	held, last := 0, State(0)
	for i := range 30 {
		n := uint64(1000 * i)
		s := Sample{Port: "a", Octets: n * frameOctets, Packets: min(n, 10_000), Speed: gbps, Up: true, At: epoch0.Add(time.Duration(i) * time.Second), Bits: 64, Epoch: 1}
		list := []Sample{s}
		r.Observe(list)
		if last = e.Update(list[0]).State; last == NotRefreshed {
			held++
		}
	}
	if held == 0 || held > 4 || last != OK {
		t.Errorf("held for %d readings, at last %v", held, last)
	}
}
