package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const head = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 100G, delay: 1us}}\n"

// TestScenarioMistakes: each mistake is named with its place and what to write.
func TestScenarioMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "s.yaml:1:1: the file is empty",
		"format: csig.fleet/v1\n": "s.yaml:1:1: this is no scenario: it names no format",
		head:                      "s.yaml:1:1: scenario: nobody sends anything",
		head + "flows: [{from: 0, to: 4, size: 1}]":                                   "s.yaml:3:23: scenario: flows: there are 4 hosts",
		head + "flows: [{from: 0-2, to: 1, size: 1}]":                                 "s.yaml:3:25: scenario: flows: host 1 sends to itself",
		head + "flows: [{from: 2-0, to: 1, size: 1}]":                                 `s.yaml:3:16: scenario: flows: "2-0" is neither a host nor a range of hosts`,
		head + "flows: [{from: 0, to: 1, size: 0}]":                                   `s.yaml:3:32: scenario: flows: size: 0 bytes are none`,
		head + "flows: [{from: 0, to: 1, size: 1, at: 2h}]":                           "s.yaml:3:39: scenario: flows: at: ",
		head + "control: {kind: window}\nflows: [{from: 0, to: 1, size: 1}]":          "s.yaml:3:11: scenario: control: a constant window needs its size",
		head + "control: {window: 1k}\nflows: [{from: 0, to: 1, size: 1}]":            "s.yaml:3:11: scenario: control: kind hpcc has no window",
		head + "flows: [{from: 0, to: 1, size: 9999999999999G}]":                      `s.yaml:3:32: scenario: flows: size: "9999999999999G" is more than 1000T bytes`,
		head + "flows: [{from: 0, to: 1, size: 1}]\nmeasure: {from: 2ms, to: 1ms}":    "s.yaml:4:26: scenario: measure: flows that begin from 2ms to 1ms are none",
		head + "flows: [{from: 0, to: 1, size: 1}]\npaths: {choice: plb, probe: 1ms}": "s.yaml:4:8: scenario: plb goes by marks",
		strings.Replace(head, "4,", "0,", 1) + "flows: [{from: 0, to: 1, size: 1}]":   "s.yaml:2:26: scenario: topology: star: hosts: 0 is too small: want 2 to 100000",
		"format: csig.scenario/v1\ntopology: {}\nflows: [{from: 0, to: 1, size: 1}]":  "s.yaml:2:11: scenario: topology: it has no network",
	} {
		_, err := ParseScenario("s.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestWhatCannotRunIsRefused: what cannot be simulated is refused before it runs, with the place in the file.
func TestWhatCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	const far = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 1G, delay: 5ms}}\n"
	for text, want := range map[string]string{
		head + "switches: {queue: 1047}\n":                                                                               "s.yaml:3:19: scenario: switches: a packet of 1048 bytes does not fit it",
		head + "switches: {queue: 1048}\npackets: {telemetry: ifa}\n":                                                    "s.yaml:3:19: scenario: switches: a packet of 1080 bytes does not fit it",
		head + "switches: {queue: 1079}\npackets: {telemetry: ifa}\ncontrol: {telemetry: trip}\n":                        "s.yaml:3:19: scenario: switches: a packet of 1080 bytes does not fit it",
		head + "switches: {queue: 1051}\ncontrol: {kind: hpcc-csig}\ncsig: {switches: [{kind: native}]}\n":               "s.yaml:3:19: scenario: switches: a packet of 1052 bytes does not fit it",
		head + "switches: {buffer: 2k, alpha: 50}\n":                                                                     "s.yaml:3:20: scenario: switches: a packet of 1048 bytes does not fit what a queue of switch0 may have, 1000 bytes",
		head + "switches: {pfc: true, buffer: 166k}\n":                                                                   "s.yaml:3:31: scenario: switches: ports of switch0 have 166384 bytes",
		head + "control: {kind: timely, least: 101G}\n":                                                                  "s.yaml:3:32: scenario: control: the least rate of timely is 101G, and cables of hosts carry 100G: no flow would ever slow down",
		strings.Replace(head, "100G", "1G", 1) + "control: {kind: dcqcn, windowed: true}\nswitches: {ecn: {min: 10k}}\n": "s.yaml:3:10: scenario: control: the least rate of dcqcn is 1G, and cables of hosts carry 1G",
		far + "switches: {queue: 1M}\nrecovery: {timeout: 4ms}\n":                                                        "s.yaml:4:21: scenario: recovery: a round trip takes 20.017792ms without queues",
	} {
		s, err := ParseScenario("s.yaml", []byte(text+"\nflows: [{from: 0, to: 1, size: 100k}]\n"))
		if err == nil {
			_, err = New(s)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{
		head + "switches: {queue: 1050}\npackets: {telemetry: ifa}\ncontrol: {kind: hpcc-pint}\n", head + "switches: {queue: 1048}\n", head + "switches: {buffer: 2096, alpha: 50}\n", head + "switches: {pfc: true, buffer: 167k}\n", // as little as it takes
		far + "switches: {queue: 1M}\nrecovery: {timeout: 21ms}\n",
	} {
		if r := run(t, text+"flows: [{from: 0, to: 1, size: 100k}]\n"); r.Ended != 1 {
			t.Errorf("%q: %d flows ended", text, r.Ended)
		}
	}
}

// TestDefaultTimeout: the timeout that is not given is longer than a round trip.
func TestDefaultTimeout(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 1G, delay: 5ms}}\ncontrol: {kind: window, window: 1G}\nflows: [{from: 0-1, to: 3, size: 1M}, {from: 2, to: 3, size: 100k, at: 7ms}]\nswitches: {queue: 5M}\n"
	if r := run(t, text); r.Timeouts != 0 || r.Ended != 3 {
		t.Errorf("%d timeouts, %d flows ended", r.Timeouts, r.Ended)
	}
	// One host's cable is slow: behind another one's of the same switch.
	if r := run(t, head[:len(head)-2]+", links: [{between: [host2, switch0], rate: 1M}]}\nswitches: {queue: 100k}\ncontrol: {kind: cubic}\nflows: [{from: 0, to: 1, size: 20k}, {from: 2, to: 3, size: 20k}]\n"); r.Timeouts != 0 {
		t.Errorf("%d timeouts of a host with a slow cable", r.Timeouts)
	}
	// One that is given, and is too short for the queue, is said.
	r := run(t, text+"recovery: {timeout: 21ms}\n")
	var out strings.Builder
	if err := r.WriteText(&out); err != nil || r.Timeouts == 0 || !strings.Contains(out.String(), "No packet was dropped: the timeouts are shorter than") {
		t.Errorf("%d timeouts: %s, %v", r.Timeouts, out.String(), err)
	}
}

