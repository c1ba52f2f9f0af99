package refreshtest

import (
	"math/rand/v2"
	"time"
)

// Class is a way in which devices refresh their counters.
type Class struct {
	Name string
	// Live is a class whose values are current at each reading, to within what the reading took.
	Live bool
	make func(rnd *rand.Rand) *device
}

const ms = int64(time.Millisecond)

// Classes are all of them.
func Classes() []Class {
	return []Class{
		{"live", true, func(rnd *rand.Rand) *device {
			d := drawn(rnd, atOnce)
			d.took = 0
			return d
		}},
		{"live, and readings take a while", true, func(rnd *rand.Rand) *device {
			d := drawn(rnd, atOnce)
			d.took = d.gap / 10
			return d
		}},
		{"live, declared", true, func(rnd *rand.Rand) *device {
			d := drawn(rnd, atOnce)
			d.took, d.live = 0, true
			return d
		}},
		{"timer, slower than the readings", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			d.shows = timer(rnd, slower(rnd, d), phase(rnd), 0)
			return d
		}},
		{"timer, late by up to 30 %", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			late := period * rnd.Int64N(300) / 1000
			d.shows = timer(rnd, period, phase(rnd), late+1)
			return d
		}},
		{"timer, documented", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			d.shows, d.cache = timer(rnd, period, phase(rnd), period/100+1), time.Duration(period)
			return d
		}},
		{"timer, faster than the readings, documented", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := d.gap * (300 + rnd.Int64N(650)) / 1000
			d.shows, d.cache = timer(rnd, period, phase(rnd), period/100+1), time.Duration(period)
			return d
		}},
		{"timer, with the schedule's period", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := d.gap * (1 + rnd.Int64N(3))
			period += period * (rnd.Int64N(41) - 20) / 100_000 // two clocks
			d.shows, d.cache = timer(rnd, period, phase(rnd), 0), time.Duration(period)
			return d
		}},
		{"rows written one after the other", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			takes := period * rnd.Int64N(600) / 1000
			d.shows = rows(rnd, len(d.traffic), period, phase(rnd), period/200+1, takes)
			return d
		}},
		{"rows of SONiC: 1 s, written in 0.3 s, read each 100 ms", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			d.gap, d.jitter, d.took, d.cache = 100*ms, 2*ms, ms, time.Second
			d.shows = rows(rnd, len(d.traffic), second, phase(rnd), 20*ms, 300*ms)
			return d
		}},
		{"a cache for each port, filled by readings", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			life := slower(rnd, d)
			var list []shows
			for range d.traffic {
				list = append(list, demand(life))
			}
			d.shows = each(list)
			return d
		}},
		{"a timer of 3 s for each port, read each 250 ms", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			d.gap, d.jitter = 250*ms, 2*ms
			var list []shows
			for i := range d.traffic {
				list = append(list, timer(rnd, 3*second, int64(i)*750*ms+phase(rnd)/100, 1))
			}
			d.shows = each(list)
			return d
		}},
		{"a timer for each line card", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			cards := []shows{timer(rnd, period, phase(rnd), period/100+1), timer(rnd, period, phase(rnd), period/100+1)}
			d.shows = func(i int, at int64) int64 { return cards[i%2](i/2, at) }
			return d
		}},
		{"filled by readings", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			d.shows = demand(slower(rnd, d))
			return d
		}},
		{"filled by readings, documented", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			life := slower(rnd, d)
			d.shows, d.cache = demand(life), time.Duration(life)
			return d
		}},
		{"documented, and all ports pause", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := d.gap * (400 + rnd.Int64N(1200)) / 1000
			d.shows, d.cache = timer(rnd, period, phase(rnd), period/100+1), time.Duration(period)
			d.pause(rnd)
			return d
		}},
		{"configured, and all ports pause", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := d.gap * (400 + rnd.Int64N(1200)) / 1000
			d.shows, d.config.Period = timer(rnd, period, phase(rnd), period/100+1), time.Duration(period)
			d.pause(rnd)
			return d
		}},
		{"timer, and the device pauses", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			d.shows = stopping(timer(rnd, period, phase(rnd), period/100+1), pauses(rnd))
			return d
		}},
		{"timer, faster than the readings, and not documented", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			d.shows = timer(rnd, d.gap*(300+rnd.Int64N(650))/1000, phase(rnd), 1)
			return d
		}},
		{"each port in a way of its own", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			var list []shows
			for range d.traffic {
				period := slower(rnd, d)
				list = append(list, []shows{atOnce, timer(rnd, period, phase(rnd), period/100+1), demand(period), timer(rnd, d.gap*(300+rnd.Int64N(650))/1000, phase(rnd), 1)}[rnd.IntN(4)])
			}
			d.shows = each(list)
			return d
		}},
		{"timer, that begins again at each refresh", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			d.shows = rearmed(rnd, period, phase(rnd), period/50+1)
			return d
		}},
		{"as net-snmp: each refresh 3 s after the one before, one of fifteen late, read each second", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			d.gap, d.jitter, d.took = second, ms, 2*ms
			last, next := int64(0), phase(rnd)
			d.shows = func(_ int, at int64) int64 {
				for next <= at {
					last = next
					next += 3*second + rnd.Int64N(10*ms)
					if rnd.IntN(15) == 0 {
						next += rnd.Int64N(400 * ms)
					}
				}
				return last
			}
			return d
		}},
		{"timer, now and then far too late", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			period := slower(rnd, d)
			d.shows = hiccups(rnd, period, phase(rnd), period/500+1)
			return d
		}},
		{"timer, and then another one", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			one, other := timer(rnd, slower(rnd, d), phase(rnd), 1), timer(rnd, slower(rnd, d), phase(rnd), 1)
			every := 500 * d.gap
			last := int64(0)
			d.shows = func(i int, at int64) int64 {
				s := one
				if at/every%2 == 1 {
					s = other
				}
				last = max(last, s(i, at))
				return last
			}
			return d
		}},
		{"live, and then filled by readings", false, func(rnd *rand.Rand) *device {
			d := drawn(rnd, nil)
			cached := demand(slower(rnd, d))
			every := 500 * d.gap
			d.shows = func(i int, at int64) int64 {
				if at/every%2 == 0 {
					return at
				}
				return cached(i, at)
			}
			return d
		}},
		{"stamped by the device", false, func(rnd *rand.Rand) *device { return stamped(rnd, 1, 0) }},
		{"stamped by the device, notifications late", false, func(rnd *rand.Rand) *device {
			d := stamped(rnd, 1, 0)
			d.shows = delayed(rnd, d)
			return d
		}},
		{"stamped in whole seconds", false, func(rnd *rand.Rand) *device { return stamped(rnd, second, 0) }},
		{"stamped by a clock that is wrong by up to 10 %", false, func(rnd *rand.Rand) *device {
			return stamped(rnd, 1, rnd.Int64N(201)-100)
		}},
	}
}

