package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/cc"
)

const spraying = "paths: {choice: spray}\nrecovery: {kind: selective}\n"

// TestSprayAlone: a flow that is sprayed over equal paths and has them alone takes as long as over one, to the picosecond, and
// each of them gets as many packets.
func TestSprayAlone(t *testing.T) {
	t.Parallel()
	for network, ways := range map[string]int{
		"{leaf_spine: {leaves: 2, spines: 5, hosts: 8, rate: 100G, delay: 1us}}": 5,
		"{fat_tree: {k: 4, rate: 100G, delay: 500ns}}":                           4,
		"{fat_tree: {k: 16, rate: 40G, delay: 500ns}}":                           64,
		"{star: {hosts: 16, rate: 100G, delay: 1us}}":                            1,
	} {
		text := "format: csig.scenario/v1\ntopology: " + network + "\ncontrol: {kind: window, window: 10M}\nflows: [{from: 1, to: 14, size: 1280000}]\n"
		if ways == 64 {
			text = strings.Replace(text, "to: 14", "to: 140", 1)
		}
		m := simulation(t, text+spraying)
		r, err := m.Run(t.Context(), func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		if one := run(t, text); r.Flows[0].TookNS != one.Flows[0].TookNS || r.Flows[0].Slowdown != 1 {
			t.Errorf("%s: sprayed it takes %v ns, %v times what it should, over one path %v", network, r.Flows[0].TookNS, r.Flows[0].Slowdown, one.Flows[0].TookNS)
		}
		n := m.network
		f := &n.flows[0]
		if int(f.ways) != ways || n.bytes.sent != f.size {
			t.Fatalf("%s: %d paths, %d bytes are sent", network, f.ways, n.bytes.sent)
		}
		if again := n.pathOf(0, f, 5000, true); ways > 1 && again == n.pathOf(0, f, 5000, false) {
			t.Errorf("%s: what is sent again takes the path that it was lost on", network)
		}
		n.eachPath(f, func(links []int32) {
			if ways == 1 {
				return
			}
			if got := n.links[links[len(links)/2]].bytes; got != f.size/uint64(ways)*1048/1000 { // of a core, or a spine, which it has for itself
				t.Errorf("%s: a path of %d has %d bytes", network, ways, got)
			}
			if got := n.links[links[len(links)/2]^1].bytes; got != f.size/1000/uint64(ways)*ackSize {
				t.Errorf("%s: on the way back of a path of %d there are %d bytes", network, ways, got)
			}
		})
	}
}

// TestSprayedPaths: each switch divides a flow's paths evenly among its cables that are there, and those that are down have none.
func TestSprayedPaths(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		links string
		want  []string // the switches that each path goes by
	}{
		{"", []string{"agg0 core0", "agg0 core1", "agg1 core2", "agg1 core3"}},
		{", links: [{between: [agg0, core0], down: true}]", []string{"agg0 core1", "agg0 core1", "agg1 core2", "agg1 core3"}},
		{", links: [{between: [tor0, agg1], down: true}]", []string{"agg0 core0", "agg0 core1"}},
		{", links: [{between: [agg2, core0], down: true}, {between: [agg2, core1], down: true}]", []string{"agg1 core2", "agg1 core3"}},
	} {
		m := simulation(t, "format: csig.scenario/v1\ntopology: {fat_tree: {k: 4, rate: 100G, delay: 1us}"+x.links+"}\ncontrol: {kind: swift}\nflows: [{from: 0, to: 4, size: 1M}, {from: 0, to: 4, size: 1M}, {from: 0, to: 4, size: 1M}]\n"+spraying)
		if err := m.network.Run(1 << 62); err != nil {
			t.Fatal(err)
		}
		var got []string
		n, r, g := m.network, m.scenario.routes, m.scenario.Topology.graph
		n.eachPath(&n.flows[0], func(links []int32) {
			got = append(got, g.names[int(r.to[links[1]])-g.hosts]+" "+g.names[int(r.to[links[2]])-g.hosts])
		})
		slices.Sort(got)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.links, got, x.want)
		}
		if all := len(n.route); all != len(x.want)*2*7 {
			t.Errorf("paths of three flows between two hosts take %d places", all)
		}
	}
}

// TestSprayBounds: of more paths than maxSprayed each pair of hosts has so many, evenly over the first switch's cables, and other
// pairs have others; a scenario's memory has them.
func TestSprayBounds(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {fat_tree: {k: 20, rate: 100G, delay: 1us}}\ncontrol: {kind: swift}\nflows: [{from: 0, to: 1000, size: 1M}, {from: 1, to: 1000, size: 1M}]\n"
	m := simulation(t, text+spraying)
	n := m.network
	if err := n.Run(10 * us); err != nil {
		t.Fatal(err)
	}
	var cores [2][]int32
	first := make(map[int32]int)
	for i := range cores {
		n.eachPath(&n.flows[i], func(links []int32) {
			first[links[1]]++
			cores[i] = append(cores[i], links[2])
		})
		slices.Sort(cores[i])
	}
	if len(slices.Compact(slices.Clone(cores[0]))) != maxSprayed || slices.Equal(cores[0], cores[1]) {
		t.Errorf("cores are %v and %v", cores[0], cores[1])
	}
	for l, paths := range first {
		if paths < 2*maxSprayed/10 || paths > 2*(maxSprayed/10+1) {
			t.Errorf("%d paths go by link %d", paths, l)
		}
	}
	if one, all := m.scenario.Memory(), scenario(t, text).Memory(); one < all+uint64(4*cap(n.route))/2 {
		t.Errorf("it is said to take %d bytes, over one path %d; paths take %d", one, all, 4*len(n.route))
	}
}

