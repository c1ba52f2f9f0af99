package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestStatistics: percentiles, and those of a histogram, are those of the values.
func TestStatistics(t *testing.T) {
	t.Parallel()
	if got := percentiles([]float64{5, 1, 4, 2, 3}); got != (Slowdown{3, 5, 5, 5}) {
		t.Errorf("%+v", got)
	}
	if got := percentiles(nil); got != (Slowdown{}) {
		t.Errorf("%+v", got)
	}
	_, classes := slowdowns([]sized{{1000, 2}, {1001, 3}, {50_000_000, 7}, {900, 1}})
	if len(classes) != 3 || classes[0] != (SizeResult{1000, 2, Slowdown{1, 2, 2, 2}}) || classes[2] != (SizeResult{0, 1, Slowdown{7, 7, 7, 7}}) {
		t.Errorf("%+v", classes)
	}
	r := rand.New(rand.NewPCG(1, 3))
	var h histogram
	var all []float64
	for range 20_000 {
		v := uint64(math.Exp(r.Float64() * 16))
		h.add(v)
		all = append(all, float64(v))
	}
	slices.Sort(all)
	for _, part := range []float64{0.001, 0.1, 0.5, 0.99, 1} {
		got, want := float64(h.percentile(part)), rank(all, part)
		if got < want || got > want*1.0625+1 {
			t.Errorf("p%v is %v, by the histogram %v", part*100, want, got)
		}
	}
}

const dumbbell = "format: csig.scenario/v1\ntopology: {dumbbell: {hosts: 2, rate: 100G, uplink: 50G, delay: 1us}}\n"

// TestShares: two flows that share a link equally, the second one later: what is used, what is left, and the index of their shares.
func TestShares(t *testing.T) {
	t.Parallel()
	r := run(t, dumbbell+"control: {kind: hpcc, flows: 2}\npackets: {telemetry: ifa}\nflows: [{from: 0, to: 2, size: 25M}, {from: 1, to: 3, size: 25M, at: 2ms}]\n")
	if r.Converged <= 0 || r.Converged > 2e6 {
		t.Errorf("shares are equal after %v ns", r.Converged)
	}
	if r.Jain < 0.9 || r.Unclaimed < 0.01 || r.Unclaimed > 0.09 || math.Abs(r.Core.Most-0.95) > 0.04 {
		t.Errorf("Jain's index %v, unclaimed %v, core links %+v", r.Jain, r.Unclaimed, r.Core)
	}
	if math.Abs(r.Hosts.Most-r.Core.Most*50/100/2) > 0.01 { // two hosts get half of the uplink each
		t.Errorf("host links %+v, core links %+v", r.Hosts, r.Core)
	}
	// A window that is too small for the path leaves what it leaves.
	r = run(t, dumbbell+"control: {kind: window, window: 10k}\nflows: [{from: 0, to: 2, size: 10M}]\n")
	rtt := r.TimeNS / 1000 // of 10 packets
	if want := 1 - 10*1048*8/(rtt*50); math.Abs(r.Unclaimed-want) > 0.02 {
		t.Errorf("unclaimed %v, want %v", r.Unclaimed, want)
	}
}

// TestQueuesOfSwitches: what waits at a host is no queue of a switch.
func TestQueuesOfSwitches(t *testing.T) {
	t.Parallel()
	r := run(t, head+"packets: {payload: 60, header: 40, ack: 1000}\ncontrol: {kind: window, window: 6k}\nflows: [{from: 0, to: 1, size: 6k}]\n")
	if r.Queue == 0 || r.Queue > 1000 {
		t.Errorf("ACKs of 1000 bytes of packets of 100: the longest queue has %d bytes", r.Queue)
	}
}