// TestMemoryIsBounded: packets that take more than is allowed end the run; what packets could have whatever happens is refused before.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const text = head + "control: {kind: window, window: 1G}\nflows: [{from: 0-2, to: 3, size: 100M}]\n"
	s := scenario(t, text)
	if err := s.Bound(1000, 1); err == nil || !strings.HasPrefix(err.Error(), "s.yaml:1:1: scenario: the simulation takes about ") {
		t.Errorf("%v", err)
	}
	if need := s.Memory(); s.Bound(2*need, 2) != nil || s.Bound(2*need, 3) == nil {
		t.Errorf("three that take %d bytes are bounded as two", need)
	}
	if err := s.Bound(10e6, 1); err != nil {
		t.Fatal(err)
	}
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Run(t.Context(), func(int, int) {})
	if err == nil || !strings.Contains(err.Error(), " packets are on their way after ") || len(m.network.packets) > 2*10e6/packetMemory {
		t.Errorf("%d packets, %v", len(m.network.packets), err)
	}
	// What selective recovery remembers of a flow grows with its size.
	s = scenario(t, head+"recovery: {kind: selective}\nswitches: {queue: 10k}\nflows: [{from: 0, to: 3, size: 1000T}]\n")
	if err := s.Bound(4e9, 1); err == nil {
		t.Error("a flow of 10^12 packets takes no memory")
	}
}

// TestWorkloadsOfNothing: what has not ended has no time, nor has what has no flows.
func TestWorkloadsOfNothing(t *testing.T) {
	t.Parallel()
	m := simulation(t, head+"flows: [{from: 0, to: 1, size: 100M}]\nworkloads: [{kind: poisson, size: 100M, load: 1, for: 1us}]\n")
	ctx, end := context.WithCancel(t.Context())
	r, err := m.Run(ctx, func(int, int) { end() })
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.WriteText(&out); err != nil || !strings.Contains(out.String(), "flows 1    1      0      not ended  -    -\n") || !strings.Contains(out.String(), "poisson 1  0      0      no flows   -    -\n") {
		t.Errorf("%s, %v", out.String(), err)
	}
	if ns, events := m.Now(); ns <= 0 || events == 0 || events > 10_000 {
		t.Errorf("the first progress is after %v ns and %d events", ns, events)
	}
}