// counts has what a control was told.
type counts struct {
	cc.Control
	acked uint64
	lost  int
}

func (c *counts) On(e *cc.Event, o *cc.Output) {
	switch e.Kind {
	case cc.Acked:
		c.acked += e.Acked
	case cc.Lost, cc.TimedOut:
		c.lost++
	}
	c.Control.On(e, o)
}

// TestSprayReorders: packets that overtake others on a faster path are not lost, and a control is told of each byte once, when it
// has come.
func TestSprayReorders(t *testing.T) {
	t.Parallel()
	for switches, loses := range map[string]bool{"": false, "switches: {queue: 10M}\n": false, "switches: {queue: 12k}\n": true} {
		m := simulation(t, "format: csig.scenario/v1\ntopology: {leaf_spine: {leaves: 2, spines: 4, hosts: 4, rate: 100G, delay: 1us}, links: [{between: [leaf0, spine1], rate: 20G}]}\n"+
			"control: {kind: window, window: 100k}\nflows: [{from: 0-3, to: 4, size: 2M}, {from: 0-3, to: 5, size: 999999}]\n"+switches+spraying)
		n := m.network
		for i := range n.flows {
			n.flows[i].control = &counts{Control: n.flows[i].control}
		}
		overtaken := 0
		for n.left > 0 {
			if err := n.Run(n.now + us); err != nil {
				t.Fatal(err)
			}
			for i := range n.flows {
				overtaken = max(overtaken, int(n.flows[i].missing.count)/1000)
			}
		}
		lost := 0
		for i := range n.flows {
			f := &n.flows[i]
			c := f.control.(*counts)
			lost += c.lost
			if c.acked != f.size {
				t.Errorf("%q: flow %d of %d bytes is told of %d", switches, i, f.size, c.acked)
			}
		}
		if overtaken < 2*reorder {
			t.Errorf("%q: %d packets are overtaken at most", switches, overtaken)
		}
		again := n.bytes.sent - 4*2_999_999
		if loses != (lost > 0) || loses != (n.bytes.dropped > 0) || !loses && again > 0 || again > n.bytes.dropped*21/20 {
			t.Errorf("%q: %d losses; %d bytes are dropped and %d sent again", switches, lost, n.bytes.dropped, again)
		}
		t.Logf("%q: %d overtaken, %d losses, %d timeouts, %d bytes dropped, %d sent again", switches, overtaken, lost, n.Timeouts, n.bytes.dropped, again)
	}
}

// TestSprayIsItsSeed: the same comes out for a seed, and something else for another.
func TestSprayIsItsSeed(t *testing.T) {
	t.Parallel()
	one := func(seed int) string {
		text, err := json.Marshal(run(t, fmt.Sprintf("format: csig.scenario/v1\ntopology: {fat_tree: {k: 4, rate: 100G, delay: 1us}}\nseed: %d\nswitches: {queue: 100k, ecn: {min: 10k}}\n", seed)+
			"control: {kind: dctcp}\nflows: [{from: 0-7, to: 12, size: 100k}, {from: 0-7, to: 13, size: 100k}]\n"+spraying).Flows)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if a, b := one(1), one(1); a != b {
		t.Errorf("of one seed\n%s\n%s", a, b)
	}
	if one(1) == one(2) {
		t.Error("two seeds are the same")
	}
}

// TestSprayMistakes: what does not go with packets that are sprayed is said, with its place.
func TestSprayMistakes(t *testing.T) {
	t.Parallel()
	const tags = "csig: {switches: [{kind: native}]}\n"
	for more, want := range map[string]string{
		"control: {kind: swift}\n":                                                       "packets that are sprayed overtake others",
		"control: {kind: swift}\nrecovery: {kind: go-back-n}\n":                          "packets that are sprayed overtake others",
		"control: {kind: swift}\nrecovery: {kind: selective}\nmode: flow\n":              "flow by flow there are no packets",
		"recovery: {kind: selective}\n":                                                  "control hpcc goes by the signals of one path",
		"control: {kind: hpcc-receiver}\nrecovery: {kind: selective}\n":                  "control hpcc-receiver goes by",
		"control: {kind: hpcc-pint}\nrecovery: {kind: selective}\n":                      "control hpcc-pint goes by",
		tags + "control: {kind: hpcc-csig}\nrecovery: {kind: selective}\n":               "control hpcc-csig goes by",
		tags + "control: {kind: csig}\nrecovery: {kind: selective}\n":                    "control csig goes by",
		tags + "control: {kind: swift, delay: pd}\nrecovery: {kind: selective}\n":        "control swift goes by",
		"control: {kind: swift}\nrecovery: {kind: selective}\n":                          "",
		"control: {kind: swift}\nrecovery: {kind: selective}\nswitches: {queue: 100k}\n": "",
	} {
		_, err := ParseScenario("s.yaml", []byte(head+"flows: [{from: 0, to: 1, size: 1}]\npaths: {choice: spray}\n"+more))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), "s.yaml:4:8: scenario: "+want)) {
			t.Errorf("%q: %v, want %s", more, err, want)
		}
	}
}
