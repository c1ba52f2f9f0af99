package qualify_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

// realLab is a bench at the switch in memory, with real cards at both.
func realLab(t testing.TB, faults memory.Faults, ports int) (*qualify.Bench, *qualifytest.Lab) {
	t.Helper()
	lab := qualifytest.NewLab(t, memory.Config{TPID: 0x9900, Octets: 1<<32 - 100_000, Faults: faults}, ports)
	return benchAt(t, lab.Switch, qualifytest.Cards(t, lab.Bench, "c", []string{"p1", "p2", "p3"}[:ports]...)), lab
}

// runReal is run where frames take their time on a busy machine, once the ports are explored: until
// then patience is for what does not come. What the machine was too busy for, as its result says, is
// asked again, as an operator would: a test that wants the answer fails when it does not come.
func runReal(t testing.TB, b *qualify.Bench, o qualify.Options) *qualify.Report {
	t.Helper()
	o.Progress = func(_, _ int, r *qualify.Result) {
		if r.ID != "" {
			b.Patience = 30 * time.Second
		}
	}
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "out")
	}
	r := run(t, b, o)
	for range 5 {
		o.Resume, o.Only = true, nil
		for i := range r.Results {
			if res := &r.Results[i]; res.Outcome == qualify.NotTested && tooBusy.MatchString(res.Found) {
				t.Logf("once more: %s: %s", res.ID, res.Found)
				o.Only = append(o.Only, res.ID)
			}
		}
		if len(o.Only) == 0 {
			break
		}
		r = run(t, b, o)
	}
	return r
}

// tooBusy is in results that blame the load of the machine.
var tooBusy = regexp.MustCompile("a quieter machine is needed|the load of both machines")

// benchOf is a bench at a bed's switch, with the kernel's driver.
func benchOf(t testing.TB, bed *qualifytest.Bed) *qualify.Bench {
	t.Helper()
	d, err := linux.Open(linux.Config{NetNS: bed.Switch.FD()})
	if err != nil {
		t.Fatal(err)
	}
	f := fleet(t)
	b := &qualify.Bench{Ports: bed.Cards(t), Device: f.Devices[0], Profile: &f.Profile, Policy: f.Policy, Driver: d}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if b.Driver == nil { // the test has taken it away
			b.Driver = d
		}
		if err := b.Driver.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestKernelBridge: a bridge of the kernel does nothing wrong with tags, as far as some experiments go that send few
// frames.
func TestKernelBridge(t *testing.T) {
	kernelBridge(t, "tpid", "positions", "learning", "mtu", "latency")
}

func TestLongKernelBridge(t *testing.T) { kernelBridge(t) }

func kernelBridge(t *testing.T, ids ...string) {
	experiments := qualify.Forwarding()
	if len(ids) > 0 {
		experiments = only(ids...)
	}
	b := benchOf(t, qualifytest.NewBed(t, 2))
	r := runReal(t, b, qualify.Options{Experiments: experiments, About: qualify.About{Platform: "linux", Model: "X-1"}})
	healthy(t, r)
	f, err := r.Facts(experiments)
	if err != nil || f.LatencyAdded == nil || *f.LatencyAdded > time.Second/10 {
		t.Errorf("latency_added is not measured: %+v, %v", f, err)
	}
}

// healthy wants that no fault was found, and prints the report otherwise.
func healthy(t testing.TB, r *qualify.Report) {
	t.Helper()
	if n := r.Count(qualify.Fail); n != 0 || len(r.Results) == 0 {
		t.Errorf("%d of %d experiments found a fault in a healthy switch:\n%s", n, len(r.Results), text(t, r))
	}
}

// TestLongRealCards: with real cards each experiment ends at a healthy switch as it does in memory,
// unless it says itself that the machine is too busy for it.
func TestLongRealCards(t *testing.T) {
	o := qualify.Options{Experiments: qualify.All(), Destructive: true}
	outcomes := func(t *testing.T, r *qualify.Report) map[string]string {
		out := map[string]string{}
		for _, res := range r.Results {
			t.Logf("%s: %s (%.2f s) %s", res.ID, res.Outcome, res.Took.Seconds(), res.Found)
			if out[res.ID] = string(res.Outcome); strings.HasSuffix(res.Found, "a quieter machine is needed") {
				out[res.ID] = ""
			}
		}
		return out
	}
	var virtual map[string]string
	synctest.Test(t, func(t *testing.T) { virtual = outcomes(t, run(t, labBench(t, memory.Faults{}, 3), o)) })
	b, _ := realLab(t, memory.Faults{}, 3)
	real := outcomes(t, runReal(t, b, o))
	for id, want := range virtual {
		if got, ran := real[id]; !ran || got != want && got != "" {
			t.Errorf("%s: with real cards %q, in memory %q", id, got, want)
		}
	}
}
