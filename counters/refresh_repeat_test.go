package counters

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sampled is a device that stamps its samples itself: port i's sample k is taken at
// phase[i] + k·period and is there delay[i] later.
type sampled struct {
	frames       []func(at float64) uint64
	period       float64
	phase, delay []float64
	down         []bool
}

// read is what csig has of it at an instant of its own.
func (d *sampled) read(at float64, dst []Sample) []Sample {
	dst = dst[:0]
	for i, f := range d.frames {
		k := max(float64(int64((at-d.phase[i]-d.delay[i])/d.period)), 0)
		if d.down != nil && d.down[i] {
			k = 0
		}
		taken := d.phase[i] + k*d.period
		n := f(taken)
		dst = append(dst, Sample{
			Port: string(rune('a' + i)), Octets: n * frameOctets, Packets: n, Speed: gbps, Up: d.down == nil || !d.down[i],
			At: epoch0.Add(seconds(taken)), Local: epoch0.Add(seconds(taken + d.delay[i] + 7)), Bits: 64, Overhead: 24, Epoch: 1,
		})
	}
	return dst
}

// A device that samples more slowly than csig reads: the reading that has the last
// samples again is no idle second, and no window is as short as the ports' times are apart.
func TestRepeatedSamplesAreNoWindow(t *testing.T) {
	for _, c := range []struct {
		name  string
		phase []float64
		down  []bool
	}{
		{"100 µs apart", []float64{0, 100e-6}, nil},
		{"300 ms apart", []float64{0, 0.3}, nil},
		{"the first port is down", []float64{0, 0, 100e-6}, []bool{true, false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rate = 1000
			d := &sampled{period: 2, phase: c.phase, delay: make([]float64, len(c.phase)), down: c.down}
			for i := range c.phase {
				d.frames = append(d.frames, steady(rate*float64(1+i)))
			}
			r := NewRefresh(RefreshConfig{})
			est := make([]*Estimator, len(c.phase))
			for i := range est {
				est[i] = NewEstimator(EstimatorConfig{})
			}
			ok := 0
			var samples []Sample
			for i := range 400 {
				samples = d.read(float64(i)*0.25+0.31, samples)
				r.Observe(samples)
				for p := range samples {
					e := est[p].Update(samples[p])
					if e.State != OK {
						continue
					}
					ok++
					lo, hi := e.LoadRange()
					if want := uint64(rate * 8192 * (1 + p)); lo > want+want/100 || hi < want-want/100 {
						t.Fatalf("reading %d, port %d: load %d in [%d, %d] over %v, want %d", i, p, e.Load(), lo, hi, e.End.Sub(e.Start), want)
					}
					if i > 300 && e.Error > 20*time.Millisecond {
						t.Errorf("reading %d, port %d: Δt ±%v of a device that says when", i, p, e.Error)
					}
				}
			}
			if st := r.Status(); st.Kind != RefreshLive || st.Period != 2*time.Second {
				t.Errorf("%+v", st) // the ports' amounts, in turn, are no period
			}
			if ok < 45 {
				t.Errorf("%d windows in 100 s", ok)
			}
		})
	}
}

