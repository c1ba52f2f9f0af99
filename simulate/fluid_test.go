package simulate

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// tenScenarios run packet by packet and flow by flow.
var tenScenarios = []string{
	"topology: {star: {hosts: 16, rate: 100G, delay: 1us}}\nflows: [{from: 0-14, to: 15, size: 1M}]\ncontrol: {kind: hpcc, flows: 15}\npackets: {telemetry: p4}\n",
	"topology: {dumbbell: {hosts: 8, rate: 100G, uplink: 100G, delay: 1us}}\nflows: [{from: 0, to: 8, size: 8M}, {from: 1, to: 9, size: 4M}, {from: 2, to: 10, size: 2M, at: 100us}, {from: 3, to: 11, size: 1M, at: 200us}]\ncontrol: {kind: hpcc, flows: 4}\npackets: {telemetry: p4}\n",
	"topology: {leaf_spine: {leaves: 4, spines: 2, hosts: 8, rate: 100G, uplink: 400G, delay: 1us}}\nworkloads: [{kind: permutation, size: 10M}]\ncontrol: {kind: hpcc}\npackets: {telemetry: p4}\n",
	"topology: {fat_tree: {k: 4, rate: 100G, delay: 1us}}\nworkloads: [{kind: permutation, size: 10M}]\ncontrol: {kind: hpcc}\npackets: {telemetry: p4}\n",
	"topology: {fat_tree: {k: 4, rate: 100G, delay: 1us}}\nworkloads: [{kind: ring, size: 8M}]\ncontrol: {kind: window, window: 200k}\n",
	"topology: {star: {hosts: 8, rate: 100G, delay: 1us}}\nworkloads: [{kind: all-to-all, size: 500k}]\ncontrol: {kind: hpcc, flows: 8}\npackets: {telemetry: p4}\n",
	"topology: {star: {hosts: 16, rate: 100G, delay: 1us}}\nworkloads: [{kind: poisson, size: 3M, load: 40, for: 10ms}]\ncontrol: {kind: hpcc, flows: 4}\npackets: {telemetry: p4}\n",
	"topology: {leaf_spine: {leaves: 4, spines: 2, hosts: 8, rate: 100G, uplink: 400G, delay: 1us}}\nworkloads: [{kind: poisson, size: 5M, load: 40, for: 5ms}]\ncontrol: {kind: hpcc, flows: 4}\npackets: {telemetry: p4}\n",
	"topology: {leaf_spine: {leaves: 4, spines: 2, hosts: 8, rate: 100G, uplink: 400G, delay: 1us}}\nworkloads: [{kind: poisson, sizes: websearch, load: 30, for: 5ms}]\ncontrol: {kind: hpcc, flows: 4}\npackets: {telemetry: p4}\n",
	"topology: {star: {hosts: 16, rate: 100G, delay: 1us}}\nworkloads: [{kind: poisson, sizes: websearch, load: 50, for: 5ms}]\ncontrol: {kind: window, window: 60k}\n",
}

// TestLongFlowLevel: on ten scenarios that run both ways, p99 of the slowdown by flows is near that by packets: 10 % on average, 50 %
// at most (what Parsimon, NSDI 2023, has: 7.0 and 51.9).
func TestLongFlowLevel(t *testing.T) {
	t.Parallel()
	sum, most := flowsAndPackets(t, tenScenarios)
	t.Logf("on average %.1f %%, at most %.1f %%", 100*sum/10, 100*most)
	if sum/10 > 0.10 || most > 0.5 {
		t.Errorf("p99 is off by %.1f %% on average, by %.1f %% at most", 100*sum/10, 100*most)
	}
}

// TestFlowLevel is three of them.
func TestFlowLevel(t *testing.T) {
	t.Parallel()
	if _, most := flowsAndPackets(t, []string{tenScenarios[0], tenScenarios[1], tenScenarios[5]}); most > 0.3 {
		t.Errorf("p99 is off by %.1f %%", 100*most)
	}
}

// flowsAndPackets runs scenarios both ways: by how much p99 is off in all, and at most.
func flowsAndPackets(t *testing.T, all []string) (sum, most float64) {
	t.Helper()
	for i, text := range all {
		text = "format: csig.scenario/v1\n" + text
		packets, flows := run(t, text), run(t, text+"mode: flow\n")
		off := flows.Slowdown.P99/packets.Slowdown.P99 - 1
		t.Logf("%d: p99 by packets %.3f, by flows %.3f: %+.1f %%; p50 %.3f, %.3f; %d and %d events", i, packets.Slowdown.P99, flows.Slowdown.P99, 100*off, packets.Slowdown.P50, flows.Slowdown.P50, packets.Events, flows.Events)
		sum, most = sum+math.Abs(off), max(most, math.Abs(off))
		if flows.Ended != packets.Ended || flows.FlowsInAll != packets.FlowsInAll {
			t.Errorf("%d: %d flows end by packets, %d by flows", i, packets.Ended, flows.Ended)
		}
	}
	return sum, most
}

