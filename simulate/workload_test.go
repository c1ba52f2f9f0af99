package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
)

// TestSizes: sizes come out as the distribution has them, at each of its points, and on average.
func TestSizes(t *testing.T) {
	t.Parallel()
	const draws = 200_000
	for name, d := range distributions {
		if len(d.bytes) != len(d.percent) || !slices.IsSorted(d.bytes) || !slices.IsSorted(d.percent) || d.percent[len(d.percent)-1] != 100 {
			t.Errorf("%s is no distribution", name)
		}
		r := rand.New(rand.NewPCG(1, 1))
		below := make([]int, len(d.bytes))
		sum := 0.0
		for range draws {
			one := d.one(r)
			sum += float64(one)
			for i, b := range d.bytes {
				if float64(one) <= b {
					below[i]++
				}
			}
		}
		for i := range below {
			if got := float64(below[i]) / draws * 100; math.Abs(got-d.percent[i]) > 0.6 {
				t.Errorf("%s: %.1f %% have at most %v bytes, want %.1f", name, got, d.bytes[i], d.percent[i])
			}
		}
		if mean := sum / draws; math.Abs(mean/d.mean()-1) > 0.06 {
			t.Errorf("%s: %.0f bytes on average, want %.0f", name, mean, d.mean())
		}
	}
}

func allFlows(s *Scenario) (all []wanted) {
	s.flows(func(w wanted) { all = append(all, w) })
	return all
}

const rack = "format: csig.scenario/v1\ntopology: {star: {hosts: 16, rate: 100G, delay: 1us}}\nworkloads:\n  - "

// TestPoissonLoad: hosts send as much as load says, and to all others alike, and another seed has other flows.
func TestPoissonLoad(t *testing.T) {
	t.Parallel()
	all := allFlows(scenario(t, rack+"{kind: poisson, size: 100k, load: 40, for: 100ms, at: 1ms}\n"))
	var bytes uint64
	to := make([]int, 16)
	for _, f := range all {
		bytes += f.size
		to[f.to]++
		if f.from == f.to || f.at < ms || f.at > 101*ms {
			t.Fatalf("%+v", f)
		}
	}
	if want := 0.4 * 16 * 100e9 / 8 * 0.1; math.Abs(float64(bytes)/want-1) > 0.02 {
		t.Errorf("%d bytes, want %.0f", bytes, want)
	}
	for h, n := range to {
		if math.Abs(float64(n)/float64(len(all))*16-1) > 0.1 {
			t.Errorf("host %d gets %d of %d flows", h, n, len(all))
		}
	}
	if other := allFlows(scenario(t, "seed: 2\n"+rack+"{kind: poisson, size: 100k, load: 40, for: 100ms, at: 1ms}\n")); slices.Equal(all, other) {
		t.Error("another seed has the same flows")
	}
	if again := allFlows(scenario(t, rack+"{kind: poisson, size: 100k, load: 40, for: 100ms, at: 1ms}\n")); !slices.Equal(all, again) {
		t.Error("the same seed has other flows")
	}
}

// TestPatterns: who sends to whom.
func TestPatterns(t *testing.T) {
	t.Parallel()
	all := allFlows(scenario(t, rack+"{kind: permutation, size: 1k}\n"))
	seen := make(map[int32]bool)
	for _, f := range all {
		if f.from == f.to || seen[f.to] {
			t.Errorf("%+v", f)
		}
		seen[f.to] = true
	}
	if len(seen) != 16 {
		t.Errorf("%d hosts get a flow", len(seen))
	}
	pairs := make(map[[2]int32]bool)
	for _, f := range allFlows(scenario(t, rack+"{kind: all-to-all, size: 1k, hosts: 4-11}\n")) {
		pairs[[2]int32{f.from, f.to}] = f.from != f.to && f.from >= 4 && f.to <= 11
	}
	if len(pairs) != 8*7 {
		t.Errorf("%d pairs", len(pairs))
	}
	at := make(map[int64]int)
	for _, f := range allFlows(scenario(t, rack+"{kind: incast, fan: 5, to: 3, size: 1k, every: 1ms, for: 10ms, at: 5ms}\n")) {
		if at[f.at]++; f.to != 3 || f.from == 3 {
			t.Errorf("%+v", f)
		}
	}
	if len(at) != 10 || at[5*ms] != 5 || at[14*ms] != 5 {
		t.Errorf("%v", at)
	}
}

