package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
)

// crossing is one frame at a shaped port: when it came to the queue and when it had left, by
// CLOCK_MONOTONIC in ns, and what its tag says of the queue.
type crossing struct {
	in, out uint64
	tag     uint64
}

// TestQueueErrors compares max(PD) and max(nQD) of many frames with what two clocks beside the
// port saw: a record of each frame before the queue, and its arrival behind it. PD is of the
// backlog alone, so a frame's delay is longer by its own time on the wire, and shorter by what
// the shaper lets pass at once. The distributions of the errors are printed.
func TestQueueErrors(t *testing.T) {
	const rate, burst = "20mbit", "2000"
	for _, tc := range []struct {
		name, qdisc string
		frames      int // that the queue holds, of 1,000 bytes
	}{
		{"tbf", "qdisc replace dev p2 root tbf rate " + rate + " burst " + burst + " limit 60000", 60},
		{"htb", "qdisc replace dev p2 root handle 1: htb default 1; class add dev p2 parent 1: classid 1:1 htb rate " + rate + " burst " + burst + " cburst " + burst, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) { queueErrors(t, tc.qdisc, tc.frames) })
	}
}

func queueErrors(t *testing.T, qdisc string, limit int) {
	const size, rate, burst, count = 1000, 20_000_000, 2000, 1500
	l, s := queueLab(t, qdisc)
	pd := l.profile.Signals[quantize.MaxPD]
	pd.Quantum = 1000 // ns: S reaches a second
	l.profile.Signals[quantize.MaxPD] = pd
	l.update(s, time.Hour)
	l.sent(0)
	rec, err := l.p2.Record()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	own := float64(8*size) / rate * 1e3 // ms
	for _, sig := range []quantize.Signal{quantize.MaxPD, quantize.MaxNQD} {
		frames := l.cross(t, rec, sig, size, count)
		slices.SortFunc(frames, func(a, b crossing) int { return int(int64(a.in) - int64(b.in)) })
		var errs []float64
		far, apart, free := 0, 0, uint64(0)
		for i := range frames {
			f := &frames[i]
			// A shaper whose timer is late by more than a frame's time sends all that wait late,
			// which no tag can know when it is written: the machine stood still.
			if free = max(free, f.in) + uint64(own*1e6); f.out > free+1e6 {
				apart++
				continue
			}
			var got, want float64 // ms; or frames of the limit
			if sig == quantize.MaxPD {
				got, want = float64(f.tag*pd.Quantum)/1e6, float64(int64(f.out-f.in))/1e6
			} else {
				queued := 0
				for j := i - 1; j >= 0 && i-j <= limit; j-- {
					if frames[j].out > f.in {
						queued++
					}
				}
				got, want = float64(f.tag)/1e6*float64(limit), float64(queued)
			}
			errs = append(errs, got-want)
			// The frame's own time, the shaper's burst, and a late timer of the kernel. What is not apart may be late by the
			// burst, too: frames that left at once are ahead of the time from which the shaper is free above.
			atOnce := float64(8*burst) / rate * 1e3
			if lo, hi := -own-atOnce-1, atOnce+1; sig == quantize.MaxPD && (got-want < lo || got-want > hi) {
				far++
			} else if sig == quantize.MaxNQD && (got-want < -1.01 || got-want > 1.01) {
				far++
			}
		}
		if apart > len(frames)/2 {
			t.Fatalf("%s: the machine stood still: the shaper was late by more than 1 ms with %d of %d frames", sig, apart, len(frames))
		}
		slices.Sort(errs)
		at := func(q float64) float64 { return errs[int(q*float64(len(errs)-1))] }
		unit := map[quantize.Signal]string{quantize.MaxPD: "ms", quantize.MaxNQD: "frames"}[sig]
		t.Logf("%s: by the tag less by the clocks, in %s, of %d frames (%d apart, as the shaper was late): least %.2f, p1 %.2f, p50 %.2f, p99 %.2f, most %.2f (a frame takes %.2f ms, the burst %.2f ms)",
			sig, unit, len(errs), apart, errs[0], at(0.01), at(0.5), at(0.99), errs[len(errs)-1], own, float64(8*burst)/rate*1e3)
		if far > len(errs)/20 {
			t.Errorf("%s: %d of %d frames are off by more than a frame, the burst and a late timer", sig, far, len(errs))
		}
		if slices.MaxFunc(frames, func(a, b crossing) int { return int(a.tag) - int(b.tag) }).tag == 0 {
			t.Errorf("%s: no frame found a queue", sig)
		}
	}
}

// cross sends wide tags of a signal in groups of any length, and returns those that came.
func (l *lab) cross(t *testing.T, rec *fabric.Recorder, sig quantize.Signal, size, count int) []crossing {
	t.Helper()
	r := rand.New(rand.NewPCG(6, uint64(sig)))
	in := map[uint32]uint64{}
	out := map[uint32]crossing{}
	var passed []fabric.Passed
	take := func() {
		var err error
		if passed, err = rec.Read(passed[:0]); err != nil {
			t.Fatal(err)
		}
		for i := range passed {
			if h := &passed[i].Head; h[12] == 0x99 && h[13] == 0x01 {
				in[binary.BigEndian.Uint32(h[22:])] = passed[i].At
			}
		}
		for {
			f, at, err := l.far.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if f == nil {
				return
			}
			if len(f) == size && bytes.Equal(f[:6], macB) {
				n := binary.BigEndian.Uint32(f[22:])
				out[n] = crossing{out: uint64(at.UnixNano() - wallLead()), tag: uint64(binary.BigEndian.Uint32(f[16:]) >> 8 & 0xfffff)}
			}
		}
	}
	take()
	clear(in)
	clear(out)
	f := make([]byte, size)
	copy(f, macB)
	copy(f[6:], macA)
	binary.BigEndian.PutUint16(f[12:], 0x9901)
	binary.BigEndian.PutUint16(f[20:], 0x88b5)
	for n := 0; n < count; {
		for range 1 + r.IntN(50) {
			binary.BigEndian.PutUint32(f[16:], uint32(sig)<<28)
			binary.BigEndian.PutUint32(f[22:], uint32(n))
			if err := l.port.Send(f); err != nil && !errors.Is(err, unix.ENOBUFS) {
				t.Fatal(err)
			}
			n++
		}
		for group := time.Now().Add(time.Duration(r.IntN(16)) * time.Millisecond); time.Now().Before(group); {
			time.Sleep(time.Millisecond) // the kernel has the stamps
			take()
		}
	}
	// The last frame of all: what is not there by then was dropped.
	for deadline, last := time.Now().Add(time.Minute), -1; len(out) != last || len(out) == 0; take() {
		last = len(out)
		time.Sleep(100 * time.Millisecond) // the longest queue takes 24 ms
		if time.Now().After(deadline) {
			t.Fatal("frames keep coming")
		}
	}
	var all []crossing
	for n, c := range out {
		if at, ok := in[n]; ok {
			c.in = at
			all = append(all, c)
		}
	}
	if len(all) < count/2 {
		t.Fatalf("%d of %d frames came", len(all), count)
	}
	return all
}

// wallLead is what the wall clock has more than CLOCK_MONOTONIC, in ns.
func wallLead() int64 {
	best, lead := uint64(1<<62), int64(0)
	for range 3 {
		before, now, after := monotonic(), time.Now().UnixNano(), monotonic()
		if after-before < best {
			best, lead = after-before, now-int64(before+(after-before)/2)
		}
	}
	return lead
}
