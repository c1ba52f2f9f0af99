package counters

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is the definition of the estimate, spelled out over the whole history
// in unbounded integers: no ring, no wraps, no rounding but the last one.
type model struct {
	interval time.Duration
	points   []modelPoint
}

type modelPoint struct {
	at              time.Time
	octets, packets *big.Int
}

// estimate returns the window's start, bits, ABW and ppm at the newest point.
func (m *model) estimate(capacity uint64, overhead uint8) (start time.Time, bits, abw, abwc *big.Int) {
	last := m.points[len(m.points)-1]
	gap := last.at.Sub(m.points[len(m.points)-2].at)
	from := m.points[len(m.points)-2]
	for _, p := range m.points[:len(m.points)-1] {
		if last.at.Sub(p.at) <= m.interval+gap/2 {
			from = p
			break
		}
	}
	bits = new(big.Int).Sub(last.packets, from.packets)
	bits.Mul(bits, big.NewInt(int64(overhead)))
	bits.Add(bits, last.octets).Sub(bits, from.octets)
	bits.Mul(bits, big.NewInt(8))

	// C - bits/Δt as a fraction of whole seconds in nanoseconds, then floored.
	c := new(big.Int).SetUint64(capacity)
	dt := big.NewInt(int64(last.at.Sub(from.at)))
	left := new(big.Int).Mul(c, dt)
	left.Sub(left, new(big.Int).Mul(bits, big.NewInt(1e9)))
	if left.Sign() < 0 {
		left.SetInt64(0)
	}
	abw = new(big.Int).Div(left, dt)
	abwc = new(big.Int).Mul(abw, big.NewInt(1e6))
	return from.at, bits, abw, abwc.Div(abwc, c)
}

func TestEstimatorAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]uint8{32, 64}).Draw(t, "width")
		capacity := rapid.Uint64Range(1, 1_600_000_000_000).Draw(t, "capacity")
		overhead := uint8(rapid.SampledFrom([]int{0, 20, 24, 255}).Draw(t, "overhead"))
		interval := time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "interval"))
		mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(width)), big.NewInt(1))

		// The longest gap that leaves a 32-bit counter unambiguous.
		longest := int64(2 * time.Hour)
		if width == 32 {
			q := new(big.Int).Mul(big.NewInt(8e9), big.NewInt(1<<32-1))
			if q.Div(q, new(big.Int).SetUint64(capacity)); q.IsInt64() {
				longest = min(longest, q.Int64())
			}
		}
		shortest := max(int64(interval)/perInterval, 1) // no thinning: the model has none
		if shortest > longest {
			t.Skip("this interval cannot be sampled with a 32-bit counter")
		}

		e := NewEstimator(EstimatorConfig{Interval: interval})
		m := model{interval: interval}
		octets := new(big.Int).And(new(big.Int).SetUint64(rapid.Uint64().Draw(t, "octets")), mask)
		packets := new(big.Int).And(new(big.Int).SetUint64(rapid.Uint64().Draw(t, "packets")), mask)
		now, era := epoch0, uint64(1)
		for range rapid.IntRange(2, 60).Draw(t, "n") {
			gap := rapid.Int64Range(shortest, longest).Draw(t, "gap")
			if interval > 0 && rapid.Bool().Draw(t, "typical") {
				gap = min(max(int64(interval)/rapid.Int64Range(1, 20).Draw(t, "div"), shortest), longest)
			}
			now = now.Add(time.Duration(gap))
			// Up to twice what fits, so that overshoot is common, but less than
			// one turn of the counter: more cannot be seen.
			most := new(big.Int).Mul(new(big.Int).SetUint64(capacity), big.NewInt(gap))
			most.Div(most, big.NewInt(4e9))
			if most.Cmp(mask) >= 0 {
				most.Set(mask)
			}
			sent := rapid.Uint64Range(0, most.Uint64()).Draw(t, "sent")
			frames := rapid.Uint64Range(0, sent/minFrame).Draw(t, "frames")
			octets.Add(octets, new(big.Int).SetUint64(sent))
			packets.Add(packets, new(big.Int).SetUint64(frames))

			event := rapid.SampledFrom([]string{"", "", "", "", "", "", "epoch", "down"}).Draw(t, "event")
			if event == "epoch" {
				era++
			}
			s := Sample{
				Port: "p", At: now, Speed: capacity, Up: event != "down", Bits: width, Overhead: overhead, Epoch: era,
				Octets:  new(big.Int).And(octets, mask).Uint64(),
				Packets: new(big.Int).And(packets, mask).Uint64(),
			}
			if event != "" {
				m.points = nil
			}
			if s.Up {
				m.points = append(m.points, modelPoint{now, new(big.Int).Set(octets), new(big.Int).Set(packets)})
			}
			got := e.Update(s)
			switch {
			case event == "down":
				if got.State != Down || got.ABW != 0 {
					t.Fatalf("down: %+v", got)
				}
			case len(m.points) < 2:
				if got.State != First && got.State != Discontinuity {
					t.Fatalf("no window yet: %+v", got)
				}
			default:
				start, bits, abw, abwc := m.estimate(capacity, overhead)
				if got.State != OK || !got.Start.Equal(start) || !got.End.Equal(now) ||
					bits.Cmp(new(big.Int).SetUint64(got.Bits)) != 0 ||
					abw.Cmp(new(big.Int).SetUint64(got.ABW)) != 0 ||
					abwc.Cmp(big.NewInt(int64(got.ABWC))) != 0 {
					t.Fatalf("got %+v\nwant start %v bits %v abw %v abwc %v", got, start, bits, abw, abwc)
				}
			}
		}
	})
}

// The cost of estimating one cycle of a 512-port switch that samples ten times
// an averaging window.
func BenchmarkEstimate512(b *testing.B) {
	const ports = 512
	var est [ports]*Estimator
	for i := range est {
		est[i] = NewEstimator(EstimatorConfig{Interval: time.Second})
	}
	s := at(0, 0, 0)
	var sink uint64
	b.ReportAllocs()
	cycle := func() {
		s.At = s.At.Add(100 * time.Millisecond)
		s.Octets += 1_000_000
		s.Packets += 1000
		for _, e := range est {
			got := e.Update(s)
			sink += got.ABW
		}
	}
	for range 50 {
		cycle()
	}
	for b.Loop() {
		cycle()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ports, "ns/port")
	if sink == 0 {
		b.Fatal("nothing estimated")
	}
}
