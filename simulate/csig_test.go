package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/quantize"
)

const ms = cc.Second / 1000

// asks sends at a rate, asks for a signal and keeps what it gets.
type asks struct {
	rate float64
	ask  cc.Ask
	got  []cc.Signal
	at   []int64
}

func (a *asks) On(e *cc.Event, o *cc.Output) {
	o.Window, o.Rate, o.Ask = math.MaxUint64, a.rate, a.ask
	if e.Kind == cc.Acked {
		a.got, a.at = append(a.got, e.Signal), append(a.at, e.Now)
	}
}

// signalsOf runs a scenario whose flows send at these rates in bit/s; it has what each got.
func signalsOf(t *testing.T, text string, ask cc.Ask, rates ...float64) []*asks {
	t.Helper()
	m := simulation(t, text)
	all := make([]*asks, len(rates))
	for i := range rates {
		all[i] = &asks{rate: rates[i], ask: ask}
		m.network.flows[i].control = all[i]
	}
	if err := m.network.Run(math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return all
}

const twoFlows = "format: csig.scenario/v1\ntopology: {leaf_spine: {leaves: 2, spines: 1, hosts: 2, rate: 100G, delay: 1us}, links: [{between: [leaf0, spine0], rate: 50G}]}\n" +
	"flows: [{from: 0, to: 2, size: 25M}, {from: 1, to: 3, size: 5M}]\n"

// TestNativeSignal: the signal is what the slowest link leaves over its last window, and names that link.
func TestNativeSignal(t *testing.T) {
	t.Parallel()
	a := signalsOf(t, twoFlows+"csig: {tag: wide, switches: [{kind: native, interval: 100us}]}\n", cc.AskSignal(quantize.MinABW), 20e9, 4e9)
	for _, i := range []int{len(a[1].got) / 2, len(a[1].got) - 1} {
		s := a[1].got[i]
		// 20 and 4 Gbit/s of packets at the link of 50 Gbit/s from leaf0 to spine0.
		if !s.Valid || math.Abs(float64(s.Low)-26e9) > 0.5e9 || s.High != s.Low+1e6 || s.Age < 1 || s.Age > 101*us {
			t.Errorf("signal %d: %+v", i, s)
		}
		if s.Locator != wideLocators+2*4 {
			t.Errorf("it is of link %d", s.Locator)
		}
	}
	b := signalsOf(t, twoFlows+"csig: {switches: [{kind: native, interval: 100us}]}\n", cc.AskSignal(quantize.MinABWC), 20e9, 4e9)
	if s := b[1].got[len(b[1].got)-1]; s.Low > 520_000 || s.High < 520_000 { // 26 of 50 Gbit/s
		t.Errorf("ABW/C: %+v", s)
	}
	table, _ := quantize.Preset(quantize.MinABWC, "log")
	c := signalsOf(t, twoFlows+"csig: {buckets: 8, switches: [{kind: native, interval: 100us}]}\n", cc.AskSignal(quantize.MinABWC), 20e9, 4e9)
	low, _ := table.Range(table.Bucket(520_000) / 4 * 4)
	_, high := table.Range(table.Bucket(520_000)/4*4 + 3)
	if s := c[1].got[len(c[1].got)-1]; s.Low != low || s.High != high {
		t.Errorf("ABW/C by 8 buckets: %+v, want %d to %d", s, low, high)
	}
}

// TestLocatorsOfWideTags: each port of a network with wide tags has its own, none of which says that nothing is known.
func TestLocatorsOfWideTags(t *testing.T) {
	t.Parallel()
	m := simulation(t, "format: csig.scenario/v1\ntopology: {leaf_spine: {leaves: 8, spines: 8, hosts: 2, rate: 100G, delay: 1us}}\nflows: [{from: 0, to: 1, size: 1k}]\ncsig: {tag: wide, switches: [{kind: native}]}\n")
	seen := make(map[uint16]bool)
	for i := range m.network.csigPorts {
		switch p := &m.network.csigPorts[i]; {
		case p.kind != native:
		case seen[p.lm] || p.lm == quantize.Draft00.LMNone() || p.lm == quantize.Draft00.LMStale():
			t.Errorf("link %d has the locator %d", i, p.lm)
		default:
			seen[p.lm] = true
		}
	}
	if len(seen) != 8*2+2*8*8 {
		t.Errorf("%d ports", len(seen))
	}
}

// TestDelaySignal: max(PD) is how long a packet was in the switch where it was longest, and max(qlen/B) the queue behind it.
func TestDelaySignal(t *testing.T) {
	t.Parallel()
	for _, ask := range []quantize.Signal{quantize.MaxPD, cc.MaxQueueTime} {
		a := signalsOf(t, strings.Replace(twoFlows, "size: 25M", "size: 2500", 1)+"csig: {tag: wide, switches: [{kind: native}]}\n", cc.AskSignal(ask), 0, 0)
		first, last := a[1].got[0], a[1].got[len(a[1].got)-1]
		// 5 MB come at 100 Gbit/s and leave at 50: at the end half of them wait, for 400 µs.
		want := 400_000.0
		got := float64(last.Low)
		if ask == cc.MaxQueueTime { // it has none behind it then; half of them in the middle
			got, want = float64(a[1].got[len(a[1].got)/2].Low), 400_000
		}
		if first.Low > 1000 || math.Abs(got/want-1) > 0.06 {
			t.Errorf("signal %d: from %+v to %v ns, want %v", ask, first, got, want)
		}
	}
}

// TestSoftwareSignal: what an agent's rules say is as old as counters, interval and update make it, and no younger.
func TestSoftwareSignal(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 100G, delay: 1us}}\nflows: [{from: 0, to: 3, size: 50M, at: 20ms}, {from: 1, to: 3, size: 50M}]\n" +
		"csig: {switches: [{kind: software, interval: 1ms, update: 2ms, reading_age: 3ms%s}]}\n"
	abw, _ := quantize.Preset(quantize.MinABW, "log-100G")
	busy, idle := abw.Bucket(100e9-52e9), abw.Bucket(98e9)
	a := signalsOf(t, fmt.Sprintf(text, ""), cc.AskSignal(quantize.MinABW), 50e9, 2e9)[1]
	seen := false
	for i, s := range a.got {
		now := a.at[i]
		if !s.Valid {
			t.Fatalf("signal %d of %d: %+v", i, len(a.got), s)
		}
		if s.Age > 0 && (s.Age < 5*ms || s.Age > 7*ms+us) && now > 10*ms {
			t.Fatalf("at %d ps a signal of %d ps before", now, s.Age)
		}
		b := abw.Bucket(s.Low)
		switch {
		case now < 25*ms && b < idle:
			t.Fatalf("at %d ps the signal knows of a load that begins at 20 ms: %+v", now, s)
		case b == busy:
			seen = true
		}
	}
	if !seen {
		t.Error("the signal does not show the load")
	}
	// Damping holds the better bucket back after the load has ended.
	better := func(more string) int64 {
		a := signalsOf(t, fmt.Sprintf(text, more), cc.AskSignal(quantize.MinABW), 50e9, 2e9)[1]
		for i, s := range a.got {
			if a.at[i] > 29*ms && abw.Bucket(s.Low) >= idle {
				return a.at[i]
			}
		}
		return 0
	}
	if plain, held := better(""), better(", damping: {hold: 5}"); plain == 0 || held < plain+7*ms {
		t.Errorf("the better bucket is there at %d ps, with damping at %d", plain, held)
	}
}

