package validation

import (
	"fmt"
	"math"
	"sync"
	"testing"
)

// ns3Star are runs of HPCC's public ns-3 code (alibaba-edu/High-Precision-Congestion-Control; its config.txt, with CC_MODE 3 and
// 10): HPCC by rate, U_TARGET 0.95, MI_THRESH 0, RATE_AI 50 Mbit/s, MIN_RATE 100 Mbit/s, windows of rate × base RTT. The base RTT of
// that code is four cables of 1 µs and 1,000 bytes sent twice: 4,160 ns. A packet has 1,000 bytes, 48 of headers and those of
// telemetry, 42 (INT) or 2 (PINT); an ACK 46 and those, 60 at least. Hosts around a switch at 100 Gbit/s, 1 µs a cable, 32 MB,
// ACKs in the data's priority. Its figures were given to us; they are one run each.
var ns3Star = []oracle{
	{source: "ns-3 HPCC", name: "by rate, INT: a flow of 2 MB alone", unit: "ms", want: []float64{0.187454}, within: 0.05, measure: starTimes("hpcc-rate", 1)},
	{source: "ns-3 HPCC", name: "by rate, INT: 15 flows of 2 MB to a host, first and last", unit: "ms", want: []float64{2.073, 2.780}, within: 0.05, measure: starTimes("hpcc-rate", 15)},
	{source: "ns-3 HPCC", name: "by rate, PINT: a flow of 2 MB alone", unit: "ms", want: []float64{0.179702}, within: 0.05, measure: starTimes("hpcc-pint", 1)},
	{source: "ns-3 HPCC", name: "by rate, PINT: 15 flows, last, mean of 32 seeds", unit: "ms", want: []float64{2.692}, within: 0.05, measure: func(t *testing.T) []float64 {
		_, last, _ := pint(t)
		return []float64{last}
	}},
	{source: "ns-3 HPCC", name: "by rate, PINT: 15 flows, first: 2.202 ms, away from the mean of 32 seeds", unit: "standard deviations", want: []float64{2}, most: true, measure: func(t *testing.T) []float64 {
		first, _, deviation := pint(t)
		t.Logf("the mean is %.4g ms, and one standard deviation %.2g", first, deviation)
		return []float64{math.Abs(first-2.202) / deviation}
	}},
}

// onCSIG are PINT's figures beside those of HPCC++ on native CSIG with fine quanta (wide tags), max(qlen/B) and a Δt of a quarter
// of a round trip: what the two tell is much alike. maxStage is 0, and W_ai that of 50 Mbit/s.
var onCSIG = []oracle{
	{source: "ns-3 HPCC, PINT", name: "HPCC++ on CSIG, by window: a flow of 2 MB alone", unit: "ms", want: []float64{0.179702}, within: 0.05, measure: csigTimes(1)},
	{source: "ns-3 HPCC, PINT", name: "HPCC++ on CSIG, by window: 15 flows, last", unit: "ms", want: []float64{2.692}, within: 0.05, measure: csigTimes(15)},
}

func csigTimes(flows int) func(t *testing.T) []float64 {
	return func(t *testing.T) []float64 {
		_, last := took(run(t, fmt.Sprintf("topology: {star: {hosts: 16, rate: 100G, delay: 1us}}\npackets: {ack: 60}\ncsig: {tag: wide, switches: [{kind: native, interval: 1us}]}\n"+
			"control: {kind: hpcc-csig, delay: queue, rtt: 4160ns, max_stage: 0}\nflows: [{from: 0-%d, to: 15, size: 2M}]\n", flows-1)))
		return []float64{last}
	}
}

// pint is pintTimes, which run once.
func pint(t *testing.T) (first, last, deviation float64) {
	pintOnce.Do(func() { pintFirst, pintLast, pintDeviation = pintTimes(t) })
	return pintFirst, pintLast, pintDeviation
}

var (
	pintOnce                           sync.Once
	pintFirst, pintLast, pintDeviation float64
)

// pintTimes are the means of seeds: when a flow ends is chance, and of the first one that is much.
func pintTimes(t *testing.T) (first, last, deviation float64) {
	const seeds = 32
	squares := 0.0
	for seed := range seeds {
		got := starTimesOf("hpcc-pint", 15, seed)(t)
		first, last, squares = first+got[0]/seeds, last+got[1]/seeds, squares+got[0]*got[0]/seeds
	}
	return first, last, math.Sqrt(squares - first*first)
}

func starTimes(kind string, flows int) func(t *testing.T) []float64 {
	return starTimesOf(kind, flows, 1)
}

func starTimesOf(kind string, flows, seed int) func(t *testing.T) []float64 {
	ack := map[string]string{"hpcc-rate": "46", "hpcc-pint": "58"}[kind]
	return func(t *testing.T) []float64 {
		r := run(t, star(kind, flows, fmt.Sprintf("seed: %d\n", seed)+"packets: {payload: 1000, header: 48, ack: "+ack+", telemetry: ns3}"))
		first, last := took(r)
		if flows == 1 {
			return []float64{last}
		}
		return []float64{first, last}
	}
}