// Whatever the phases of ports, delays and readings: every window's range has the truth,
// a busy port never looks idle, and a device that says when is believed in the end.
func TestRepeatedSamplesAgainstTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "ports")
		period := rapid.SampledFrom([]float64{0.5, 1, 2, 10}).Draw(t, "period")
		d := &sampled{period: period}
		rates := make([]float64, n)
		for i := range n {
			d.phase = append(d.phase, rapid.Float64Range(0, 0.9*period).Draw(t, "phase"))
			d.delay = append(d.delay, rapid.Float64Range(0, 0.2*period).Draw(t, "delay"))
			d.down = append(d.down, rapid.IntRange(0, 5).Draw(t, "down") == 0)
			rates[i] = rapid.SampledFrom([]float64{0, 500, 20_000, 100_000}).Draw(t, "rate")
			d.frames = append(d.frames, steady(rates[i]))
		}
		gap := rapid.Float64Range(0.1, 1.5).Draw(t, "between readings") * period
		r := NewRefresh(RefreshConfig{})
		est := make([]*Estimator, n)
		interval := seconds(rapid.SampledFrom([]float64{0, 3}).Draw(t, "Δt in periods") * period)
		for i := range est {
			est[i] = NewEstimator(EstimatorConfig{Interval: interval})
		}
		at := period
		var samples []Sample
		for i := range 200 {
			at += gap * rapid.Float64Range(0.8, 1.2).Draw(t, "gap")
			samples = d.read(at, samples)

			r.Observe(samples)
			for p := range samples {
				e := est[p].Update(samples[p])
				if e.State != OK {
					continue
				}
				lo, hi := e.LoadRange()
				want := rates[p] * 8192
				tolerance := 2 * 8192 / max(e.End.Sub(e.Start)-e.Error, time.Millisecond).Seconds()
				if float64(lo) > want*1.00001+tolerance || float64(hi) < want*0.99999-tolerance {
					t.Fatalf("reading %d at %.2f, port %d: load %d in [%d, %d] over %v ±%v, want %.0f; %+v", i, at, p, e.Load(), lo, hi, e.End.Sub(e.Start), e.Error, want, r.Status())
				}
				if e.Load() == 0 && want > 0 {
					t.Fatalf("reading %d, port %d sends %.0f and is said to be idle", i, p, want)
				}
			}
		}
	})
}

// stamped is a reading of ports with their own times, in seconds, and frames.
func stamped(times []float64, frames []uint64) []Sample {
	var out []Sample
	for i, at := range times {
		at := epoch0.Add(seconds(at))
		out = append(out, Sample{Port: string(rune('a' + i)), Octets: frames[i] * frameOctets, Packets: frames[i], Speed: gbps,
			Up: true, At: at, Local: at.Add(time.Minute), Bits: 64, Overhead: 24})
	}
	return out
}

// A clock that was set is so for all ports, also where the next sample of some comes later.
func TestClockSetBetweenPartsOfAReading(t *testing.T) {
	r := NewRefresh(RefreshConfig{})
	samples := stamped([]float64{0, 0}, []uint64{0, 0})
	r.Observe(samples)
	for i, at := range [][]float64{{3601, 0}, {3602, 3602}} {
		samples = stamped(at, []uint64{uint64(1000 * i), 0})
		for j := range samples {
			samples[j].Local = epoch0.Add(time.Minute + seconds(float64(i+1)))
		}
		r.Observe(samples)
		if got := samples[i].Fresh; got != Anchor {
			t.Errorf("port %d goes on over the hour that has not passed: %v", i, got)
		}
	}
}

// Nothing is kept of a port that is down, also where its samples keep their time.
func TestDownPortWithAnOldTime(t *testing.T) {
	r := NewRefresh(RefreshConfig{})
	for i := range 3 {
		r.Observe(stamped([]float64{float64(i), float64(i)}, []uint64{uint64(1000 * i), uint64(1000 * i)}))
	}
	samples := stamped([]float64{3, 2}, []uint64{3000, 2000})
	samples[1].Up = false
	r.Observe(samples)
	if p := &r.ports[1]; p.have || p.given {
		t.Errorf("%+v", p)
	}
}

// A device that sends little and stops moving is held as well.
func TestSlowTrafficThatFreezes(t *testing.T) {
	b := &box{frames: []func(float64) uint64{func(at float64) uint64 { return uint64(25 * min(at, 50)) }}, shown: onRead}
	watch(b, every(1, 60), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
		if at > 51 && (est[0].State == OK || est[0].State.Valid()) {
			t.Fatalf("at %v: %v, load %d: 25 frames a second cannot just stop", at, est[0].State, est[0].Load())
		}
	})
}

// A port that could not be read when its device stopped counting is stuck like the others.
func TestPortThatComesBackToAStuckDevice(t *testing.T) {
	r := NewRefresh(RefreshConfig{})
	shown := onTimer(3, 0)
	var samples []Sample
	for at := 0.0; at < 70; at++ {
		a, b := uint64(1000*shown(min(at, 42))), uint64(1000*shown(min(at, 41)))
		samples = stamped([]float64{at, at}, []uint64{a, b})
		if at > 42 && at < 60 {
			samples[1].Err = errors.New("gone")
		}
		r.Observe(samples)
		if at >= 60 && samples[1].Fresh != Stuck {
			t.Fatalf("at %v: %v, the device %+v", at, samples[1].Fresh, r.Status())
		}
	}
}
