package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const topologyHead = "format: csig.scenario/v1\nflows: [{from: 0, to: 1, size: 1k}]\n"

func scenario(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := ParseScenario("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTopologies: each has its hosts, switches and cables, and all hosts reach each other by paths of the length that it has.
func TestTopologies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{star: {hosts: 5, rate: 100G, delay: 1us}}":                                                                              "5 hosts, 1 switches, 5 cables, paths of 2 to 2",
		"{dumbbell: {hosts: 3, rate: 100G, uplink: 10G, delay: 1us}}":                                                             "6 hosts, 2 switches, 7 cables, paths of 2 to 3",
		"{leaf_spine: {leaves: 4, spines: 2, hosts: 3, rate: 100G, delay: 1us}}":                                                  "12 hosts, 6 switches, 20 cables, paths of 2 to 4",
		"{fat_tree: {k: 4, rate: 100G, delay: 1us}}":                                                                              "16 hosts, 20 switches, 48 cables, paths of 2 to 6",
		"{clos: {pods: 5, tors: 4, aggs: 4, cores: 16, hosts: 16, rate: 100G, uplink: 400G, delay: 1us}}":                         "320 hosts, 56 switches, 480 cables, paths of 2 to 6",
		"{dragonfly: {groups: 9, switches: 4, global: 2, hosts: 2, rate: 100G, delay: 1us}}":                                      "72 hosts, 36 switches, 162 cables, paths of 2 to 5",
		"{dragonfly: {groups: 3, switches: 4, global: 2, hosts: 2, rate: 100G, delay: 1us}}":                                      "24 hosts, 12 switches, 45 cables, paths of 2 to 5",
		"{leaf_spine: {leaves: 2, spines: 2, hosts: 1, rate: 100G, delay: 1us}, links: [{between: [spine0, leaf1], down: true}]}": "2 hosts, 4 switches, 6 cables, paths of 4 to 4",
	} {
		s := scenario(t, topologyHead+"topology: "+text)
		g, r := s.Topology.graph, s.routes
		least, most := 100, 0
		for from := range int32(g.hosts) {
			for to := range int32(g.hosts) {
				path, ok := r.route(nil, from, to, uint64(from*7+to))
				if ok != (from != to) {
					t.Fatalf("%s: from %d to %d: %v, %v", text, from, to, path, ok)
				}
				if !ok {
					continue
				}
				at := from
				for _, l := range path { // one behind the other
					if r.to[l^1] != at || g.cables[l/2].down {
						t.Fatalf("%s: from %d to %d: %v", text, from, to, path)
					}
					at = r.to[l]
				}
				if at != to {
					t.Fatalf("%s: from %d to %d: %v", text, from, to, path)
				}
				least, most = min(least, len(path)), max(most, len(path))
			}
		}
		if got := fmt.Sprintf("%d hosts, %d switches, %d cables, paths of %d to %d", g.hosts, len(g.names), len(g.cables), least, most); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestECMPIsEven: flows use all ways, about as much.
func TestECMPIsEven(t *testing.T) {
	t.Parallel()
	s := scenario(t, topologyHead+"topology: {fat_tree: {k: 8, rate: 100G, delay: 1us}}")
	used := make(map[int32]int)
	const flows = 16_000
	for i := range uint64(flows) {
		path, _ := s.routes.route(nil, 0, 127, i)
		used[path[2]]++
	}
	if len(used) != 16 {
		t.Fatalf("%d of 16 cores are used", len(used))
	}
	for l, n := range used {
		if n < flows/16*8/10 || n > flows/16*12/10 {
			t.Errorf("link %d has %d of %d flows", l, n, flows)
		}
	}
}

// TestTopologyFile: what is written is read as the same network, and mistakes have their places.
func TestTopologyFile(t *testing.T) {
	t.Parallel()
	s := scenario(t, topologyHead+"topology: {clos: {pods: 5, tors: 4, aggs: 4, cores: 16, hosts: 16, rate: 100G, uplink: 400G, delay: 1us}}")
	var text strings.Builder
	if err := s.WriteTopology(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "376 56 480\n320 321 ") || !strings.Contains(text.String(), "\n319 339 100Gbps 1000ns 0.000000\n320 340 400Gbps 1000ns 0.000000\n") {
		t.Errorf("%s", text.String()[:400])
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fat.txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := ParseScenario(filepath.Join(dir, "s.yaml"), []byte(topologyHead+"topology: {file: fat.txt}"))
	if err != nil {
		t.Fatal(err)
	}
	var second strings.Builder
	if err := again.WriteTopology(&second); err != nil || second.String() != text.String() {
		t.Errorf("it is another one when it is read, %v", err)
	}
	second.Reset()
	down := scenario(t, topologyHead+"topology: {dumbbell: {hosts: 2, rate: 100G, delay: 1us}, links: [{between: [host3, switch1], down: true}]}")
	if err := down.WriteTopology(&second); err != nil || second.String() != "6 2 4\n4 5\n0 4 100Gbps 1000ns 0.000000\n1 4 100Gbps 1000ns 0.000000\n2 5 100Gbps 1000ns 0.000000\n4 5 100Gbps 1000ns 0.000000\n" {
		t.Errorf("with a cable that is down: %s, %v", second.String(), err)
	}
	for text, want := range map[string]string{
		"":                                "f:1:1: the file ends before all that its first line promises",
		"3 1":                             "f:1:1: it has 2 words, and 3 are needed",
		"3 x 2":                           `f:1:3: "x" is no number up to 20000`,
		"3 3 2":                           "f:1:3: 3 switches of 3 nodes leave no number of hosts",
		"3 1 2\n9":                        `f:2:1: "9" is no number up to 2`,
		"4 2 2\n2 2":                      "f:2:3: switch 2 is there twice",
		"3 1 2\n2\n0 2 100Gbps 1000ns":    "f:3:1: it has 4 words, and 5 are needed",
		"3 1 2\n2\n0 2 0Gbps 1000ns 0":    `f:3:5: "0Gbps" is no rate above 0`,
		"3 1 2\n2\n0 2 fast 1000ns 0":     `f:3:5: "fast" is no rate above 0`,
		"3 1 2\n2\n0 2 100Gbps -1ns 0":    `f:3:13: "-1ns" is no delay`,
		"3 1 2\n2\n0 0 100Gbps 1ns 0":     "f:3:3: a cable from node 0 to itself",
		"3 1 2\n2\n0 2 100Gbps 1ns 0.5":   `f:3:17: "0.5" is not 0`,
		"3 1 2\n2\n\n0 2 100Gbps 1ns 0":   "f:4:1: the file ends before",
		"3 1 1\n2\n0 2 100Gbps 1ns 0\n\n": "",
	} {
		if _, err := parseTopology("f", []byte(text)); err == nil && want != "" || err != nil && (want == "" || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzTopologyFile: no file is taken for a network with what it has not.
func FuzzTopologyFile(f *testing.F) {
	f.Add([]byte("3 1 2\n2\n0 2 100Gbps 1000ns 0\n1 2 100Gbps 1000ns 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parseTopology("f", data)
		if err != nil {
			return
		}
		for _, c := range g.cables {
			if int(max(c.a, c.b)) >= g.nodes() || min(c.a, c.b) < 0 || c.a == c.b || c.rate == 0 || c.delay < 0 {
				t.Fatalf("%+v of %d nodes", c, g.nodes())
			}
		}
	})
}

// TestTopologyMistakes: each mistake is named with its place.
func TestTopologyMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}": "s.yaml:3:11: scenario: topology: it has no network",
		"{star: {hosts: 2, rate: 0G, delay: 1us}}":                                                                                        "s.yaml:3:35: scenario: topology: star: rate: a speed of 0",
		"{star: {hosts: 2, rate: 1G, delay: 1us}, fat_tree: {k: 4, rate: 1G, delay: 1us}}":                                                "s.yaml:3:52: scenario: topology: it is star as well",
		"{star: {hosts: 2, rate: 1G, delay: 1us, uplink: 1G}}":                                                                            `s.yaml:3:51: scenario: topology: star: unknown key "uplink"`,
		"{fat_tree: {k: 5, rate: 1G, delay: 1us}}":                                                                                        "s.yaml:3:26: scenario: topology: fat_tree: 5 is no even number",
		"{clos: {pods: 1, tors: 1, aggs: 3, cores: 4, hosts: 2, rate: 1G, delay: 1us}}":                                                   "s.yaml:3:53: scenario: topology: clos: 4 cores do not divide",
		"{dragonfly: {groups: 9, switches: 2, global: 2, hosts: 2, rate: 1G, delay: 1us}}":                                                "s.yaml:3:32: scenario: topology: dragonfly: 9 groups of 2 switches",
		"{clos: {pods: 100, tors: 100, aggs: 1, cores: 1, hosts: 1000, rate: 1G, delay: 1us}}":                                            "s.yaml:3:12: scenario: topology: a simulation takes at most 100000 hosts",
		"{dragonfly: {groups: 1000, switches: 1000, global: 2, hosts: 2, rate: 1G, delay: 1us}}":                                          "s.yaml:3:12: scenario: topology: a simulation takes",
		"{star: {hosts: 2, rate: 1G, delay: 1us}, links: [{between: [host0, spine0], rate: 1G}]}":                                         `s.yaml:3:70: scenario: topology: links: there is no cable between "host0" and "spine0"`,
		"{star: {hosts: 2, rate: 1G, delay: 1us}, links: [{between: [host0, switch0]}]}":                                                  "s.yaml:3:60: scenario: topology: links: a change of nothing",
		"{star: {hosts: 2, rate: 1G, delay: 1us}, links: [{between: [host0], down: true}]}":                                               "s.yaml:3:70: scenario: topology: links: a cable has two ends, and there are 1",
		"{star: {hosts: 2, rate: 1G, delay: 1us}, links: [{between: [host0, switch0], down: true}]}":                                      "s.yaml:2:23: scenario: flows: there is no route of at most 8 cables from host 0 to host 1",
		"{star: {hosts: 2, rate: 1G, delay: 1us}, links: [{between: [host0, switch0], rate: 2G, down: true}]}":                            "s.yaml:3:88: scenario: topology: links: a cable that is down has no rate",
		"{star: {hosts: 2, rate: 1G, delay: 1us}, links: [{between: [host0, switch0], rate: 2G}, {between: [switch0, host0], rate: 3G}]}": `s.yaml:3:109: scenario: topology: links: an entry before is of the cable between "switch0" and "host0"`,
		"{file: /dev/zero}":   "s.yaml:3:18: scenario: topology: /dev/zero: it is no regular file",
		"{file: nothing.txt}": "s.yaml:3:18: scenario: topology: open nothing.txt: no such file",
	} {
		_, err := ParseScenario("s.yaml", []byte(topologyHead+"topology: "+text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestTopologyPipe: a pipe that nobody writes to does not hold the command up.
func TestTopologyPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseScenario(filepath.Join(dir, "s.yaml"), []byte(topologyHead+"topology: {file: pipe}\n")); err == nil || !strings.Contains(err.Error(), "s.yaml:3:18: scenario: topology: ") || !strings.Contains(err.Error(), "pipe: it is no regular file") {
		t.Errorf("%v", err)
	}
}

// TestFatTreeOfNoPorts has a mistake in k be one, and not a division by zero behind it.
func TestFatTreeOfNoPorts(t *testing.T) {
	for _, k := range []string{"0", "-2", "50", "x"} {
		text := "format: csig.scenario/v1\ntopology: {fat_tree: {k: " + k + ", rate: 10G, delay: 1us}}\nflows: [{from: 0, to: 1, size: 1k}]\n"
		if _, err := ParseScenario("s.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "s.yaml:2:") {
			t.Errorf("k: %s: %v", k, err)
		}
	}
}
