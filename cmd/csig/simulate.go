package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/simulate"
)

// mostScenario bounds a scenario file, in bytes.
const mostScenario = 4 << 20

func newSimulate() *cobra.Command {
	var memory string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "Simulate flows through a network, packet by packet",
		Long: `Simulate flows through a network, packet by packet, under a congestion control: how
long each takes, how long queues get, what is dropped. The same scenario comes out the
same on every machine. Ctrl-C prints what there is until then.`,
		Example: `  csig simulate incast.yaml
  csig simulate incast.yaml --json`,
		Args: oneArg("SCENARIO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			most, err := inventory.ParseBytes(memory)
			if err != nil {
				return fmt.Errorf("--memory: %w", err)
			}
			s, err := readScenario(args[0])
			if err != nil {
				return err
			}
			if need := s.Memory(); need > most {
				return fmt.Errorf("%s: the simulation takes about %d bytes, and --memory allows %d: raise it, or simulate fewer flows", args[0], need, most)
			}
			return runSimulation(cmd, s, asJSON)
		},
	}
	cmd.Flags().StringVar(&memory, "memory", "4G", "refuse a scenario that takes more bytes than this")
	addJSON(cmd, &asJSON)
	return cmd
}

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

func runSimulation(cmd *cobra.Command, s *simulate.Scenario, asJSON bool) error {
	m, err := simulate.New(s)
	if err != nil {
		return err
	}
	live, shown := newScreen(cmd.ErrOrStderr()), time.Now()
	res, err := m.Run(cmd.Context(), func(ended, all int) {
		if now := time.Now(); live.terminal() && now.Sub(shown) > time.Second {
			shown = now
			live.remark("%d of %d flows have ended", ended, all)
		}
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), res)
	} else {
		err = res.WriteText(cmd.OutOrStdout())
	}
	if cause := context.Cause(cmd.Context()); res.Partial && cause != nil {
		return errors.Join(err, fmt.Errorf("simulate: ended before all flows had: %w", cause))
	}
	return err
}