// TestOperationsTakeTime: rules are in force after as many operations as csig's compiler has for the change, and a port whose bucket
// stays needs none.
func TestOperationsTakeTime(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 100G, delay: 1us}}\nflows: [{from: 0, to: 3, size: 50M, at: 10ms}, {from: 1, to: 3, size: 10M}]\n" +
		"csig: {switches: [{kind: software, interval: 1ms%s}]}\n"
	abw, _ := quantize.Preset(quantize.MinABW, "log-100G")
	shown := func(more string) (at, age int64) {
		a := signalsOf(t, fmt.Sprintf(text, more), cc.AskSignal(quantize.MinABW), 50e9, 2e9)[1]
		for i, s := range a.got {
			if a.at[i] > 5*ms && a.at[i] < 10*ms {
				age = max(age, s.Age)
			}
			if at == 0 && a.at[i] > 10*ms && abw.Bucket(s.Low) <= abw.Bucket(100e9-52e9) {
				at = a.at[i]
			}
		}
		return at, age
	}
	plain, _ := shown("")
	by, quiet := shown(", operation: 1ms, table: range")
	many, _ := shown(", operation: 1ms, table: ternary")
	if plain == 0 || by < plain+ms || many <= by || quiet > 2*ms+us {
		t.Errorf("the load is shown at %d ps, at %d with operations on ranges, at %d on values and masks; while nothing changes signals are %d ps old", plain, by, many, quiet)
	}
}