// TestMeasured: flows of the warm-up and the cool-down do not count, nor does what links carried then.
func TestMeasured(t *testing.T) {
	t.Parallel()
	const text = rack + "{kind: poisson, size: 100k, load: 40, for: 900us}\nmeasure: "
	all, some := run(t, text+"{}\n"), run(t, text+"{from: 300us, to: 600us}\n")
	if all.Measured.Flows != len(all.Flows) || some.Measured.FromNS != 300e3 || some.Measured.ToNS != 600e3 || some.Measured.Flows < len(all.Flows)/4 || some.Measured.Flows > len(all.Flows)*2/5 {
		t.Errorf("%+v, %+v of %d", all.Measured, some.Measured, len(all.Flows))
	}
	if want := 0.4 * 1.048; math.Abs(some.Hosts.Mean/want-1) > 0.2 {
		t.Errorf("links to hosts: %v while it is measured", some.Hosts.Mean)
	}
	if late := run(t, text+"{from: 910us}\n"); late.Measured.Flows != 0 || late.Hosts.Mean > 0.15 || late.QueueP99 > all.QueueP99 {
		t.Errorf("after the flows: %+v, links to hosts %v", late.Measured, late.Hosts)
	}
	if _, err := simulation(t, text+"{from: 5ms}\n").Run(t.Context(), func(int, int) {}); err == nil || !strings.HasPrefix(err.Error(), "s.yaml:5:10: scenario: nothing is measured: all flows have ended by ") {
		t.Errorf("%v", err)
	}
	if some.Workloads[0].Name != "poisson 1" || some.Workloads[0].Ended != 1 {
		t.Errorf("%+v", some.Workloads)
	}
}

// TestSamplesAreBounded: a long run has no more samples than a short one may have.
func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	r := run(t, head+"control: {kind: window, window: 2k}\nflows: [{from: 0, to: 1, size: 20k, at: 2s}, {from: 0, to: 2, size: 25M}]\n")
	if len(r.Samples) < maxSamples/2-1 || len(r.Samples) >= maxSamples {
		t.Errorf("%d samples", len(r.Samples))
	}
	last := 0.0
	for _, s := range r.Samples {
		if s.TimeNS <= last {
			t.Fatalf("a sample of %v ns behind one of %v", s.TimeNS, last)
		}
		last = s.TimeNS
	}
}

const chancy = rack + "{kind: poisson, sizes: hadoop, load: 50, for: 300us}\n  - {kind: incast, fan: 8, size: 50k, every: 50us, for: 300us}\ncontrol: {kind: dctcp}\nswitches: {buffer: 300k, ecn: {min: 20k, max: 80k}}\n"

