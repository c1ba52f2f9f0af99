package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

const fourSpines = "format: csig.scenario/v1\ntopology: {leaf_spine: {leaves: 2, spines: 4, hosts: 8, rate: 100G, delay: 1us}, links: [{between: [leaf0, spine2], rate: 10G}]}\ncontrol: {kind: window, window: 100k}\n"

// spines are how many flows took each of the four spines.
func spines(t *testing.T, text string) (used [4]int, m *Simulation) {
	t.Helper()
	m = simulation(t, text)
	n := m.network
	if err := n.Run(math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	for i := range n.flows {
		f := &n.flows[i]
		to := m.scenario.routes.to[n.route[f.path+1]] - int32(m.scenario.Topology.graph.hosts) - 2
		if to >= 0 { // not within a rack
			used[to]++
		}
	}
	return used, m
}

// TestGreedy: flows that begin one after the other avoid the paths that others use, and the one that is nearly full; with old
// signals they all take the same one.
func TestGreedy(t *testing.T) {
	t.Parallel()
	flows := "flows:\n"
	for i := range 6 {
		flows += fmt.Sprintf("  - {from: %d, to: %d, size: 10M, at: %dus}\n", i, 8+i, 100+40*i)
	}
	const csig = "csig: {switches: [{kind: native, interval: 10us}]}\npaths: "
	if used, _ := spines(t, fourSpines+flows+csig+"{choice: greedy}\n"); used[2] > 1 || used[0]+used[1]+used[3] < 5 || min(used[0], used[1], used[3]) < 1 {
		t.Errorf("greedy: %v", used)
	}
	if used, _ := spines(t, fourSpines+strings.ReplaceAll(flows, "at: ", "at: 1")+csig+"{choice: greedy, probe: 1s}\n"); max(used[0], used[1], used[2], used[3]) == 6 {
		t.Errorf("equal paths are taken by chance: %v", used)
	}
}

// TestHerd: of many flows that see the same room at once, greedy ones all take the same path, two choices divide them, and weights
// of old signals are as even as chance.
func TestHerd(t *testing.T) {
	t.Parallel()
	// A load on three of the four spines, of which two have less left.
	text := strings.Replace(fourSpines, "rate: 10G", "down: true", 1) + "csig: {switches: [{kind: native, interval: 50us}]}\nflows:\n  - {from: 0, to: 8, size: 5M}\n  - {from: 1, to: 9, size: 5M, at: 5us}\n"
	for i := range 200 {
		text += fmt.Sprintf("  - {from: %d, to: %d, size: 1k, at: 200us}\n", 2+i%6, 10+i%6)
	}
	run := func(paths string) (most int) {
		used, _ := spines(t, text+"paths: {choice: "+paths+"}\n")
		if used[2] != 0 {
			t.Errorf("%s: a path that is down is used: %v", paths, used)
		}
		return max(used[0], used[1], used[3])
	}
	greedy, two, weighted, old := run("greedy, probe: 100us"), run("two-choices, probe: 100us"), run("weighted, probe: 100us, half_life: 1s"), run("weighted, probe: 100us, half_life: 1us")
	if greedy < 195 || two > 150 || two < 80 || weighted < 90 || old > 90 {
		t.Errorf("of 202 flows take the same path: %d greedy, %d of two choices, %d weighted, %d with weights of old signals", greedy, two, weighted, old)
	}
}

// TestLastHop: what all paths share says nothing about them.
func TestLastHop(t *testing.T) {
	t.Parallel()
	const flows = "csig: {switches: [{kind: native, interval: 20us}]}\nflows:\n  - {from: 0, to: 15, size: 20M}\n  - {from: 9, to: 15, size: 20M}\n  - {from: 1, to: 15, size: 10k, at: 200us}\n  - {from: 2, to: 15, size: 10k, at: 200us}\n  - {from: 3, to: 15, size: 10k, at: 200us}\n  - {from: 4, to: 15, size: 10k, at: 200us}\n  - {from: 5, to: 15, size: 10k, at: 200us}\n  - {from: 6, to: 15, size: 10k, at: 200us}\n"
	apart, m := spines(t, fourSpines+flows+"paths: {choice: greedy}\n")
	shared, _ := spines(t, fourSpines+flows+"paths: {choice: greedy, last_hop: true}\n")
	first := m.scenario.routes.to[m.network.route[m.network.flows[0].path+1]] - 16 - 2
	if apart[first] > 1 {
		t.Errorf("flows take the path that another one uses: %v, which is %d", apart, first)
	}
	if shared == apart {
		t.Errorf("it makes no difference that the last hop is full: %v", shared)
	}
}

// TestLongPLB: flows that their hash has put on one path move to others, where they are faster.
func TestLongPLB(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {leaf_spine: {leaves: 2, spines: 4, hosts: 8, rate: 100G, delay: 1us}, links: [{between: [leaf0, spine2], rate: 2G}]}\nswitches: {ecn: {min: 2k}}\ncontrol: {kind: dctcp}\nworkloads: [{kind: permutation, size: 2M}, {kind: permutation, size: 2M}, {kind: permutation, size: 2M}]\npaths: "
	plb, ecmp := run(t, text+"{choice: plb, rounds: 5}\n"), run(t, text+"{choice: ecmp}\n")
	if plb.Moves == 0 || ecmp.Moves != 0 || plb.TimeNS > 0.8*ecmp.TimeNS {
		t.Errorf("with PLB %d moves, and %v ns; without %v ns", plb.Moves, plb.TimeNS, ecmp.TimeNS)
	}
}