// TestMaxMin: shares are those that one works out by hand.
func TestMaxMin(t *testing.T) {
	t.Parallel()
	// Host 0 sends to 3 and 4, host 1 to 4: its link is shared by two, that to 4, too, and none has more than half of 100 Gbit/s; host 2
	// has a window of a tenth.
	r := run(t, "format: csig.scenario/v1\nmode: flow\ntopology: {star: {hosts: 5, rate: 100G, delay: 1us}}\npackets: {header: 0, ack: 0}\ncontrol: {kind: window, window: 1G}\n"+
		"flows: [{from: 0, to: 3, size: 10M}, {from: 0, to: 4, size: 10M}, {from: 1, to: 4, size: 20M}]\n")
	for i, want := range []float64{1.6e6, 1.6e6, 2.4e6} { // the last one has all of it once the others have ended
		if got := r.Flows[i].TookNS; math.Abs(got/want-1) > 0.01 {
			t.Errorf("flow %d takes %v ns, want %v", i, got, want)
		}
	}
}

// TestAcksTakeRoom: the ACKs of a flow that has its rate take their part of the way back, and no more.
func TestAcksTakeRoom(t *testing.T) {
	t.Parallel()
	r := run(t, "format: csig.scenario/v1\nmode: flow\ntopology: {star: {hosts: 3, rate: 100G, delay: 1us}, links: [{between: [host2, switch0], rate: 10G}]}\npackets: {header: 0, ack: 100}\ncontrol: {kind: window, window: 1G}\nflows: [{from: 0, to: 2, size: 10M}, {from: 1, to: 0, size: 10M}]\n")
	if got := r.Flows[1].TookNS; math.Abs(got/(800e3/0.99)-1) > 0.01 { // ACKs of 10 Gbit/s are 1 Gbit/s
		t.Errorf("it takes %v ns", got)
	}
}

// TestFlowLevelAlone: a flow alone takes what it takes by packets, to a nanosecond.
func TestFlowLevelAlone(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"1", "1500", "1M"} {
		text := "format: csig.scenario/v1\ntopology: {fat_tree: {k: 4, rate: 100G, uplink: 40G, delay: 1us}}\ncontrol: {kind: window, window: 1G}\nflows: [{from: 0, to: 15, size: " + size + "}]\nmode: "
		packets, flows := run(t, text+"packet\n"), run(t, text+"flow\n")
		if a, b := packets.Flows[0].TookNS, flows.Flows[0].TookNS; math.Abs(a-b) > 1 {
			t.Errorf("%s bytes: %v ns by packets, %v by flows", size, a, b)
		}
	}
}

// TestFlowLevelHasNoQueues: no text and no picture has queues or packets flow by flow.
func TestFlowLevelHasNoQueues(t *testing.T) {
	t.Parallel()
	const text = head + "flows: [{from: 0-2, to: 3, size: 1M}]\nmode: "
	for mode, want := range map[string]bool{"packet": true, "flow": false} {
		r := run(t, text+mode+"\n")
		seeds := summarize([]*Result{r})
		var out, svg strings.Builder
		check, err := CheckControl(t.Context(), scenario(t, text+mode+"\n"), r)
		out.WriteString(check)
		if err := errors.Join(err, r.WriteText(&out), seeds.WriteText(&out), r.WriteSVG(&svg)); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"queue", "dropped"} {
			if strings.Contains(out.String(), word) != want {
				t.Errorf("%s, mode %s: %s", word, mode, out.String())
			}
		}
		if strings.Contains(svg.String(), "Longest queue") != want {
			t.Errorf("the picture, mode %s", mode)
		}
	}
}

// TestFlowLevelPaths: paths are chosen by signals of flows' rates, and old ones of agents' readings.
func TestFlowLevelPaths(t *testing.T) {
	t.Parallel()
	flows := "flows:\n"
	for i := range 6 {
		flows += fmt.Sprintf("  - {from: %d, to: %d, size: 10M, at: %dus}\n", i, 8+i, 100+40*i)
	}
	took := func(choice, csig string) float64 {
		return run(t, fourSpines+flows+"csig: {switches: [{kind: "+csig+"}]}\nmode: flow\npaths: {choice: "+choice+"}\n").Slowdown.P100
	}
	if greedy, old := took("greedy", "native"), took("greedy", "software, interval: 100ms"); old < 1.2*greedy {
		t.Errorf("slowdown: %v by new signals, %v by old ones", greedy, old)
	}
}
