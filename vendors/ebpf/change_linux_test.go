package ebpf

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
)

// BenchmarkChange is how long after a change of a port's load, by a quarter of the link up or down at any
// time in an interval, the first frame leaves with an S that is nearer to that of the new load ("half")
// and with one a bucket from it at most ("final"): in intervals, of many changes.
func BenchmarkChange(b *testing.B) {
	for _, interval := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		b.Run(interval.String(), func(b *testing.B) { change(b, interval) })
	}
}

func change(b *testing.B, interval time.Duration) {
	const rate, size, changes = 400_000_000, 300, 400
	l := newShaped(b, rate, "burst 30kb limit 1mb", interval)
	table := l.profile.Signals[quantize.MinABWC].Buckets
	tap, err := l.p2.Tap()
	if err != nil {
		b.Fatal(err)
	}
	defer tap.Close()
	frame, probe, send := l.loadAndProbe(b, size)
	probes := max(interval/20, 20*time.Microsecond)
	fps := func(percent uint64) time.Duration { // between frames of the load
		left := rate*percent/100 - 8*(probeSize+fabric.L1Overhead)*uint64(time.Second/probes)
		return time.Duration(8 * (size + fabric.L1Overhead) * uint64(time.Second) / left)
	}
	var half, final []float64
	var left []fabric.Left
	loads := [2]uint64{30, 55}
	for b.Loop() {
		half, final = half[:0], final[:0]
		for n := range changes {
			from, to := loads[n%2], loads[1-n%2]
			sFrom, sTo := int(table.Bucket((100-from)*10_000)), int(table.Bucket((100-to)*10_000))
			begin := time.Now()
			step, end := 4*interval+time.Duration(n%17)*interval/17, 12*interval
			nextLoad, nextProbe, number := time.Duration(0), time.Duration(0), uint32(0)
			for now := time.Duration(0); now < end; now = time.Since(begin) {
				switch {
				case now >= nextLoad && now < step:
					send(frame, 0)
					nextLoad = max(nextLoad, now-interval/4) + fps(from)
				case now >= nextLoad:
					number = isLoad | uint32(n) // of the new load
					send(frame, number)
					nextLoad = max(nextLoad, now-interval/4) + fps(to)
				case now >= nextProbe:
					send(probe, uint32(n))
					nextProbe = now + probes
				}
			}
			left = tap.Read(left[:0])
			changed, isHalf := int64(0), int64(0)
			for i := range left {
				f := &left[i]
				switch binary.BigEndian.Uint32(f.Head[18:]) {
				case isLoad | uint32(n):
					if changed == 0 {
						changed = f.At
					}
				case uint32(n):
					s := int(binary.BigEndian.Uint16(f.Head[14:]) >> 7 & 31)
					if changed == 0 || f.Head[12] != 0x99 {
						continue
					}
					off := max(s-sTo, sTo-s)
					if isHalf == 0 && off < max(s-sFrom, sFrom-s) {
						isHalf = f.At
						half = append(half, float64(f.At-changed)/float64(interval))
					}
					if off <= 1 {
						final = append(final, float64(f.At-changed)/float64(interval))
					}
				}
				if len(final) > n {
					break
				}
			}
			for len(final) <= n { // never seen
				final = append(final, 8)
			}
		}
	}
	if lost, err := tap.Lost(); lost != 0 || err != nil {
		b.Fatalf("%d frames missed: %v", lost, err)
	}
	for name, d := range map[string][]float64{"half": half, "final": final} {
		slices.Sort(d)
		b.ReportMetric(d[len(d)/2], name+"-p50")
		b.ReportMetric(d[len(d)*99/100], name+"-p99")
	}
	b.ReportMetric(0, "ns/op")
}
