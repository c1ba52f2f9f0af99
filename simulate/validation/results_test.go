package validation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/simulate"
)

// resultsPage are figures of the HPCC authors' results page (hpcc-group.github.io/results.html), which were read from its
// pictures, ± 0.03: the 95th percentile of the slowdown of flows of a size, under HPCC-INT, HPCC-PINT, DCQCN+w and DCTCP.
//
// Form: HPCC by rate, η 99 %, maxStage 0, and what their run.py has for 100 Gbit/s: RATE_AI 40 Mbit/s, MIN_RATE 1 Gbit/s, 32 MB of buffer,
// PFC; DCQCN+w: marks from 400 to 1,600 kB with a chance of 20 %, RATE_AI 20 and RATE_HAI 200 Mbit/s; DCTCP by rate: marks from 300 kB on,
// 615 Mbit/s a round trip. A packet has 1,000 bytes, 48 of headers, and 42 (INT) or 2 (PINT) of telemetry. T is that of the longest
// path, 12 cables of 1 µs and 1,000 bytes sent over six.
//
// Load is payload alone: each host begins flows by chance (Poisson) to any other one, so that they are that part of its link.
// Slowdown is the time of a flow by its standalone time, as that code has it: the round trip of its path, and all its bytes
// with headers and without telemetry at 100 Gbit/s; 1 at least. Sizes are bins of 5 % of the flows: 6.7 kB is the second one, 200 kB
// the 12th, 1 MB the 14th; of Hadoop 324 B the second, 120 kB the 18th.
var resultsPage = []page{
	{"WebSearch", 30, [][]float64{{1.28, 2.73, 3.74}, {1.32, 2.48, 3.45}, {3.07, 3.19, 3.67}, {2.69, 3.14, 4.19}}},
	{"WebSearch", 50, [][]float64{{1.59, 4.69, 6.79}, {1.66, 3.96, 5.83}, {4.60, 5.38, 7.91}, {3.73, 4.89, 8.30}}},
	{"Hadoop", 30, [][]float64{{1.50, 2.43}, {1.51, 2.26}, {2.75, 2.72}, {2.44, 2.59}}},
	{"Hadoop", 50, [][]float64{{1.88, 3.88}, {1.96, 3.38}, {4.35, 4.34}, {3.50, 4.02}}},
}

// page is one of its pictures.
type page struct {
	workload string
	load     int
	want     [][]float64 // of each control
}

// pageControls are the controls of the page, and what each needs.
var pageControls = []struct{ name, control, packets, ecn string }{
	{"HPCC-INT", "kind: hpcc-rate, eta: 99, increase: 40M, least: 1G, ", "ack: 46, telemetry: ns3", ""},
	{"HPCC-PINT", "kind: hpcc-pint, eta: 99, increase: 40M, least: 1G, ", "ack: 58", ""},
	{"DCQCN+w", "kind: dcqcn, windowed: true, increase: 20M, least: 1G, ", "ack: 60", "ecn: {min: 400k, max: 1600k, chance: 20, at: 100G}"},
	{"DCTCP", "kind: dctcp-rate, increase: 615M, least: 1G, ", "ack: 60", "ecn: {min: 300k, at: 100G}"},
}

// sizes are the distributions of that repository's traffic_gen, WebSearch_distribution.txt and FbHdp_distribution.txt: bytes, and
// how many percent of the flows have no more. bins are those of the page's sizes.
var sizes = map[string]struct {
	cdf  [][2]float64
	bins []int
}{
	"WebSearch": {[][2]float64{{0, 0}, {10e3, 15}, {20e3, 20}, {30e3, 30}, {50e3, 40}, {80e3, 53}, {200e3, 60}, {1e6, 70}, {2e6, 80}, {5e6, 90}, {10e6, 97}, {30e6, 100}}, []int{1, 11, 13}},
	"Hadoop": {[][2]float64{{0, 0}, {100, 1}, {200, 2}, {300, 5}, {350, 15}, {400, 20}, {500, 30}, {600, 40}, {700, 50}, {1e3, 60}, {2e3, 67}, {7e3, 70}, {30e3, 72}, {50e3, 82},
		{80e3, 87}, {120e3, 90}, {300e3, 95}, {1e6, 97.5}, {2e6, 99}, {10e6, 100}}, []int{1, 17}},
}

