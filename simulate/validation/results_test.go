package validation

import (
	"fmt"
	"math"
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
// 615 Mbit/s a round trip. Telemetry is in units of 128 and 80 bytes, of which run.py has four at 100 Gbit/s. A packet has 1,000 bytes, 48 of headers, and 42 (INT) or 2 (PINT) of telemetry. T is that of the longest
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
	{"HPCC-PINT", "kind: hpcc-pint, eta: 99, increase: 40M, least: 1G, ", "ack: 58, telemetry: ns3", ""},
	{"DCQCN+w", "kind: dcqcn, windowed: true, increase: 20M, least: 1G, ", "ack: 60", "ecn: {min: 400k, max: 1600k, chance: 20, at: 100G}"},
	{"DCTCP", "kind: dctcp-rate, increase: 615M, least: 1G, ", "ack: 60", "ecn: {min: 300k, at: 100G}"},
}

// bins are those of the page's sizes, of 5 % of the flows each.
var bins = map[string][]int{"WebSearch": {1, 11, 13}, "Hadoop": {1, 17}}

// pageOracles are those of a network of so many pods and hosts each, whose flows begin over so many ms.
func pageOracles(source string, pages []page, controls []int, pods, tors, hosts, cores, ms int, within float64) (all []oracle) {
	for _, p := range pages {
		for _, i := range controls {
			c := pageControls[i]
			all = append(all, oracle{
				source: source, name: fmt.Sprintf("%s %d %%, %s", p.workload, p.load, c.name), want: p.want[i], within: within,
				measure: func(t *testing.T) []float64 {
					r := run(t, fmt.Sprintf("topology: {clos: {pods: %d, tors: %d, aggs: %d, cores: %d, hosts: %d, rate: 100G, uplink: 400G, delay: 1us}}\n", pods, tors, hosts/4, cores, hosts)+
						"switches: {buffer: 32M, pfc: true, "+c.ecn+"}\npackets: {"+c.packets+"}\ncontrol: {"+c.control+"rtt: 12240ns}\n"+
						fmt.Sprintf("workloads: [{kind: poisson, sizes: %s, load: %d, for: %dms}]\n", strings.ToLower(p.workload), p.load, ms))
					return tails(r, float64(ms)*1e6/5, bins[p.workload], func(from, to int) float64 {
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

// tails are the 95th percentiles of the slowdown in bins of 5 % of the flows that begin after a time: before, the network is
// empty.
func tails(r *simulate.Result, warm float64, bins []int, rtt func(from, to int) float64) (all []float64) {
	flows := slices.DeleteFunc(r.Flows, func(f simulate.FlowResult) bool { return f.BeginNS < warm })
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

// twin is the page's network with 32 hosts, and a bin of 120 flows: near, and not the same. Of DCQCN+w and DCTCP so few flows say
// nothing: their short ones wait behind queues of some incasts.
var twin = pageOracles("HPCC results, 32 hosts", resultsPage[2:3], []int{0}, 2, 2, 8, 4, 3, 0.4)

// full is the page's network: 320 hosts, 56 switches. At 50 % of WebSearch the largest flows take longer than 10 ms: it takes 30 until
// the network is as full as it gets (HPCC-INT: 3.70 and 5.31 over 10 ms for 200 kB and 1 MB, 4.35 and 6.66 over 30).
var full = slices.Concat(fullPages(10, 0, 2, 3), fullPages(30, 1))

func fullPages(ms int, pages ...int) (all []oracle) {
	for _, i := range pages {
		all = append(all, pageOracles("HPCC results", resultsPage[i:i+1], []int{0, 1, 2, 3}, 5, 4, 16, 16, ms, 0.15)...)
	}
	return all
}