// TestDeadAgent: with a lease the ports of a dead agent fall back, without one the last rules stay.
func TestDeadAgent(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 100G, delay: 1us}}\nflows: [{from: 0, to: 3, size: 50M}, {from: 1, to: 3, size: 50M, at: 1ms}]\n" +
		"csig: {switches: [{kind: software, interval: 100us, dies: 3ms, stale: %s}]}\n"
	for stale, want := range map[string]string{
		"conservative, lease: 2ms": "true 0 125",
		"strip, lease: 2ms":        "false 0 0",
		"passthrough, lease: 2ms":  "false 0 0",
		"frozen":                   "true 45000000000 8",
	} {
		a := signalsOf(t, fmt.Sprintf(text, stale), cc.AskSignal(quantize.MinABW), 50e9, 2e9)[1]
		before, after := "", ""
		for i, s := range a.got {
			text := fmt.Sprint(s.Valid, s.Low, s.Locator)
			if a.at[i] < 4900*us {
				before = text
			}
			after = text
		}
		if before != "true 45000000000 8" || after != want {
			t.Errorf("%s: %s within the lease, %s after it; want %s", stale, before, after, want)
		}
	}
}

// TestPathOfAllKinds: a strip hop takes signals away, a passthrough hop is not in them, and what S says is never better than the
// worst port that takes part.
func TestPathOfAllKinds(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"{names: spine0, kind: strip}, {kind: native}":                    "false",
		"{names: leaf0, kind: none}, {kind: native, interval: 100us}":     "true 71000000000",
		"{names: leaf*, kind: native, interval: 100us}":                   "true 22400000000",
		"{names: spine0, kind: software, interval: 100us}":                "true 71000000000",
		"{names: leaf0, kind: software, interval: 100us}, {kind: native}": "true 22400000000",
	} {
		a := signalsOf(t, twoFlows+"csig: {switches: ["+entry+"]}\n", cc.AskSignal(quantize.MinABW), 20e9, 4e9)[1]
		s := a.got[len(a.got)/2]
		got := fmt.Sprint(s.Valid)
		if s.Valid {
			got += fmt.Sprint(" ", s.Low)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", entry, got, want)
		}
	}
	a := signalsOf(t, twoFlows+"csig: {share: 0, switches: [{kind: native}]}\n", cc.AskSignal(quantize.MinABW), 20e9, 4e9)[1]
	if a.got[len(a.got)-1].Valid {
		t.Error("flows without tags get signals")
	}
}

// TestPlacebo: senders get signals, of other packets.
func TestPlacebo(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 4, rate: 100G, delay: 1us}}\nflows: [{from: 0, to: 2, size: 10M}, {from: 1, to: 3, size: 1M}]\ncsig: {switches: [{kind: native, interval: 10us}], placebo: "
	spread := func(text string) int {
		seen := make(map[uint64]bool)
		for _, s := range signalsOf(t, text, cc.AskSignal(quantize.MinABW), 80e9, 8e9)[1].got {
			seen[s.Low] = true
		}
		return len(seen)
	}
	if truth, placebo := spread(text+"false}\n"), spread(text+"true}\n"); truth > 1 || placebo < 2 {
		t.Errorf("%d signals, %d with the placebo", truth, placebo)
	}
}

