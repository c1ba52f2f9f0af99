package refreshtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/csig-agent/csig/counters"
)

// shows is as of when a device shows a port's counters at an instant. It is asked in the order of time.
type shows func(port int, at int64) int64

// device is a simulated one, and how it is read.
type device struct {
	traffic []traffic
	shows   shows

	gap    int64 // from reading to reading
	jitter int64 // how late or early readings are
	took   int64 // how long they take, at most

	cache  time.Duration // what the device is documented to do
	config counters.RefreshConfig
	live   bool

	// stamps is when the device says that it took a port's counters of an instant, where
	// it says so.
	stamps func(port int, taken int64) int64
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// reading is the k-th: what is read, and the instants that the ports' counters are of.
func (d *device) reading(rnd *rand.Rand, k int, samples []counters.Sample, taken []int64) ([]counters.Sample, []int64) {
	samples, taken = samples[:0], taken[:0]
	from := second + int64(k)*d.gap
	if d.jitter > 0 {
		from += rnd.Int64N(2*d.jitter) - d.jitter
	}
	took := int64(0)
	if d.took > 0 {
		took = d.took/4 + rnd.Int64N(d.took-d.took/4)
	}
	for i := range d.traffic {
		at := from + took*int64(i+1)/int64(len(d.traffic)+1)
		of := max(d.shows(i, at), 0)
		frames := d.traffic[i].sent(of)
		s := counters.Sample{
			Port: fmt.Sprintf("p%d", i), Octets: frames * frameOctets, Packets: frames, Speed: speed, Up: true,
			At: epoch.Add(time.Duration(from + took/2)), Within: time.Duration(took - took/2),
			Bits: 64, Overhead: overhead, Epoch: 1, Cache: d.cache, Live: d.live,
		}
		if d.stamps != nil {
			s.At, s.Local, s.Within = epoch.Add(time.Duration(d.stamps(i, of))), s.At, 0
		}
		samples, taken = append(samples, s), append(taken, of)
	}
	return samples, taken
}

// atOnce shows what is.
func atOnce(_ int, at int64) int64 { return at }

// timer refreshes all ports in periods of its own, each up to late after its place.
func timer(rnd *rand.Rand, period, phase, late int64) shows {
	last, next, k := int64(0), phase, int64(0)
	return func(_ int, at int64) int64 {
		for next <= at {
			last = next
			k++
			next = phase + k*period
			if late > 0 {
				next += rnd.Int64N(late)
			}
		}
		return last
	}
}

// rows refreshes as timer does, but takes a while from the first port to the last.
func rows(rnd *rand.Rand, ports int, period, phase, late, takes int64) shows {
	all := make([]shows, ports)
	seed := rnd.Uint64()
	for i := range all { // the same instants for each, moved
		all[i] = timer(rand.New(rand.NewPCG(seed, 1)), period, phase+takes*int64(i)/int64(ports), late)
	}
	return func(i int, at int64) int64 { return all[i](i, at) }
}

// each has a source for each port.
func each(list []shows) shows {
	return func(i int, at int64) int64 { return list[i%len(list)](i, at) }
}

// demand is a cache that is filled by what finds it older than its life. All ports of a reading find
// it filled.
func demand(life int64) shows {
	filled := -life
	return func(_ int, at int64) int64 {
		if at-filled >= life {
			filled = at
		}
		return filled
	}
}

// stopping does not refresh in the pauses.
func stopping(s shows, pauses []span) shows {
	return func(i int, at int64) int64 {
		for _, p := range pauses {
			if p.from <= at && at < p.to {
				at = p.from - 1
			}
		}
		return s(i, at)
	}
}
