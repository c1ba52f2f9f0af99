package simulate

import (
	"slices"
	"strings"
	"testing"
)

// TestControlMistakes: each key belongs to its kinds.
func TestControlMistakes(t *testing.T) {
	t.Parallel()
	for control, want := range map[string]string{
		"{kind: reno}":                                  ":17: scenario: control: kind: ",
		"{kind: window}":                                ":11: scenario: control: a constant window needs its size",
		"{kind: cubic, eta: 95}":                        ":24: scenario: control: kind cubic has no eta",
		"{kind: hpcc, telemetry: some}":                 ":23: scenario: control: telemetry on some packets needs one in how many",
		"{kind: hpcc, every: 3}":                        ":23: scenario: control: every is a key of telemetry: some",
		"{kind: swift, delay: queue}":                   ":31: scenario: control: swift has no max(qlen/B)",
		"{kind: swift, unguarded: true}":                ":24: scenario: control: the guard is of a ramp-up, and there is none",
		"{kind: hpcc-csig, delay: ecn}":                 ":35: scenario: control: delay: ",
		"{kind: dctcp}":                                 ":10: scenario: dctcp goes by marks, and no switch sets any",
		"{kind: dctcp-rate}":                            ":10: scenario: dctcp-rate goes by marks",
		"{kind: dcqcn}":                                 ":10: scenario: dcqcn goes by marks",
		"{kind: hpcc, eta: 101}":                        ":28: scenario: control: eta: ",
		"{kind: swift, ramp: 100, hold: 2h}":            ":41: scenario: control: hold: ",
		"{kind: hpcc-rate, increase: fast, least: 50k}": ":38: scenario: control: increase: ",
	} {
		_, err := ParseScenario("s.yaml", []byte(head+"control: "+control+"\nflows: [{from: 0, to: 1, size: 1}]\ncsig: {switches: [{kind: native}]}"))
		if want = "s.yaml:3" + want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", control, err, want)
		}
	}
}

// TestControls: under each control all flows of an incast end; those that are told of the queue keep it shorter than a constant
// window does, and those of each kind differ from all others.
func TestControls(t *testing.T) {
	t.Parallel()
	const flows = "flows: [{from: 0-2, to: 3, size: 1M}, {from: 0, to: 3, size: 200k, at: 30us}]\n"
	constant := run(t, head+"control: {kind: window, window: 1M}\n"+flows)
	var seen []string
	for _, x := range []struct {
		control string
		short   bool
	}{
		{"kind: hpcc, flows: 4", true}, {"kind: hpcc, telemetry: some, every: 5", true}, {"kind: hpcc, telemetry: trip", true}, {"kind: hpcc, telemetry: congested", true},
		{"kind: hpcc, roce: true, eta: 90", true}, {"kind: hpcc-receiver", true}, {"kind: hpcc-rate", true}, {"kind: hpcc-pint", true},
		{"kind: swift", true}, {"kind: swift, target: 20us", true}, {"kind: dctcp", false}, {"kind: dctcp-rate", false}, {"kind: dcqcn", false},
		{"kind: dcqcn, windowed: true", false}, {"kind: timely", false}, {"kind: timely, windowed: true", false}, {"kind: cubic", false},
	} {
		text := head + unmarked + "packets: {telemetry: ifa}\ncontrol: {" + x.control + "}\n" + flows
		r := run(t, text)
		if r.Ended != 4 || r.Control == "" {
			t.Errorf("%s: %d flows ended under %q", x.control, r.Ended, r.Control)
		}
		if x.short && r.Queue > constant.Queue/4 {
			t.Errorf("%s: the longest queue is %d bytes, with a constant window %d", x.control, r.Queue, constant.Queue)
		}
		var result strings.Builder
		if err := r.WriteText(&result); err != nil {
			t.Fatal(err)
		}
		if x.short && slices.Contains(seen, result.String()) {
			t.Errorf("%s comes out as another one does", x.control)
		}
		seen = append(seen, result.String())
	}
}

// unmarked are switches that could mark packets, and have no queue that is long enough.
const unmarked = "switches: {ecn: {min: 1G}}\n"

// TestMarkedCubic: where packets are marked the queue is shorter under CUBIC, and under the hosts' control, which builds upon it.
func TestMarkedCubic(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cubic", "csig"} {
		queue := func(min string) uint64 {
			return run(t, head+"control: {kind: "+kind+"}\ncsig: {switches: [{kind: native}]}\nflows: [{from: 0-2, to: 3, size: 5M}]\nswitches: {ecn: {min: "+min+"}}\n").Queue
		}
		if with, without := queue("50k"), queue("1G"); 4*with > without {
			t.Errorf("%s: the longest queue has %d bytes with marks, and %d without", kind, with, without)
		}
	}
}

// TestControlsAreNamed: forms that are not the same have names of their own.
func TestControlsAreNamed(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for kind := range controlKeys {
		for _, more := range []Control{{}, {Delay: "rtt"}, {Delay: "pd"}, {Delay: "queue"}, {Windowed: true}, {Ramp: 100}, {Ramp: 100, Unguarded: true}, {Jump: true}} {
			more.Kind = kind
			name := more.String()
			if other, ok := seen[name]; name == "" || ok && other != kind {
				t.Errorf("%s and %s are %q", kind, other, name)
			}
			seen[name] = kind
		}
	}
	if name := (&Control{Kind: "hpcc-csig", Delay: "rtt"}).String(); !strings.Contains(name, "no CSIG signal") {
		t.Errorf("u1 of the round trip is %q", name)
	}
}

// TestControlKeys: what a key says is what the control does, or the ports of switches.
func TestControlKeys(t *testing.T) {
	t.Parallel()
	const flows = "flows: [{from: 0, to: 3, size: 5M}]\n"
	took := func(control string) float64 {
		return run(t, head+unmarked+"control: {"+control+"}\n"+flows).Flows[0].TookNS
	}
	for _, kind := range []string{"kind: hpcc", "kind: hpcc-rate", "kind: hpcc-pint"} { // of hpcc-receiver a flow alone has the rest as W_ai
		if by := took(kind+", eta: 48") / took(kind+", eta: 96"); by < 1.9 || by > 2.1 {
			t.Errorf("%s: half the utilisation takes %.2f times as long", kind, by)
		}
	}
	if by := took("kind: dctcp, initial: 1k") / took("kind: dctcp, initial: 100k"); by < 1.02 {
		t.Errorf("a small window to begin with takes %.2f times as long", by)
	}
	m := simulation(t, head+"control: {kind: hpcc-pint, rtt: 4160ns}\n"+flows)
	if m.network.pintT != 4160_000 {
		t.Errorf("ports average over %d ps", m.network.pintT)
	}
}
