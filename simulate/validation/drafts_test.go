package validation

import (
	"fmt"
	"strings"
	"testing"
)

// drafts are figures of draft-ravi-ippm-csig-00 §8.1.2 and §8.1.3, on a network of two switches whose round trip is 24.5 µs: Swift
// with an additive increase of 1,225 bytes a round trip, which is 400 Mbit/s, and a target delay that does not bind; native switches,
// Δt 8 µs, wide tags. Flows begin with 20 of 100 Gbit/s. The lines of the drafts' pseudocode are tables in package cc.
var drafts = []oracle{
	{source: "CSIG draft §8.1.2", name: "80 Gbit/s more by additive increase alone", unit: "round trips", want: []float64{200}, within: 0.05, measure: trips("target: 1ms")},
	{source: "CSIG draft §8.1.2", name: "with kλ 1, as it is written", unit: "round trips", want: []float64{9}, most: true, measure: trips("target: 1ms, ramp: 100, unguarded: true")},
	{source: "CSIG draft §8.1.2", name: "with kλ 1 and the guard", unit: "round trips", want: []float64{9}, most: true, measure: trips("target: 1ms, ramp: 100, hold: 8us")},
	{source: "with the guard", name: "overshoot of 4 flows, Δt 8, 24 and 96 µs", unit: "of a round trip's bytes", want: []float64{0.1, 0.1, 0.1}, most: true, measure: overshoot("ramp: 100, hold: Δt", 8, 24, 96)},
	{source: "CSIG draft §8.1.3", name: "jump-start: the second round trip of a flow alone at 200 Gbit/s", unit: "Gbit/s", want: []float64{190}, least: true, measure: func(t *testing.T) []float64 {
		time := func(size int) float64 {
			return ramping(t, "payload: 4000", "jump: true, initial: 40k", 200, 1, 8, size)
		}
		return []float64{400_000 * 8 / (time(550_000) - time(150_000))}
	}},
}

// trip is the round trip without queues, in ns.
const trip = 24_500

// ramping is how long the last of some flows takes, in ns.
func ramping(t *testing.T, packets, control string, gbps, flows, window, size int) float64 {
	_, last := took(run(t, ramp(packets, control, gbps, flows, window, size)))
	return last * 1e6
}

func ramp(packets, control string, gbps, flows, window, size int) string {
	return fmt.Sprintf("topology: {dumbbell: {hosts: %d, rate: %dG, delay: 4us}}\ncsig: {tag: wide, switches: [{kind: native, interval: %dus}]}\n", flows, gbps, window) +
		fmt.Sprintf("packets: {%s}\ncontrol: {kind: swift, %s}\nflows: [{from: 0-%d, to: %d, size: %d}]\n", packets, control, flows-1, flows, size)
}

// trips is after how many round trips a flow that begins with 20 Gbit/s of payload has 80 more, of a link that carries 101. What a flow
// sends at a time is what it takes longer if it has more to send.
func trips(control string) func(t *testing.T) []float64 {
	return func(t *testing.T) []float64 {
		const step = 500_000
		time := func(size int) float64 {
			return ramping(t, "payload: 1225", control+", initial: 61250", 106, 1, 8, size)
		}
		low, high := 1, 200 // steps
		for low < high {
			middle := (low + high) / 2
			if a, b := time(middle*step), time((middle+1)*step); step*8/(b-a) < 99.5 {
				low = middle + 1
			} else {
				high = middle
			}
		}
		return []float64{time(low*step) / trip}
	}
}

// overshoot is how much longer the longest queue of four flows that ramp up is than that of the same flows without, which Swift's
// target delay has.
func overshoot(control string, windows ...int) func(t *testing.T) []float64 {
	return func(t *testing.T) (all []float64) {
		queue := func(control string, window int) float64 {
			r := run(t, ramp("payload: 1225", control+", initial: 15k", 100, 4, window, 8_000_000))
			return float64(r.Queue) / (trip * 12.5)
		}
		for _, window := range windows {
			with := strings.ReplaceAll(control, "Δt", fmt.Sprintf("%dus", window))
			all = append(all, queue(with, window)-queue("target: 30625ns", window))
		}
		return all
	}
}

// TestGuardMatters: without it flows take the same room again and again while the signal is of a time before.
func TestGuardMatters(t *testing.T) {
	t.Parallel()
	if got := overshoot("ramp: 100, unguarded: true", 96)(t)[0]; got < 0.5 {
		t.Errorf("without the guard the overshoot is %.2f of a round trip's bytes", got)
	}
}
