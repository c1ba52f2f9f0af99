package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
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
	f.StringVar(&o.memory, "memory", "4G", "refuse a scenario that takes more bytes than this")
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
	}
	s, err := readScenario(path)
	if err != nil {
		return err
	}
	if o.topology {
		return s.WriteTopology(cmd.OutOrStdout())
	}
	if need := s.Memory() * uint64(min(o.seeds, runtime.GOMAXPROCS(0))); need > most {
		return fmt.Errorf("%s:1:1: the simulation takes about %d bytes, and --memory allows %d: raise it, or simulate fewer flows", path, need, most)
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
	text, err := io.ReadAll(io.LimitReader(f, mostScenario+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(text) > mostScenario {
		return nil, fmt.Errorf("%s: a scenario has at most %d bytes", path, mostScenario)
	}
	return simulate.ParseScenario(path, text)
}

func runSimulation(cmd *cobra.Command, s *simulate.Scenario, o *simulateFlags) error {
	m, err := simulate.New(s)
	if err != nil {
		return err
	}
	res, err := m.Run(cmd.Context(), simulated(cmd))
	if err != nil {
		return err
	}
	if o.svg != "" {
		if err := outfile.Write(o.svg, 0o644, nil, res.WriteSVG); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	said := ""
	if o.check && !res.Partial {
		if said, err = simulate.CheckControl(cmd.Context(), s, res); err != nil {
			return fmt.Errorf("--check-control: %w", err)
		}
	}
	if o.json {
		res.Flows = res.Flows[:min(len(res.Flows), mostFlows)]
		err = printJSON(cmd.OutOrStdout(), res)
	} else if err = res.WriteText(cmd.OutOrStdout()); err == nil && said != "" {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
	}
	return partly(cmd, err, res.Partial)
}

func runSeeds(cmd *cobra.Command, s *simulate.Scenario, o *simulateFlags) error {
	res, err := simulate.RunSeeds(cmd.Context(), s, o.seeds, simulated(cmd))
	if err != nil {
		return err
	}
	if o.json {
		err = printJSON(cmd.OutOrStdout(), res)
	} else {
		err = res.WriteText(cmd.OutOrStdout())
	}
	return partly(cmd, err, slices.ContainsFunc(res.Runs, func(r *simulate.Result) bool { return r.Partial }))
}

// simulated shows how many flows have ended, on a terminal.
func simulated(cmd *cobra.Command) func(ended, all int) {
	live, shown := newScreen(cmd.ErrOrStderr()), time.Now()
	return func(ended, all int) {
		if now := time.Now(); live.terminal() && now.Sub(shown) > time.Second {
			shown = now
			live.remark("%d of %d flows have ended", ended, all)
		}
	}
}

func partly(cmd *cobra.Command, err error, partial bool) error {
	if cause := context.Cause(cmd.Context()); partial && cause != nil {
		return errors.Join(err, fmt.Errorf("simulate: ended before all flows had: %w", cause))
	}
	return err
}