// pageOracles are those of a network of so many pods and hosts each; of so many flows.
func pageOracles(source string, pages []page, controls []int, pods, tors, hosts, cores int, flows map[string]int, within float64) (all []oracle) {
	for _, p := range pages {
		for _, i := range controls {
			c := pageControls[i]
			all = append(all, oracle{
				source: source, name: fmt.Sprintf("%s %d %%, %s", p.workload, p.load, c.name), want: p.want[i], within: within,
				measure: func(t *testing.T) []float64 {
					n := pods * tors * hosts
					r := run(t, fmt.Sprintf("topology: {clos: {pods: %d, tors: %d, aggs: %d, cores: %d, hosts: %d, rate: 100G, uplink: 400G, delay: 1us}}\n", pods, tors, hosts/4, cores, hosts)+
						"switches: {buffer: 32M, pfc: true, "+c.ecn+"}\npackets: {"+c.packets+"}\ncontrol: {"+c.control+"rtt: 12240ns}\nflows:\n"+
						poisson(rand.New(rand.NewPCG(uint64(p.load), uint64(len(p.workload)))), p, n, flows[p.workload]))
					return tails(r, sizes[p.workload].bins, func(from, to int) float64 {
						switch {
						case from/hosts == to/hosts:
							return 4000 + 160
						case from/hosts/tors == to/hosts/tors:
							return 8000 + 160 + 40
						}
						return 12000 + 160 + 80
					})
				},
			})
		}
	}
	return all
}

// poisson are flows of a workload, as lines of a scenario.
func poisson(r *rand.Rand, p page, hosts, flows int) string {
	cdf := sizes[p.workload].cdf
	mean := 0.0
	for i := range cdf[1:] {
		mean += (cdf[i][0] + cdf[i+1][0]) / 2 * (cdf[i+1][1] - cdf[i][1]) / 100
	}
	gap := mean * 8 / (100 * float64(p.load) / 100) / float64(hosts) // ns between two flows of all hosts
	var text strings.Builder
	at := 0.0
	for range flows {
		at += r.ExpFloat64() * gap
		from, to := r.IntN(hosts), r.IntN(hosts-1)
		if to >= from {
			to++
		}
		y := r.Float64() * 100
		i := 1
		for y > cdf[i][1] {
			i++
		}
		size := cdf[i-1][0] + (cdf[i][0]-cdf[i-1][0])*(y-cdf[i-1][1])/(cdf[i][1]-cdf[i-1][1])
		fmt.Fprintf(&text, "  - {from: %d, to: %d, size: %d, at: %dns}\n", from, to, max(int(size), 1), int(at))
	}
	return text.String()
}

// tails are the 95th percentiles of the slowdown in bins of 5 % of the flows, of which the first tenth is not counted: the network
// was empty then.
func tails(r *simulate.Result, bins []int, rtt func(from, to int) float64) (all []float64) {
	flows := slices.Clone(r.Flows[len(r.Flows)/10:])
	slices.SortStableFunc(flows, func(a, b simulate.FlowResult) int { return int(a.Bytes) - int(b.Bytes) })
	for _, b := range bins {
		var slow []float64
		for _, f := range flows[b*len(flows)/20 : (b+1)*len(flows)/20] {
			alone := rtt(f.From, f.To) + float64(f.Bytes+(f.Bytes+999)/1000*48)*8/100
			slow = append(slow, math.Max(1, f.TookNS/alone))
		}
		slices.Sort(slow)
		all = append(all, slow[len(slow)*95/100])
	}
	return all
}

// twin is the page's network with 32 hosts, and flows that end within seconds: near, and not the same.
var twin = pageOracles("HPCC results, 32 hosts", resultsPage[2:3], []int{0, 2}, 2, 2, 8, 4, map[string]int{"Hadoop": 3000}, 0.3)

// full is the page's network: 320 hosts, 56 switches.
var full = pageOracles("HPCC results", resultsPage, []int{0, 1, 2, 3}, 5, 4, 16, 16, map[string]int{"Hadoop": 20_000, "WebSearch": 8_000}, 0.15)

// TestLongResults takes most of an hour.
func TestLongResults(t *testing.T) { check(t, full) }
