package refreshtest

import (
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
	late   func(port int) int64 // when its last one came
	wrong  int64                // by how many thousandths that clock is fast
}

// portNames saves a reading to make them.
var portNames = [...]string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// due is when the k-th reading begins.
func (d *device) due(rnd *rand.Rand, k int) int64 {
	from := second + int64(k)*d.gap
	if d.jitter > 0 {
		from += rnd.Int64N(2*d.jitter) - d.jitter
	}
	return from
}

// arrival is when a sample of an instant came, which a reading at some other has found.
func (d *device) arrival(port int, of, at int64) int64 {
	if d.late != nil {
		return d.late(port)
	}
	return min(of+2*int64(time.Millisecond)+of%int64(time.Millisecond), at)
}

// instant is what a sample's time means.
func (d *device) instant(t time.Time) int64 {
	at := int64(t.Sub(epoch))
	if d.stamps != nil {
		at = at * 1000 / (1000 + d.wrong)
	}
	return at
}

// reading is what is read from an instant on.
func (d *device) reading(rnd *rand.Rand, from int64, samples []counters.Sample) []counters.Sample {
	samples = samples[:0]
	took := int64(0)
	if d.took > 0 {
		took = d.took/4 + rnd.Int64N(d.took-d.took/4)
	}
	for i := range d.traffic {
		at := from + took*int64(i+1)/int64(len(d.traffic)+1)
		of := max(d.shows(i, at), 0)
		frames := d.traffic[i].sent(of)
		s := counters.Sample{
			Port: portNames[i], Octets: frames * frameOctets, Packets: frames, Speed: speed, Up: true,
			At: epoch.Add(time.Duration(from + took/2)), Within: time.Duration(took - took/2),
			Bits: 64, Overhead: overhead, Epoch: 1, Cache: d.cache, Live: d.live,
		}
		if d.stamps != nil {
			s.At, s.Local, s.Within = epoch.Add(time.Duration(d.stamps(i, of))), epoch.Add(time.Duration(d.arrival(i, of, at))), 0
		}
		samples = append(samples, s)
	}
	return samples
}

// atOnce shows what is.
func atOnce(_ int, at int64) int64 { return at }

// timer refreshes all ports in periods of its own, each up to late after its place.
func timer(rnd *rand.Rand, period, phase, late int64) shows {
	phase = phase%period - period // it ran before
	last, next, k := phase, phase, int64(0)
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

// rearmed refreshes as timer does, but each refresh is a period and up to late after the one before.
func rearmed(rnd *rand.Rand, period, phase, late int64) shows {
	last, next := phase-period, phase%period
	return func(_ int, at int64) int64 {
		for next <= at {
			last = next
			next += period + rnd.Int64N(late)
		}
		return last
	}
}

// hiccups refreshes as timer does, but one refresh of fifty is late by up to half a period.
func hiccups(rnd *rand.Rand, period, phase, late int64) shows {
	phase = phase%period - period
	last, next, k := phase, phase, int64(0)
	return func(_ int, at int64) int64 {
		for next <= at {
			last = next
			k++
			if next = phase + k*period + rnd.Int64N(late); rnd.IntN(50) == 0 {
				next += rnd.Int64N(period / 2)
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

// stopping does not refresh in the pauses. All ports refresh at once.
func stopping(s shows, pauses []span) shows {
	var before int64
	return func(i int, at int64) int64 {
		taken := s(i, at)
		for _, p := range pauses {
			if p.from <= taken && taken < p.to {
				return before
			}
		}
		before = taken
		return taken
	}
}