// end is behind every reading.
const end = 25000 * second

// drawn is a device of a few ports that is read by an ordinary schedule.
func drawn(rnd *rand.Rand, s shows) *device {
	d := &device{shows: s, gap: []int64{250 * ms, second, second, 1500 * ms, 5 * second}[rnd.IntN(5)], took: []int64{0, 2 * ms, 20 * ms}[rnd.IntN(3)]}
	d.jitter = d.gap * []int64{0, 1, 10, 50}[rnd.IntN(4)] / 1000
	for range 2 + rnd.IntN(5) {
		d.traffic = append(d.traffic, load(rnd))
	}
	return d
}

// load is a port's: constant, changing, in bursts, or next to nothing.
func load(rnd *rand.Rand) traffic {
	switch rnd.IntN(6) {
	case 0:
		return steady(0)
	case 1:
		return changing(rnd, 5*second, end, func() uint64 { return share(rnd, 0, 950) })
	case 2: // nothing for a while, and all of it
		on := false
		return changing(rnd, 8*second, end, func() uint64 {
			if on = !on; on {
				return share(rnd, 100, 950)
			}
			return 0
		})
	case 3:
		return steady(1 + rnd.Uint64N(40)) // frames/s
	}
	return steady(share(rnd, 10, 950))
}

// slower is a period that is longer than the readings'.
func slower(rnd *rand.Rand, d *device) int64 {
	if rnd.IntN(2) == 0 { // of whole readings
		return d.gap * (2 + rnd.Int64N(8))
	}
	return d.gap * (1150 + rnd.Int64N(9000)) / 1000
}

func phase(rnd *rand.Rand) int64 { return rnd.Int64N(3 * second) }

// pauses are a few.
func pauses(rnd *rand.Rand) []span {
	var list []span
	for at := 30 * second; at < end; at += 40*second + rnd.Int64N(200*second) {
		list = append(list, span{at, at + second + rnd.Int64N(15*second)})
	}
	return list
}

// pause has nothing sent by any port now and then.
func (d *device) pause(rnd *rand.Rand) {
	list := pauses(rnd)
	for i := range d.traffic {
		d.traffic[i] = d.traffic[i].pausing(list)
	}
}

// stamped is a device that samples its ports in a period of its own, and says when by a clock of a
// resolution that is wrong by some thousandths.
func stamped(rnd *rand.Rand, resolution, wrong int64) *device {
	d := drawn(rnd, nil)
	period := d.gap * (500 + rnd.Int64N(3000)) / 1000
	if rnd.IntN(2) == 0 {
		d.shows = timer(rnd, period, phase(rnd), period/100+1)
	} else {
		var list []shows
		for range d.traffic {
			list = append(list, timer(rnd, period, phase(rnd), period/100+1))
		}
		d.shows = each(list)
	}
	d.wrong = wrong
	d.stamps = func(_ int, taken int64) int64 {
		at := taken + taken*wrong/1000
		return at - at%resolution
	}
	return d
}

// delayed has notifications of single ports come late, by up to a few readings.
func delayed(rnd *rand.Rand, d *device) shows {
	type notice struct{ taken, arrives int64 }
	pending := make([][]notice, len(d.traffic))
	now := make([]int64, len(d.traffic))
	known := make([]int64, len(d.traffic))
	came := make([]int64, len(d.traffic))
	d.late = func(i int) int64 { return came[i] }
	of := d.shows
	return func(i int, at int64) int64 {
		if taken := of(i, at); taken > known[i] {
			known[i] = taken
			late := int64(0)
			if rnd.IntN(20) == 0 {
				late = rnd.Int64N(3 * d.gap)
			}
			pending[i] = append(pending[i], notice{taken, at + late})
		}
		for len(pending[i]) > 0 && pending[i][0].arrives <= at {
			now[i], came[i], pending[i] = pending[i][0].taken, pending[i][0].arrives, pending[i][1:]
		}
		return now[i]
	}
}
