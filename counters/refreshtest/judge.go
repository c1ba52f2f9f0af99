package refreshtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// Result is what came of a class.
type Result struct {
	Readings    int // of ports
	Looks       int // readings of devices beside those of the schedule
	Windows     int // of readings of the schedule, those with an estimate
	Marked      int // windows whose uncertainty reaches into another bucket
	MarkedLater int // those after the first minute of a device
	Other       int // windows of another bucket than the true one, marked or not
	Outside     int // windows whose length is not what is said of it, and that are not marked
	Wrong       int // windows of a wrong bucket that are not marked
	Example     string
}

// Share is the share of a number of windows, in per cent.
func (r *Result) Share(n int) float64 { return 100 * float64(n) / float64(max(r.Windows, 1)) }

// few is how many frames a window may miss without being wrong: what refresh learning cannot tell
// from none.
const few = 16

// Judge reads devices of a class, each for a number of readings, until it has seen so many windows, or
// a hundred times as many readings.
func (c *Class) Judge(seed uint64, table *quantize.Buckets, windows int) Result {
	var r Result
	for n := uint64(0); r.Windows < windows && r.Readings <= 100*(windows+readings); n++ {
		c.judge(rand.New(rand.NewPCG(seed, n)), table, &r)
	}
	return r
}

// readings are read of each device.
const readings = 4000

func (c *Class) judge(rnd *rand.Rand, table *quantize.Buckets, r *Result) {
	d := c.make(rnd)
	cfg := counters.PipelineConfig{Interval: time.Duration(d.gap), Tables: []*quantize.Buckets{table}, Refresh: d.config}
	if rnd.IntN(2) == 0 {
		cfg.Interval = time.Duration(4 * d.gap)
	}
	for range d.traffic {
		cfg.Ports = append(cfg.Ports, counters.PipelinePort{Speed: speed})
	}
	p, err := counters.NewPipeline(cfg)
	if err != nil {
		panic(err)
	}
	j := judging{d: d, table: table, r: r, of: make([]map[int64]uint64, len(d.traffic))}
	for i := range j.of {
		j.of[i] = map[int64]uint64{}
	}
	var samples []counters.Sample
	read := func(k int, at int64, look bool) {
		samples = d.reading(rnd, at, samples)
		p.Observe(samples)
		for i := range samples {
			s := &samples[i]
			if s.Fresh == counters.Current || s.Fresh == counters.Anchor {
				j.of[i][s.At.UnixNano()] = s.Packets
			}
			r.Readings++
			now := p.Take(i, s).Now
			if now.State == counters.OK {
				j.window(k, i, &now, look, at > 60*second+5*d.gap)
			}
		}
	}
	for at, k := d.due(rnd, 0), 0; k < readings; k++ {
		read(k, at, false)
		next := d.due(rnd, k+1)
		for now := at; d.stamps == nil; r.Looks++ { // until the next one is due
			look := int64(p.Look(epoch.Add(time.Duration(next))).Sub(epoch))
			if look < now+ms || look > next-ms {
				break
			}
			read(k, look, true)
			now = look + d.took
		}
		at = next
	}
}

// judging compares the windows of one device with the truth.
type judging struct {
	d     *device
	table *quantize.Buckets
	r     *Result
	of    []map[int64]uint64 // how many frames had been sent by the values that have this time
}

func (j *judging) window(k, port int, e *counters.Estimate, look, later bool) {
	b, _ := counters.BucketsOf(e, j.table)
	marked := b.Doubtful()
	if !look {
		j.r.Windows++
		if marked {
			j.r.Marked++
			if later {
				j.r.MarkedLater++
			}
		}
	}
	tr := j.d.traffic[port]
	said, off := e.End.Sub(e.Start), e.Error
	var least, most time.Duration // how long it was
	bits := e.Bits
	idle := bits < few*8*(frameOctets+overhead)
	if idle { // what it says is that nothing was sent
		from, to := j.d.instant(e.Start)+int64(off), j.d.instant(e.End)-int64(off)
		if to <= from || tr.sent(to)-tr.sent(from) < 2*few {
			return
		}
		bits = 8 * (frameOctets + overhead) * (tr.sent(to) - tr.sent(from))
		least, most = time.Duration(to-from), time.Duration(to-from)
	} else {
		from, to := j.of[port][e.Start.UnixNano()], j.of[port][e.End.UnixNano()]
		least, most = time.Duration(tr.first(to)-tr.last(from)), time.Duration(tr.last(to)-tr.first(from))
	}
	if _, ok := fits(b.S, j.table, speed, bits, least, most); !ok && !look {
		j.r.Other++
	}
	if marked {
		return
	}
	if !idle && !within(e, &least, &most) {
		j.r.Outside++
	}
	worst, ok := fits(b.S, j.table, speed, bits, least, most)
	if ok {
		return
	}
	if j.r.Wrong++; j.r.Example == "" {
		j.r.Example = fmt.Sprintf("gap %v of %d ports, cache %v, reading %d, port %d: bucket %d, want %d; window %v ± %v, was %v, %d bits",
			time.Duration(j.d.gap), len(j.d.traffic), j.d.cache, k, port, b.S, worst, said, e.Error, most, e.Bits)
	}
}

// within reports whether a window that truly was from least to most long was as long as is said of it, and leaves of
// these what is.
func within(e *counters.Estimate, least, most *time.Duration) bool {
	said := e.End.Sub(e.Start)
	if *least -= time.Microsecond; said+e.Error < *least || said-e.Error > *most+time.Microsecond {
		return false
	}
	if *least, *most = max(*least, said-e.Error), min(*most, said+e.Error); *least > *most {
		*least, *most = *most, *least
	}
	return true
}

// fits reports whether a bucket is one of a port that sent so much in a window from least to most long; worst is the
// first of these.
func fits(s uint8, table *quantize.Buckets, speed, bits uint64, least, most time.Duration) (worst uint8, ok bool) {
	worst, best := bucket(table, speed, bits, least), bucket(table, speed, bits, most)
	return worst, min(worst, best) <= s && s <= max(worst, best)
}

// bucket is the bucket of what is left of a port that sent so much.
func bucket(table *quantize.Buckets, speed, bits uint64, in time.Duration) uint8 {
	load := float64(bits) / max(in.Seconds(), 1e-9)
	if table.Signal == quantize.MinABWC {
		return table.Bucket(uint64(max(0, 1-load/float64(speed)) * 1e6))
	}
	return table.Bucket(uint64(max(0, float64(speed)-load)))
}
