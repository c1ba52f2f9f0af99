package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
)

// SeedsFormat is that of results of several seeds as JSON.
const SeedsFormat = "csig.simulations/v1"

// Seeds is what came out of a scenario with several seeds. Runs have neither flows nor samples.
type Seeds struct {
	Format  string    `json:"format"`
	Seeds   int       `json:"seeds"`   // that it was to run with
	Whole   int       `json:"whole"`   // of the runs, those that have ended
	Summary []Summary `json:"summary"` // of those; of the others with flows that have ended where there are none
	Runs    []*Result `json:"runs"`    // that have begun
}

// Summary is one number of runs.
type Summary struct {
	Name  string  `json:"name"`
	Mean  float64 `json:"mean"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// WithSeed is the same scenario with another seed.
func (s *Scenario) WithSeed(seed int) (*Scenario, error) {
	other := *s
	other.Seed = seed
	var err error
	other.routes, err = newRoutes(s.Topology.graph, uint64(seed))
	return &other, err
}

// RunSeeds runs a scenario with so many seeds, from its own on, as many at once as there are processors. Results are in the
// order of the seeds, and the same on any number of processors. The first one that fails ends it.
func RunSeeds(ctx context.Context, s *Scenario, seeds int, progress func(ended, all int)) (*Seeds, error) {
	results, errs := make([]*Result, seeds), make([]error, seeds)
	next := make(chan int)
	var lock sync.Mutex
	ended, seen := make([]int, seeds), make([]bool, seeds)
	sum, flows, begun := 0, 0, 0
	var failed atomic.Bool // of the seeds before a failed one all have begun: the first error is the same each time
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), seeds) {
		wait.Go(func() {
			for i := range next {
				if ctx.Err() != nil || failed.Load() {
					continue
				}
				results[i], errs[i] = runSeed(ctx, s, s.Seed+i, func(done, all int) {
					lock.Lock()
					defer lock.Unlock()
					if !seen[i] {
						seen[i] = true
						begun, flows = begun+1, flows+all
					}
					sum += done - ended[i]
					ended[i] = done
					progress(sum, flows*seeds/begun) // about: those that have not begun have as many on average
				})
				if errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	for i := range seeds {
		next <- i
	}
	close(next)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return summarize(results), nil
}

func runSeed(ctx context.Context, s *Scenario, seed int, progress func(ended, all int)) (*Result, error) {
	one, err := s.WithSeed(seed)
	if err != nil {
		return nil, err
	}
	m, err := New(one)
	if err != nil {
		return nil, err
	}
	r, err := m.Run(ctx, progress)
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	r.Flows, r.Samples = []FlowResult{}, []Sample{}
	return r, nil
}

func summarize(results []*Result) *Seeds {
	out := &Seeds{Format: SeedsFormat, Seeds: len(results), Summary: []Summary{}, Runs: []*Result{}}
	var whole []*Result
	for _, r := range results {
		if r != nil {
			out.Runs = append(out.Runs, r)
			if !r.Partial {
				whole = append(whole, r)
			}
		}
	}
	if out.Whole = len(whole); whole == nil {
		for _, r := range out.Runs {
			if r.Measured.Flows > 0 {
				whole = append(whole, r)
			}
		}
	}
	if len(whole) == 0 {
		return out
	}
	for i := range numbers {
		one := &numbers[i]
		var all []float64
		sum := 0.0
		for _, r := range whole {
			all = append(all, one.of(r))
			sum += one.of(r)
		}
		if !one.packets || whole[0].Mode != "flow" {
			out.Summary = append(out.Summary, Summary{one.name, sum / float64(len(all)), slices.Min(all), slices.Max(all)})
		}
	}
	return out
}

// numbers are those of a summary.
var numbers = []struct {
	name, text string
	show       func(v float64) string
	packets    bool // there is none flow by flow
	of         func(r *Result) float64
}{
	{"slowdown_p50", "slowdown p50", digits, false, func(r *Result) float64 { return r.Slowdown.P50 }},
	{"slowdown_p95", "slowdown p95", digits, false, func(r *Result) float64 { return r.Slowdown.P95 }},
	{"slowdown_p99", "slowdown p99", digits, false, func(r *Result) float64 { return r.Slowdown.P99 }},
	{"slowdown_p100", "slowdown p100", digits, false, func(r *Result) float64 { return r.Slowdown.P100 }},
	{"time_ns", "time", span, false, func(r *Result) float64 { return r.TimeNS }},
	{"queue_p99_bytes", "queue p99, bytes", digits, true, func(r *Result) float64 { return float64(r.QueueP99) }},
	{"longest_queue_bytes", "longest queue, bytes", digits, true, func(r *Result) float64 { return float64(r.Queue) }},
	{"drops", "packets dropped", digits, true, func(r *Result) float64 { return float64(r.Drops) }},
	{"host_links", "links to hosts, used", percent, false, func(r *Result) float64 { return r.Hosts.Mean }},
	{"core_links", "links between switches, used", percent, false, func(r *Result) float64 { return r.Core.Mean }},
	{"jain", "Jain's index", digits, false, func(r *Result) float64 { return r.Jain }},
	{"unclaimed", "unclaimed", percent, false, func(r *Result) float64 { return r.Unclaimed }},
}

func digits(v float64) string  { return fmt.Sprintf("%.6g", v) }
func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// WriteText writes the summary as a table.
func (s *Seeds) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.Summary) > 0 {
		fmt.Fprintln(t, "\tMEAN\tLEAST\tMOST")
	}
	for i := range s.Summary {
		one := &s.Summary[i]
		for j := range numbers {
			if n := &numbers[j]; n.name == one.Name {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", n.text, n.show(one.Mean), n.show(one.Least), n.show(one.Most))
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%d seeds.", s.Seeds)
	if s.Whole < s.Seeds {
		text = fmt.Sprintf("\nPartial: of %d seeds %d were run to their end, and %d were ended before all flows had.", s.Seeds, s.Whole, len(s.Runs)-s.Whole)
		if s.Whole == 0 && len(s.Summary) > 0 {
			text += " The numbers are of what had ended of those."
		}
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// CheckControl runs a scenario again with a window without end in place of its control's, which has to make a difference: a
// sentence says which. Packets carry the same, as what they carry alone is no difference that a control makes.
func CheckControl(ctx context.Context, s *Scenario, with *Result) (string, error) {
	if s.Control.Kind == "window" {
		return "", errors.New("the control is a constant window: there is nothing to compare it with")
	}
	other := *s
	other.endless = true
	m, err := New(&other)
	if err != nil {
		return "", err
	}
	without, err := m.Run(ctx, func(int, int) {})
	switch {
	case err != nil:
		return "", fmt.Errorf("with a window without end: %w", err)
	case ctx.Err() != nil:
		return "", fmt.Errorf("with a window without end: %w", context.Cause(ctx))
	case slices.Equal(with.Flows, without.Flows) && with.Queue == without.Queue:
		return "", fmt.Errorf("%s makes no difference: with a window without end all flows take the same time, and queues are as long; the scenario is not one for congestion control", s.Control.Kind)
	}
	packets := ""
	if s.Mode != "flow" {
		packets = fmt.Sprintf(", the longest queue %d bytes (%d), %d packets dropped (%d)", without.Queue, with.Queue, without.Drops, with.Drops)
	}
	return fmt.Sprintf("With a window without end: slowdown p50 %.3f (%.3f with %s), p99 %.3f (%.3f)%s.", without.Slowdown.P50, with.Slowdown.P50, s.Control.Kind, without.Slowdown.P99, with.Slowdown.P99, packets), nil
}
