package counters

import (
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// onDemand is an agent that fills its cache of 3 s when a reading finds it too old.
// Its two ports send 1000 frames of 1000 bytes a second, and nothing.
type onDemand struct {
	filled  int // the second in which the cache was filled
	cached  uint64
	sending func(second int) bool
	sent    []uint64 // frames by second
}

const demandLoad = 8_000_000

func (d *onDemand) until(second int) uint64 {
	for len(d.sent) <= second {
		n := uint64(0)
		if i := len(d.sent); i > 0 {
			if n = d.sent[i-1]; d.sending(i - 1) {
				n += 1000
			}
		}
		d.sent = append(d.sent, n)
	}
	return d.sent[second]
}

func (d *onDemand) read(second int, epoch uint64) []Sample {
	if second-d.filled >= 3 {
		d.filled = second
	}
	d.cached = d.until(d.filled)
	at := epoch0.Add(time.Duration(second) * time.Second)
	port := func(name string, frames uint64) Sample {
		return Sample{Port: name, At: at, Octets: frames * 1000, Packets: frames, Bits: 64, Up: true, Epoch: epoch, Speed: 100_000_000}
	}
	return []Sample{port("busy", d.cached), port("idle", 5)}
}

// judge fails the test where a window excludes the truth, or its buckets do.
func judge(t *testing.T, table *quantize.Buckets, second int, est *Estimate) {
	t.Helper()
	if lo, hi := est.LoadRange(); lo > demandLoad || hi < demandLoad {
		t.Errorf("second %d: load %d in [%d, %d], want %d (Δt %v ±%v)", second, est.Load(), lo, hi, uint64(demandLoad), est.End.Sub(est.Start), est.Error)
	}
	got, ok := BucketsOf(est, table)
	if want := table.Bucket(est.Capacity - demandLoad); !ok || got.Worst > want || got.Best < want {
		t.Errorf("second %d: bucket %d…%d, want %d", second, got.Worst, got.Best, want)
	}
}

// An agent that restarts answers again after a while, with counters that count from
// then on. A window from the last refresh before would spread them over the outage.
func TestAgentRestart(t *testing.T) {
	table, err := quantize.Preset(quantize.MinABW, "log-100M")
	if err != nil {
		t.Fatal(err)
	}
	const restart = 20
	for outage := range 21 {
		for age := range 3 { // of the cache at the first reading
			t.Run(fmt.Sprintf("%d s/cache of %d s", outage, age), func(t *testing.T) {
				back := restart + outage
				d := &onDemand{filled: -100, sending: func(int) bool { return true }}
				d.until(100)
				r, e := NewRefresh(RefreshConfig{}), NewEstimator(EstimatorConfig{Interval: 3 * time.Second})
				valid := 0
				for i := range back + 20 {
					if i >= restart && i < back {
						continue // no reading
					}
					epoch := uint64(0)
					if i == back {
						d.filled = i - age
					}
					if i >= back {
						epoch = 1
					}
					s := d.read(i, epoch)
					if epoch > 0 { // what was sent before it restarted is not counted
						s[0].Packets -= d.until(back - age - 1)
						s[0].Octets = s[0].Packets * 1000
					}
					r.Observe(s)
					if st := r.Status(); i == back && (st.Kind != RefreshUnknown || st.Period != 0) {
						t.Errorf("the restart is known, and still %+v", st)
					}
					est := e.Update(s[0])
					switch est.State {
					case OK:
						judge(t, &table, i, &est)
						if i > back {
							valid++
						}
					case Stale:
						t.Errorf("second %d: stale", i)
					}
				}
				if valid < 3 {
					t.Errorf("%d windows in the 20 s after the restart", valid)
				}
				if kind := r.Status().Kind; kind == RefreshTimer || kind == RefreshLive {
					t.Errorf("refreshes %v, want nothing learned of before", kind)
				}
			})
		}
	}
}

// A link that was down sends nothing meanwhile: no window may reach back over that.
func TestLinkFlapOnACachedSource(t *testing.T) {
	table, err := quantize.Preset(quantize.MinABW, "log-100M")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		down func(s []Sample)
	}{
		{"all", func(s []Sample) { s[0].Up, s[1].Up = false, false }},
		{"the busy one", func(s []Sample) { s[0].Up = false }},
	} {
		for _, long := range []int{1, 2, 3, 5, 8, 13, 20} {
			for start := 20; start < 23; start++ {
				t.Run(fmt.Sprintf("%s/%d s from %d", tt.name, long, start), func(t *testing.T) {
					isDown := func(i int) bool { return i >= start && i < start+long }
					d := &onDemand{filled: -100, sending: func(i int) bool { return !isDown(i) }}
					r, e := NewRefresh(RefreshConfig{}), NewEstimator(EstimatorConfig{Interval: 3 * time.Second})
					valid := 0
					for i := range start + long + 20 {
						s := d.read(i, 0)
						if isDown(i) {
							tt.down(s)
						}
						r.Observe(s)
						est := e.Update(s[0])
						if est.State == Stale && tt.name == "all" {
							t.Errorf("second %d: stale, though no port could be compared", i)
						}
						if est.State == OK && i > 6 {
							judge(t, &table, i, &est)
							if i >= start+long {
								valid++
							}
						}
					}
					if valid < 3 {
						t.Errorf("%d windows in the 20 s after it came up", valid)
					}
				})
			}
		}
	}
}