// TestRing: an all-reduce takes what its steps take one behind the other: none begins before what it sends on has come.
func TestRing(t *testing.T) {
	t.Parallel()
	m := simulation(t, strings.Replace(rack, "1us}}", "1us}}\ncontrol: {kind: window, window: 1M}", 1)+"{kind: ring, size: 1600k, hosts: 0-7}\n")
	n := m.network
	if err := n.Run(math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if len(n.flows) != 14*8 {
		t.Fatalf("%d flows", len(n.flows))
	}
	last := int64(0)
	for i := range n.flows {
		f := &n.flows[i]
		if f.size != 200_000 || (i < 8) != (f.begins == 0) {
			t.Fatalf("flow %d of %d bytes begins at %d", i, f.size, f.begins)
		}
		last = max(last, f.arrived)
	}
	// 200 packets of 1,048 bytes at 100 Gbit/s, and once more at the switch; ACKs take some of it.
	step := 201*83_840.0 + 2*us
	if got := float64(last) / 14 / step; got < 1 || got > 1.08 {
		t.Errorf("a step takes %.3f of what it takes without ACKs", got)
	}
}

// TestIncastToAnother: the receiver need not be among the hosts that send; then all of them may, and have to reach it.
func TestIncastToAnother(t *testing.T) {
	t.Parallel()
	const incast = "workloads: [{kind: incast, fan: 3, to: 0, hosts: 1-3, size: 1k}]\n"
	if r := run(t, head+incast); r.Ended != 3 || r.Flows[0].To != 0 {
		t.Errorf("%+v", r.Flows)
	}
	down := strings.Replace(head, "1us}}", "1us}, links: [{between: [host0, switch0], down: true}]}", 1)
	if _, err := ParseScenario("s.yaml", []byte(down+incast)); err == nil || !strings.Contains(err.Error(), "no route of at most 8 cables from host 1 to host 0") {
		t.Errorf("%v", err)
	}
}

// TestWorkloadMistakes: each mistake is named with its place.
func TestWorkloadMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{kind: poisson, size: 1k, for: 1ms}":                   "s.yaml:4:6: scenario: workloads: poisson needs load",
		"{kind: poisson, load: 30, for: 1ms}":                   "s.yaml:4:6: scenario: workloads: poisson needs sizes, or the one size",
		"{kind: poisson, load: 30, for: 1ms, sizes: web}":       "s.yaml:4:48: scenario: workloads: sizes: ",
		"{kind: poisson, load: 30, for: 1ms, size: 1k, fan: 3}": "s.yaml:4:51: scenario: workloads: poisson has no fan",
		"{kind: incast, fan: 16, size: 1k}":                     "s.yaml:4:25: scenario: workloads: 16 hosts cannot send to another one: 15 can",
		"{kind: incast, fan: 2, size: 1k, to: 16}":              "s.yaml:4:42: scenario: workloads: there are 16 hosts",
		"{kind: incast, fan: 2, size: 1k, every: 1ms}":          "s.yaml:4:6: scenario: workloads: what is repeated needs every and for",
		"{kind: ring, size: 1k, hosts: 3}":                      `s.yaml:4:35: scenario: workloads: "3" is no range of hosts`,
		"{kind: ring, size: 1k, hosts: 3-16}":                   "s.yaml:4:35: scenario: workloads: there are 16 hosts",
		"{kind: permutation, size: 1k, every: 1us, for: 1h}":    "s.yaml:4:5: scenario: workloads: it has 57600000000 flows",
		"{kind: poisson, load: 90, for: 1h, size: 1k}":          "s.yaml:4:5: scenario: workloads: it has ",
	} {
		_, err := ParseScenario("s.yaml", []byte(rack+text+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestMeansOfThePage: docs/simulate.md has the means of the distributions.
func TestMeansOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range distributions {
		if want := fmt.Sprintf("| `%s` | %s |", name, quantize.FormatCount(int(math.Round(d.mean())))); !strings.Contains(string(page), want) {
			t.Errorf("the page has not %q", want)
		}
	}
}
