package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/simulate"
)

// mostScenario bounds a scenario file, in bytes.
const mostScenario = 4 << 20

// simulateFlags are the flags of csig simulate.
type simulateFlags struct {
	memory, svg    string
	json, topology bool
	check          bool
	seeds          int
}

func newSimulate() *cobra.Command {
	var o simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "Simulate flows through a network, packet by packet",
		Long: `Simulate flows through a network, packet by packet, under a congestion control: how
long each takes, how long queues get, what is dropped, what is left. The same scenario
comes out the same on every machine. Ctrl-C prints what there is until then.`,
		Example: `  csig simulate incast.yaml
  csig simulate incast.yaml --check-control --svg incast.svg
  csig simulate incast.yaml --seeds 10 --json`,
		Args: oneArg("SCENARIO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return simulateScenario(cmd, args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.memory, "memory", "4G", "refuse a scenario that takes more bytes than this, and end it where its packets do")
	f.StringVar(&o.svg, "svg", "", "write a picture to this new file: queues, shares and slowdown")
	f.IntVar(&o.seeds, "seeds", 1, "run it with so many seeds, side by side; its own is the first")
	f.BoolVar(&o.check, "check-control", false, "also run it with a window without end, and fail where that makes no difference")
	f.BoolVar(&o.topology, "topology", false, "run nothing: print the network in the format of HPCC's public ns-3 code")
	addJSON(cmd, &o.json)
	return cmd
}

func simulateScenario(cmd *cobra.Command, path string, o *simulateFlags) error {
	most, err := inventory.ParseBytes(o.memory)
	switch {
	case err != nil:
		return fmt.Errorf("--memory: %w", err)
	case o.seeds < 1 || o.seeds > maxSeeds:
		return fmt.Errorf("--seeds: %d is not 1 to %d", o.seeds, maxSeeds)
	case o.seeds > 1 && (o.svg != "" || o.check):
		return errors.New("--seeds: --svg and --check-control are of one seed: leave them out")
	case o.topology && (o.json || o.svg != "" || o.check || o.seeds > 1):
		return errors.New("--topology: it runs nothing: leave --json, --svg, --check-control and --seeds out")
	}
	s, err := readScenario(path)
	if err != nil {
		return err
	}
	if o.topology {
		return s.WriteTopology(cmd.OutOrStdout())
	}
	if err := s.Bound(most, min(o.seeds, runtime.GOMAXPROCS(0))); err != nil {
		return err
	}
	if o.svg != "" {
		if err := outfile.Check(o.svg, nil); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if o.seeds > 1 {
		return runSeeds(cmd, s, o)
	}
	return runSimulation(cmd, s, o)
}

// maxSeeds bounds how many runs one command has.
const maxSeeds = 10_000

// mostFlows is how many flows JSON has at most.
const mostFlows = 10_000

func readScenario(path string) (*simulate.Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := untrusted.ReadAll(f, mostScenario)
	switch {
	case errors.Is(err, untrusted.ErrTooLong):
		return nil, fmt.Errorf("%s: a scenario has at most %d bytes", path, mostScenario)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return simulate.ParseScenario(path, text)
}

func runSimulation(cmd *cobra.Command, s *simulate.Scenario, o *simulateFlags) error {
	m, err := simulate.New(s)
	if err != nil {
		return err
	}
	progress, end := simulated(newScreen(cmd.ErrOrStderr()), func() string {
		now, events := m.Now()
		return fmt.Sprintf("  %v simulated, %.1f million events", time.Duration(now).Round(time.Microsecond), float64(events)/1e6)
	})
	res, err := m.Run(cmd.Context(), progress)
	end()
	if err != nil {
		return err
	}
	if o.svg != "" {
		if err := outfile.Write(o.svg, 0o644, nil, res.WriteSVG); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	said, checked := "", error(nil)
	if o.check && !res.Partial {
		switch said, checked = simulate.CheckControl(cmd.Context(), s, res); { // the result is there all the same
		case checked != nil && cmd.Context().Err() != nil:
			checked = fmt.Errorf("--check-control: not ended: %s", why(cmd.Context()))
		case checked != nil:
			checked = fmt.Errorf("--check-control: %w", checked)
		}
	}
	if o.json {
		if len(res.Flows) > mostFlows {
			newScreen(cmd.ErrOrStderr()).remark("of %d flows the first %d are in the JSON; statistics are of all", len(res.Flows), mostFlows)
			res.Flows = res.Flows[:mostFlows]
		}
		err = printJSON(cmd.OutOrStdout(), res)
	} else if err = res.WriteText(cmd.OutOrStdout()); err == nil && said != "" {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
	}
	return partly(cmd, errors.Join(err, checked), res.Partial)
}

func runSeeds(cmd *cobra.Command, s *simulate.Scenario, o *simulateFlags) error {
	progress, end := simulated(newScreen(cmd.ErrOrStderr()), func() string { return "" })
	res, err := simulate.RunSeeds(cmd.Context(), s, o.seeds, progress)
	end()
	if err != nil {
		return err
	}
	if o.json {
		err = printJSON(cmd.OutOrStdout(), res)
	} else {
		err = res.WriteText(cmd.OutOrStdout())
	}
	return partly(cmd, err, res.Whole < res.Seeds)
}

// simulated shows on a terminal how many flows have ended, and what more there is to say, until end.
func simulated(live *screen, more func() string) (progress func(ended, all int), end func()) {
	began, drawn := time.Now(), time.Now()
	if !live.terminal() {
		return func(int, int) {}, func() {}
	}
	return func(ended, all int) {
			if now := time.Now(); now.Sub(drawn) >= redrawn {
				drawn = now
				_ = live.redraw("", []string{fmt.Sprintf("%d of %s ended%s  %v", ended, count(all, "flow"), more(), now.Sub(began).Round(time.Second))})
			}
		}, func() {
			_ = live.end("")
		}
}

func partly(cmd *cobra.Command, err error, partial bool) error {
	if ctx := cmd.Context(); partial && ctx.Err() != nil {
		return errors.Join(err, fmt.Errorf("simulate: ended before all flows had: %s", why(ctx)))
	}
	return err
}
