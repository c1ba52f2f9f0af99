package validation

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/csig-agent/csig/simulate"
)

// oracle is figures that others have found, and what the simulator makes of the same.
type oracle struct {
	source string // where they are from
	name   string // what was measured, in which form
	unit   string
	want   []float64
	within float64 // the part by which a figure may differ
	most   bool    // want is a bound: no figure is above it
	least  bool    // or below it
	// gap is of figures that are known not to come within it: DEVIATIONS.md has it. The test fails once they do.
	gap     string
	measure func(t *testing.T) []float64
}

// away is the part by which the worst figure differs from what is wanted; 0 or less where a bound holds.
func (o *oracle) away(got []float64) (worst float64) {
	worst = math.Inf(-1)
	for i, want := range o.want {
		off := got[i]/want - 1
		switch {
		case o.least:
			off = -off
		case !o.most:
			off = math.Abs(off)
		}
		worst = max(worst, off)
	}
	return worst
}

// check runs oracles side by side and prints the table of them.
func check(t *testing.T, oracles []oracle) {
	got := make([][]float64, len(oracles))
	t.Run("all", func(t *testing.T) {
		for i := range oracles {
			o := &oracles[i]
			t.Run(strings.ReplaceAll(o.source+": "+o.name, "/", "∕"), func(t *testing.T) {
				t.Parallel()
				got[i] = o.measure(t)
				if len(got[i]) != len(o.want) {
					t.Fatalf("%d figures of %d", len(got[i]), len(o.want))
				}
				within, off := o.within, o.away(got[i])
				switch {
				case o.gap == "" && off > within:
					t.Errorf("%s are wanted within %.3g %%, and are %s", figures(o.want, o.unit), 100*within, figures(got[i], o.unit))
				case o.gap != "" && off <= within:
					t.Errorf("the gap is closed: %s are within %.3g %% of %s. Take it out of here and of DEVIATIONS.md: %s", figures(got[i], o.unit), 100*within, figures(o.want, o.unit), o.gap)
				}
			})
		}
	})
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSOURCE\tWHAT\tWANTED\tWITHIN\tGOT\tOFF")
	for i := range oracles {
		o := &oracles[i]
		if got[i] == nil {
			continue
		}
		bound, off := fmt.Sprintf("%.3g %%", 100*o.within), fmt.Sprintf("%.2f %%", 100*o.away(got[i]))
		if o.most {
			bound = "or less"
		} else if o.least {
			bound = "or more"
		}
		if o.most || o.least {
			off = ""
		}
		if o.gap != "" {
			off += " gap: " + o.gap
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.source, o.name, figures(o.want, o.unit), bound, figures(got[i], o.unit), off)
	}
	w.Flush()
	t.Log(text.String())
}

func figures(all []float64, unit string) string {
	var text []string
	for _, v := range all {
		text = append(text, fmt.Sprintf("%.6g", v))
	}
	return strings.TrimSpace(strings.Join(text, ", ") + " " + unit)
}

// run is the result of a scenario.
func run(t *testing.T, scenario string) *simulate.Result {
	t.Helper()
	s, err := simulate.ParseScenario("scenario.yaml", []byte("format: csig.scenario/v1\n"+scenario))
	if err != nil {
		t.Fatal(err)
	}
	m, err := simulate.New(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context(), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// took are the times of the first flow that has ended and of the last one, in ms.
func took(r *simulate.Result) (first, last float64) {
	first = math.Inf(1)
	for i := range r.Flows {
		first, last = min(first, r.Flows[i].TookNS/1e6), max(last, r.Flows[i].TookNS/1e6)
	}
	return first, last
}

// quick are the oracles that take seconds.
var quick = slices.Concat(closedForms, drafts, ns3Star, onCSIG, htsim, twin)

var results = flag.Bool("results", false, "the whole of the HPCC authors' results page, and nothing else: it takes hours")

func TestLongOracles(t *testing.T) {
	if *results {
		check(t, full)
		return
	}
	check(t, quick)
}

// TestOraclesAreDocumented: each gap is in DEVIATIONS.md, by its name.
func TestOraclesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, o := range slices.Concat(quick, full) {
		if o.gap != "" && !strings.Contains(deviations, "## "+o.gap+"\n") {
			t.Errorf("DEVIATIONS.md has no chapter %q", o.gap)
		}
	}
}