// TestUnreadCounters: an interval that is longer than the simulation is said, and of how many switches.
func TestUnreadCounters(t *testing.T) {
	t.Parallel()
	const spines = "format: csig.scenario/v1\ntopology: {leaf_spine: {leaves: 2, spines: 2, hosts: 2, rate: 100G, delay: 1us}}\n"
	for _, x := range []struct {
		network, kind string
		want          int
	}{
		{head, "native, interval: 1us", 0},
		{head, "native, interval: 1h", 1},
		{head, "software, interval: 1us", 0},
		{head, "software, interval: 1h", 1},
		{head, "software, interval: 1us, update: 1h", 1},
		{spines, "native, interval: 1h", 4},
	} {
		r := run(t, x.network+"flows: [{from: 0-2, to: 3, size: 100k}]\ncontrol: {kind: hpcc-csig}\ncsig: {switches: [{kind: "+x.kind+"}]}\n")
		var out strings.Builder
		if err := r.WriteText(&out); err != nil || r.Unread != x.want || strings.Contains(out.String(), "Switches whose first interval was not over, or ") != (x.want > 0) {
			t.Errorf("%s: %d, %v: %s", x.kind, r.Unread, err, out.String())
		}
	}
}

// TestCSIGMistakes: each mistake is named with its place.
func TestCSIGMistakes(t *testing.T) {
	t.Parallel()
	const begin = head + "flows: [{from: 0, to: 1, size: 1k}]\n"
	for text, want := range map[string]string{
		"csig: {switches: [{kind: native, update: 1ms}]}":                         "s.yaml:4:34: scenario: csig: switches: update is a key of kind software",
		"csig: {switches: [{kind: strip, interval: 1ms}]}":                        "s.yaml:4:33: scenario: csig: switches: a switch of kind strip measures nothing",
		"csig: {switches: [{kind: software, interval: 1us, reading_age: 101us}]}": "s.yaml:4:64: scenario: csig: switches: counters are older than 100 intervals",
		"csig: {switches: [{kind: software, reading_age: 11s}]}":                  "s.yaml:4:49: scenario: csig: switches: counters are older than 100 intervals",
		"csig: {switches: [{kind: software, stale: frozen, lease: 1ms}]}":         "s.yaml:4:51: scenario: csig: switches: rules that stay have none",
		"csig: {switches: [{kind: software, lease: 99ms}]}":                       "s.yaml:4:43: scenario: csig: switches: rules would end before the next reading, 100ms after the one before",
		"csig: {switches: [{kind: native, names: leaf7}]}":                        "s.yaml:4:41: scenario: csig: switches: no switch is called \"leaf7\"",
		"csig: {switches: [{kind: native}, {names: switch*, kind: none}]}":        `s.yaml:4:43: scenario: csig: switches: entries before name all the switches that "switch*" does`,
		"csig: {switches: [{kind: native, names: ''}]}":                           `s.yaml:4:41: scenario: csig: switches: no switch is called ""`,
		"csig: {switches: [{kind: native, names: \"[\"}]}":                        `s.yaml:4:41: scenario: csig: switches: "[" is no pattern of names`,
		"csig: {abw: log-3, switches: [{kind: native}]}":                          "s.yaml:4:13: scenario: csig: ",
		"control: {kind: hpcc-csig}":                                              "s.yaml:4:10: scenario: this control goes by CSIG's signals, and no switch knows tags",
	} {
		_, err := ParseScenario("s.yaml", []byte(begin+text+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestControlsOnCSIG: under each control that goes by signals all flows end, on switches that do it natively and by rules.
func TestControlsOnCSIG(t *testing.T) {
	t.Parallel()
	for _, control := range []string{"kind: hpcc-csig", "kind: hpcc-csig, delay: queue", "kind: hpcc-csig, delay: rtt", "kind: swift, delay: pd", "kind: swift, ramp: 100", "kind: swift, jump: true", "kind: poseidon", "kind: csig"} {
		for _, kind := range []string{"native, interval: 10us", "software, interval: 100us"} {
			r := run(t, head+"flows: [{from: 0-2, to: 3, size: 1M}, {from: 0, to: 3, size: 200k, at: 30us}]\ncontrol: {"+control+"}\ncsig: {switches: [{kind: "+kind+"}]}\n")
			if r.Ended != 4 {
				t.Errorf("%s on %s: %d flows end", control, kind, r.Ended)
			}
		}
	}
}
