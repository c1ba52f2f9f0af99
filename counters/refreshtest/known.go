package refreshtest

import (
	"math/rand/v2"
	"time"
)

// Speed is that of the ports of Known loads, in bit/s.
const Speed uint64 = speed

// Known is a load that is known at each instant since one: the truth of a port whose counters a test shows.
type Known struct {
	since time.Time
	sent  traffic
}

// wire is how many bits a frame of such a load takes, with preamble and gap.
const wire = 8 * (frameOctets + 20)

// KnownLoads are a steady load, one that changes, one in bursts, and none, and all of them pause at the same time now
// and then.
func KnownLoads(seed uint64, since time.Time) []*Known {
	rnd := rand.New(rand.NewPCG(seed, 0))
	on := false
	loads := []traffic{
		steady(share(rnd, 300, 600)),
		changing(rnd, 4*second, end, func() uint64 { return share(rnd, 20, 900) }),
		changing(rnd, 3*second, end, func() uint64 {
			if on = !on; on {
				return share(rnd, 100, 900)
			}
			return 0
		}),
		steady(0),
	}
	var pauses []span
	for at := 8 * second; at < end; at += 15*second + rnd.Int64N(15*second) {
		pauses = append(pauses, span{at, at + second + rnd.Int64N(6*second)})
	}
	var list []*Known
	for _, tr := range loads {
		list = append(list, &Known{since, tr.pausing(pauses)})
	}
	return list
}

// Counters are the port's at an instant.
func (k *Known) Counters(at time.Time) (octets, frames uint64) {
	// By the wall clock, which time.Now reads some time before the other one.
	frames = k.sent.sent(max(int64(at.Round(0).Sub(k.since.Round(0))), 0))
	return frames * frameOctets, frames
}

// When is when it had sent just so many frames.
func (k *Known) When(frames uint64) (first, last time.Time) {
	return k.since.Add(time.Duration(k.sent.first(frames))), k.since.Add(time.Duration(k.sent.last(frames)))
}

// Sent is what it had sent.
func (k *Known) Sent(at time.Time) (least, most Sent) {
	_, frames := k.Counters(at)
	s := Sent{frames, frames * wire}
	return s, s
}
