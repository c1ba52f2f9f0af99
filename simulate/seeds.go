package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
)

// SeedsFormat is that of results of several seeds as JSON.
const SeedsFormat = "csig.simulations/v1"

// Seeds is what came out of a scenario with several seeds. Runs have neither flows nor samples.
type Seeds struct {
	Format  string    `json:"format"`
	Summary []Summary `json:"summary"`
	Runs    []*Result `json:"runs"`
}

// Summary is one number of all runs that have ended.
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
// order of the seeds, and the same on any number of processors.
func RunSeeds(ctx context.Context, s *Scenario, seeds int, progress func(ended, all int)) (*Seeds, error) {
	results, errs := make([]*Result, seeds), make([]error, seeds)
	next := make(chan int)
	var lock sync.Mutex
	ended := make([]int, seeds)
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), seeds) {
		wait.Go(func() {
			for i := range next {
				results[i], errs[i] = runSeed(ctx, s, s.Seed+i, func(done, all int) {
					lock.Lock()
					defer lock.Unlock()
					ended[i] = done
					sum := 0
					for _, one := range ended {
						sum += one
					}
					progress(sum, all*seeds)
				})
			}
		})
	}
	for i := range seeds {
		next <- i
	}
	close(next)
	wait.Wait()
	return summarize(results), errors.Join(errs...)
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
	out := &Seeds{Format: SeedsFormat, Summary: []Summary{}, Runs: []*Result{}}
	var whole []*Result
	for _, r := range results {
		if r != nil {
			out.Runs = append(out.Runs, r)
			if !r.Partial {
				whole = append(whole, r)
			}
		}
	}
	for _, one := range []struct {
		name string
		of   func(r *Result) float64
	}{
		{"slowdown_p50", func(r *Result) float64 { return r.Slowdown.P50 }},
		{"slowdown_p95", func(r *Result) float64 { return r.Slowdown.P95 }},
		{"slowdown_p99", func(r *Result) float64 { return r.Slowdown.P99 }},
		{"slowdown_p100", func(r *Result) float64 { return r.Slowdown.P100 }},
		{"time_ns", func(r *Result) float64 { return r.TimeNS }},
		{"queue_p99_bytes", func(r *Result) float64 { return float64(r.QueueP99) }},
		{"longest_queue_bytes", func(r *Result) float64 { return float64(r.Queue) }},
		{"drops", func(r *Result) float64 { return float64(r.Drops) }},
		{"host_links", func(r *Result) float64 { return r.Hosts.Mean }},
		{"core_links", func(r *Result) float64 { return r.Core.Mean }},
		{"jain", func(r *Result) float64 { return r.Jain }},
		{"unclaimed", func(r *Result) float64 { return r.Unclaimed }},
	} {
		if len(whole) == 0 {
			break
		}
		var all []float64
		sum := 0.0
		for _, r := range whole {
			all = append(all, one.of(r))
			sum += one.of(r)
		}
		out.Summary = append(out.Summary, Summary{one.name, sum / float64(len(all)), slices.Min(all), slices.Max(all)})
	}
	return out
}

// WriteText writes the summary as a table.
func (s *Seeds) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tMEAN\tLEAST\tMOST")
	for i := range s.Summary {
		one := &s.Summary[i]
		fmt.Fprintf(t, "%s\t%.6g\t%.6g\t%.6g\n", one.Name, one.Mean, one.Least, one.Most)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	partial := 0
	for _, r := range s.Runs {
		if r.Partial {
			partial++
		}
	}
	_, err := fmt.Fprintf(w, "\n%d seeds, of which %d were ended before all flows had.\n", len(s.Runs), partial)
	return err
}

// CheckControl runs a scenario again with a constant window in place of its control, which has to make a difference: a sentence
// says which.
func CheckControl(ctx context.Context, s *Scenario, with *Result) (string, error) {
	if s.Control.Kind == "window" {
		return "", errors.New("the control is a constant window: there is nothing to compare it with")
	}
	other := *s
	other.Control = Control{Kind: "window", Window: 1 << 40}
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
	return fmt.Sprintf("With a window without end: slowdown p50 %.3f (%.3f with %s), p99 %.3f (%.3f), the longest queue %d bytes (%d), %d packets dropped (%d).",
		without.Slowdown.P50, with.Slowdown.P50, s.Control.Kind, without.Slowdown.P99, with.Slowdown.P99, without.Queue, with.Queue, without.Drops, with.Drops), nil
}
