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
	Readings int // of ports
	Windows  int // of these, those with an estimate
	Marked   int // windows whose uncertainty reaches into another bucket
	Outside  int // windows whose length is not what is said of it, and that are not marked
	Wrong    int // windows of a wrong bucket that are not marked
	Example  string
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
const readings = 400

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
	j := judging{d: d, table: table, r: r, of: make([]map[time.Time]int64, len(d.traffic))}
	for i := range j.of {
		j.of[i] = map[time.Time]int64{}
	}
	var samples []counters.Sample
	var taken []int64
	for k := range readings {
		samples, taken = d.reading(rnd, k, samples, taken)
		p.Observe(samples)
		for i := range samples {
			s := &samples[i]
			if s.Fresh == counters.Current || s.Fresh == counters.Anchor {
				j.of[i][s.At] = taken[i]
			}
			r.Readings++
			if now := p.Take(i, s).Now; now.State == counters.OK {
				j.window(k, i, &now)
			}
		}
	}
}

// judging compares the windows of one device with the truth.
type judging struct {
	d     *device
	table *quantize.Buckets
	r     *Result
	of    []map[time.Time]int64 // as of when the values were that have this time
}

func (j *judging) window(k, port int, e *counters.Estimate) {
	j.r.Windows++
	b, _ := counters.BucketsOf(e, j.table)
	if b.Doubtful() {
		j.r.Marked++
	}
	from, to := j.of[port][e.Start], j.of[port][e.End]
	tr := j.d.traffic[port]
	said := e.End.Sub(e.Start)
	bits := e.Bits
	length := time.Duration(to - from)
	if bits == 0 { // what it says is that nothing was sent
		if from, to = j.instant(e.Start), j.instant(e.End); j.d.stamps != nil {
			from, to = j.of[port][e.Start], j.of[port][e.End]
		}
		off := int64(e.Error)
		if from, to = from+off, to-off; to <= from || tr.sent(to)-tr.sent(from) < few {
			return
		}
		bits, length = 8*(frameOctets+overhead)*(tr.sent(to)-tr.sent(from)), time.Duration(to-from)
	}
	if bits < few*8*(frameOctets+overhead) {
		return
	}
	outside := e.Bits == 0 || (length-said).Abs() > e.Error+time.Microsecond
	worst, best := j.bucket(bits, length-length/100_000), j.bucket(bits, length+length/100_000)
	inside := func(s uint8) bool { return min(worst, best) <= s && s <= max(worst, best) }
	wrong := !inside(b.S)
	if b.Doubtful() {
		wrong, outside = false, false
	}
	if outside {
		j.r.Outside++
	}
	if wrong {
		j.r.Wrong++
	}
	if wrong && j.r.Example == "" {
		j.r.Example = fmt.Sprintf("gap %v of %d ports, cache %v, reading %d, port %d: bucket %d, want %d; window %v ± %v, was %v, %d bits",
			time.Duration(j.d.gap), len(j.d.traffic), j.d.cache, k, port, b.S, worst, said, e.Error, length, e.Bits)
	}
}

// instant is a time of samples that are stamped by whom reads them.
func (j *judging) instant(t time.Time) int64 { return int64(t.Sub(epoch)) }

// bucket is the bucket of what is left of a port that sent so much.
func (j *judging) bucket(bits uint64, in time.Duration) uint8 {
	load := float64(bits) / in.Seconds()
	if j.table.Signal == quantize.MinABWC {
		return j.table.Bucket(uint64(max(0, 1-load/speed) * 1e6))
	}
	return j.table.Bucket(uint64(max(0, speed-load)))
}