// TestSeeds: several seeds come out the same, byte by byte, on one processor and on two, and each as it does alone.
func TestSeeds(t *testing.T) { // not in parallel: it sets how many processors there are
	text := func(processors int) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		r, err := RunSeeds(t.Context(), scenario(t, chancy), 4, func(int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one, two := text(1), text(2)
	if !bytes.Equal(one, two) {
		t.Error("it comes out differently")
	}
	var all Seeds
	if err := json.Unmarshal(one, &all); err != nil {
		t.Fatal(err)
	}
	alone := run(t, "seed: 3\n"+chancy)
	if len(all.Runs) != 4 || all.Runs[2].Seed != 3 || all.Runs[2].Slowdown != alone.Slowdown || all.Runs[2].Events != alone.Events || all.Runs[1].Events == alone.Events {
		t.Errorf("%+v, alone %+v", all.Runs[2].Slowdown, alone.Slowdown)
	}
	p99 := all.Summary[2]
	sum := 0.0
	for _, r := range all.Runs {
		sum += r.Slowdown.P99 / 4
	}
	if p99.Name != "slowdown_p99" || math.Abs(p99.Mean-sum) > 1e-9 || p99.Least >= p99.Mean || p99.Most <= p99.Mean {
		t.Errorf("%+v", p99)
	}
}

// TestSeedsProgress: in the end as many flows have ended as there are in all runs, whose seeds have more or fewer.
func TestSeedsProgress(t *testing.T) {
	t.Parallel()
	var last [2]int
	r, err := RunSeeds(t.Context(), scenario(t, chancy), 3, func(ended, all int) { last = [2]int{ended, all} })
	if err != nil {
		t.Fatal(err)
	}
	flows := 0
	for _, one := range r.Runs {
		flows += one.FlowsInAll
	}
	if last != [2]int{flows, flows} || flows == 3*r.Runs[0].FlowsInAll {
		t.Errorf("%v of %d", last, flows)
	}
}

// TestSeedsFail: what one seed cannot run is said once, and ends those behind it.
func TestSeedsFail(t *testing.T) {
	t.Parallel()
	s := scenario(t, head+"flows: [{from: 0, to: 1, size: 1k}]\nmeasure: {from: 1ms}\n")
	_, err := RunSeeds(t.Context(), s, 1000, func(int, int) {})
	if err == nil || !strings.HasPrefix(err.Error(), "seed 1: s.yaml:4:10: ") || strings.Contains(err.Error(), "seed 2") {
		t.Errorf("%v", err)
	}
}

// TestPartialSeeds: what there is until it is ended.
func TestPartialSeeds(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	r, err := RunSeeds(ctx, scenario(t, chancy), 3, func(int, int) { end() })
	if err != nil || len(r.Runs) == 0 || len(r.Runs) == 3 && !r.Runs[2].Partial || r.Whole != 0 || r.Seeds != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "Partial: of 3 seeds 0 were run to their end") {
		t.Errorf("%s, %v", text.String(), err)
	}
	// Of a run that was ended the flows count that have ended: without any there are no numbers.
	one := run(t, chancy)
	one.Partial = true
	some := summarize([]*Result{nil, one, {Partial: true}})
	if len(some.Summary) == 0 || some.Summary[0].Mean != one.Slowdown.P50 || len(summarize([]*Result{{Partial: true}}).Summary) != 0 {
		t.Errorf("%+v", some.Summary)
	}
	text.Reset()
	if err := some.WriteText(&text); err != nil || !strings.Contains(text.String(), "2 were ended before all flows had. The numbers are of what had ended of those.") || !strings.Contains(text.String(), "slowdown p50 ") {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// TestCheckControl: a control that makes a difference is told apart from one that makes none.
func TestCheckControl(t *testing.T) {
	t.Parallel()
	check := func(text string) (string, error) {
		return CheckControl(t.Context(), scenario(t, text), run(t, text))
	}
	if text, err := check(head + "flows: [{from: 0-2, to: 3, size: 1M}]\n"); err != nil || !strings.Contains(text, "with hpcc") {
		t.Errorf("%s, %v", text, err)
	}
	for _, more := range []string{
		"packets: {telemetry: ifa}\n", "packets: {telemetry: p4}\ncontrol: {kind: hpcc-receiver}\n", "packets: {telemetry: ns3}\ncontrol: {kind: hpcc, roce: true}\n", "control: {kind: hpcc-pint}\n",
		"control: {kind: hpcc-csig}\ncsig: {switches: [{kind: native}]}\n",
	} {
		if said, err := check(head + "flows: [{from: 0, to: 3, size: 1k}]\n" + more); err == nil || !strings.Contains(err.Error(), " makes no difference") {
			t.Errorf("%s: what packets carry is taken for a difference: %s, %v", more, said, err)
		}
	}
	if _, err := check(head + "flows: [{from: 0, to: 3, size: 1k}]\n"); err == nil || !strings.Contains(err.Error(), "hpcc makes no difference") {
		t.Errorf("%v", err)
	}
	if _, err := check(head + "flows: [{from: 0, to: 3, size: 1k}]\ncontrol: {kind: window, window: 10k}\n"); err == nil {
		t.Error("a constant window is no control")
	}
}

// TestPicture: the picture is well-formed, and has a line for what it shows.
func TestPicture(t *testing.T) {
	t.Parallel()
	var svg strings.Builder
	if err := run(t, chancy).WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(svg.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"Longest queue", "Slowdown", "unclaimed, of paths", "p99"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("it has no %q", want)
		}
	}
	if strings.Contains(svg.String(), "NaN") {
		t.Error("it has what is no number")
	}
	var none strings.Builder
	if err := (&Result{}).WriteSVG(&none); err != nil || strings.Contains(none.String(), "NaN") {
		t.Errorf("%v", err)
	}
}