func simulation(t *testing.T, text string) *Simulation {
	t.Helper()
	s, err := ParseScenario("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t *testing.T, text string) *Result {
	t.Helper()
	r, err := simulation(t, text).Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAlone: the slowdown of a flow that has the network for itself, and all of it, is 1, and under HPCC++ it is what eta leaves.
func TestAlone(t *testing.T) {
	t.Parallel()
	const flows = "flows: [{from: 0, to: 1, size: 2M}]\n"
	slow := strings.Replace(head, "100G", "64k", 1) + "control: {kind: window, window: 1G}\n" + strings.Replace(flows, "2M", "20k", 1)
	if r := run(t, slow); r.Flows[0].Slowdown < 0.9999 || r.Flows[0].Slowdown > 1.0001 {
		t.Errorf("at 64 kbit/s the slowdown is %v", r.Flows[0].Slowdown)
	}
	if r := run(t, head+"control: {kind: window, window: 1G}\n"+flows); r.Flows[0].Slowdown < 0.9999 || r.Flows[0].Slowdown > 1.0001 {
		t.Errorf("with an endless window the slowdown is %v", r.Flows[0].Slowdown)
	}
	if r := run(t, head+"packets: {telemetry: ifa}\ncontrol: {kind: window, window: 1G}\n"+flows); r.Flows[0].Slowdown < 0.9999 || r.Flows[0].Slowdown > 1.0001 {
		t.Errorf("with telemetry that no packet has the slowdown is %v", r.Flows[0].Slowdown)
	}
	if r := run(t, head+"packets: {telemetry: ifa}\n"+flows); r.Flows[0].Slowdown < 1 || r.Flows[0].Slowdown > 1.1 || r.Queue > 3*1080 {
		t.Errorf("under HPCC++ the slowdown is %v, and the longest queue has %d bytes", r.Flows[0].Slowdown, r.Queue)
	}
	for _, control := range []string{"kind: hpcc", "kind: hpcc, roce: true", "kind: hpcc, telemetry: congested", "kind: hpcc-receiver", "kind: hpcc-rate", "kind: hpcc-pint", "kind: hpcc, telemetry: some, every: 10"} {
		for _, telemetry := range []string{"ifa", "ns3"} {
			one := head + "packets: {telemetry: " + telemetry + "}\ncontrol: {" + control + "}\n" + strings.Replace(flows, "2M", "1k", 1)
			if r := run(t, one); r.Flows[0].Slowdown != 1 {
				t.Errorf("%s, %s: the slowdown of one packet is %v", control, telemetry, r.Flows[0].Slowdown)
			}
		}
	}
	if r := run(t, head+"packets: {telemetry: ifa}\ncontrol: {kind: hpcc, telemetry: trip, eta: 100}\n"+flows); r.Flows[0].Slowdown < 1 || r.Flows[0].Slowdown > 1.01 {
		t.Errorf("with telemetry once in a round trip the slowdown is %v", r.Flows[0].Slowdown)
	}
}

// TestExample: the control matters, and the same scenario comes out the same.
func TestExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../examples/scenarios/incast.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, again := run(t, string(text)), run(t, string(text))
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(again)
	if !bytes.Equal(a, b) {
		t.Error("it came out differently")
	}
	other := run(t, strings.Replace(string(text), "kind: hpcc, flows: 15", "kind: window, window: 2M", 1))
	if first.Ended != 15 || other.Ended != 15 || other.Queue < 10*first.Queue {
		t.Errorf("the longest queue has %d bytes under HPCC++, and %d with windows that do not end", first.Queue, other.Queue)
	}
}

// TestPartial: what was simulated until it is ended is there.
func TestPartial(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	r, err := simulation(t, head+"flows: [{from: 0, to: 1, size: 1k}, {from: 0, to: 1, size: 100M}]\n").Run(ctx, func(ended, _ int) {
		if ended == 1 {
			end()
		}
	})
	if err != nil || !r.Partial || r.Ended != 1 || r.Flows[0].TookNS == 0 || r.Flows[1].TookNS != 0 || r.Flows[1].Moved == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "Partial: ") || !strings.Contains(text.String(), "not ended") {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// TestSlowLinks: times that do not fit the simulation end it with a reason.
func TestSlowLinks(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 1bit/s, delay: 1s}}\nflows: [{from: 0, to: 3, size: 1G}]\npackets: {payload: 65535}\ncontrol: {kind: window, window: 1G}\nmode: "
	for _, mode := range []string{"packet\n", "flow\n"} {
		_, err := simulation(t, text+mode).Run(t.Context(), func(int, int) {})
		if err == nil || !strings.Contains(err.Error(), "host 0 to 3") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestExamples: each example is a scenario that can run.
func TestExamples(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("../examples/scenarios/*.yaml")
	if err != nil || len(all) < 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := simulation(t, string(text)).network.Run(us); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzScenario: no text has the reader or the simulation panic.
func FuzzScenario(f *testing.F) {
	f.Add("format: csig.scenario/v1\n" + tenScenarios[1])
	f.Add("format: csig.scenario/v1\n" + tenScenarios[7] + "csig: {switches: [{kind: software, names: leaf*, dies: 1ms}]}\n")
	f.Add(fourSpines + "workloads: [{kind: ring, size: 1M, hosts: 0-3, every: 1ms, for: 3ms}]\npaths: {choice: plb}\nswitches: {ecn: {min: 1k}}\nmode: flow\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") { // it would read files of this machine
			return
		}
		s, err := ParseScenario("s.yaml", []byte(text))
		if err != nil || s.Bound(50e6, 1) != nil {
			return
		}
		m, err := New(s)
		if err != nil {
			return
		}
		ctx, end := context.WithCancel(t.Context())
		looks := 0
		if _, err := m.Run(ctx, func(int, int) {
			if looks++; looks > 3 {
				end()
			}
		}); err != nil && !strings.Contains(err.Error(), "nothing") && !strings.Contains(err.Error(), "--memory") {
			t.Error(err)
		}
		end()
	})
}
