package validation

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

//go:embed DEVIATIONS.md
var deviations string

// closedForms are what a calculation gives, and the simulation of stale information, whose figures are of a model that has no
// network: 100 servers, Poisson arrivals of 0.9 of what they can do, exponential service, FCFS; queue lengths are written down
// for all to see once in a period (Mitzenmacher, How Useful Is Old Information?, 2000, "periodic update"). The figures are
// mean times in the system, in mean service times. They do not say who gets an arrival of several shortest queues, nor how long
// was simulated: see DEVIATIONS.md.
var closedForms = []oracle{
	{
		source: "closed form", name: "a flow of 2 MB alone in a star, endless window", unit: "ps", want: []float64{alone}, within: 1e-12,
		measure: func(t *testing.T) []float64 {
			r := run(t, "topology: {star: {hosts: 2, rate: 100G, delay: 1us}}\ncontrol: {kind: window, window: 1G}\nflows: [{from: 0, to: 1, size: 2M}]")
			return []float64{r.Flows[0].TookNS * 1000}
		},
	},
	{source: "closed form", name: "any server: M/M/1, load 0.9", unit: "mean service times", want: []float64{10}, within: 0.05, measure: stale(0, 1)},
	{source: "stale information", name: "shortest queue, each 0.1, 1, 2, 20, 50", want: []float64{2.0, 7.2, 11.3, 81, 178}, within: 0.05, measure: stale(100, 0.1, 1, 2, 20, 50)},
	{source: "stale information", name: "shortest queue, each 10", want: []float64{48}, within: 0.05, gap: "The shortest queue, of 10 service times ago", measure: stale(100, 10)},
	{source: "stale information", name: "best of two, each 0.1, 1, 2, 10, 20, 50", want: []float64{2.7, 3.0, 3.2, 5.0, 7.0, 12.6}, within: 0.05, measure: stale(2, 0.1, 1, 2, 10, 20, 50)},
}

// alone: the host sends 2000 packets of 1048 bytes one behind the other, at 80 ps a byte, the switch the last one, and the ACK of 64
// bytes goes back; four cables of 1 µs.
const alone = 80*(2000*1048+1048+2*64) + 4*1e6

// stale is the mean time in the system where arrivals choose the shortest of so many queues, as they were once in a period.
// choices 0: any server; 100: of all, and of several the next one from a place by chance.
func stale(choices int, periods ...float64) func(t *testing.T) []float64 {
	return func(t *testing.T) []float64 {
		var got []float64
		for _, period := range periods {
			const seeds = 4
			sum := 0.0
			for seed := range uint64(seeds) {
				sum += meanTime(rand.New(rand.NewPCG(seed, uint64(choices))), choices, period)
			}
			got = append(got, sum/seeds)
		}
		return got
	}
}

func meanTime(r *rand.Rand, choices int, period float64) float64 {
	const servers, load = 100, 0.9
	warm, jobs := 50_000, 450_000
	if period < 10 && choices > 0 { // it settles soon
		warm, jobs = 10_000, 90_000
	}
	leave := make([][]float64, servers) // when each job of a server does
	board := make([]int, servers)
	least := 0
	now, next, sum := 0.0, 0.0, 0.0
	for n := range warm + jobs {
		now += r.ExpFloat64() / (load * servers)
		for ; now >= next; next += period {
			for s := range leave {
				gone := 0
				for gone < len(leave[s]) && leave[s][gone] <= next {
					gone++
				}
				leave[s] = leave[s][gone:]
				board[s] = len(leave[s])
			}
			least = slices.Min(board)
		}
		s := r.IntN(servers)
		switch choices {
		case 2:
			if other := r.IntN(servers); board[other] < board[s] {
				s = other
			}
		case servers:
			for board[s] != least {
				s = (s + 1) % servers
			}
		}
		begins := now
		if q := leave[s]; len(q) > 0 {
			begins = max(now, q[len(q)-1])
		}
		ends := begins + r.ExpFloat64()
		leave[s] = append(leave[s], ends)
		if n >= warm {
			sum += ends - now
		}
	}
	return sum / float64(jobs)
}

// star is the scenario of the public ns-3 code: hosts around a switch.
func star(kind string, flows int, more string) string {
	return fmt.Sprintf("topology: {star: {hosts: 16, rate: 100G, delay: 1us}}\nswitches: {buffer: 32M, pfc: true}\n%s\nflows: [{from: 0-%d, to: 15, size: 2M}]\ncontrol: {kind: %s", more, flows-1, kind) + ", rtt: 4160ns, eta: 95, max_stage: 0, increase: 50M, least: 100M}\n"
}
