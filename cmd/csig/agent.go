package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

func newAgent() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent -c FILE",
		Short: "Keep this switch's rules true (the daemon)",
		Long: `Poll this switch's byte counters on a schedule and keep the match/action rules of
its ports true. FILE is a fleet file with exactly one device marked local.

Ctrl-C removes everything the agent made. SIGTERM, which service managers send,
gives up the lease, so that the data plane falls back at once, and leaves the
set-up for the next start. When the agent is killed the data plane falls back
by itself when the lease ends.

With --dry-run it listens at a socket of its own, shadow.sock beside the usual
one, because it may run beside a real agent.`,
		Example: `  csig agent -c tor.yaml
  csig agent -c tor.yaml --dry-run --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.shadow && !cmd.Flags().Changed("socket") {
				o.socket = api.DefaultShadowSocket()
			}
			return runAgent(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "config", "c", "", "fleet file with exactly one device marked local (required)")
	f.BoolVar(&o.shadow, "dry-run", false, "shadow mode: poll, compute, log the operations and program nothing")
	f.BoolVar(&o.noSelfTest, "no-self-test", false, "skip the start-up self-test of the data plane (it takes a moment)")
	f.StringVar(&o.logLevel, "log-level", "info", "error, warn, info or debug")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	addSocket(cmd, &o.socket)
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

type agentOptions struct {
	file, socket        string
	shadow, noSelfTest  bool
	logLevel, logFormat string
}

func newLog(level, format string) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	lvl, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %q: want error, warn, info or debug", level)
	}
	log.SetLevel(lvl)
	switch format {
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	case "text":
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", format)
	}
	return log, nil
}

func runAgent(ctx context.Context, o agentOptions) error {
	logger, err := newLog(o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	if err := api.CheckSocket(o.socket); err != nil {
		return err
	}
	fleet, err := inventory.Load(o.file)
	if err != nil {
		return err
	}
	dev, err := fleet.LocalDevice()
	if err != nil {
		return err
	}
	log := logrus.NewEntry(logger)

	// Two agents on one set of ports would undo each other's work.
	if !o.shadow {
		unlock, err := lockDevice()
		if err != nil {
			return err
		}
		defer unlock()
	}

	source, err := openSource(ctx, &fleet.Profile, dev)
	if err != nil {
		if ctx.Err() != nil {
			log.Info("stopped before the start was complete: the device is as it was")
			return nil
		}
		return fmt.Errorf("device %s: counters: %w", dev.Name, err)
	}
	defer source.Close()
	driver, err := all.Open(dev.Platform, vendors.Config{})
	if err != nil {
		return fmt.Errorf("device %s: %w", dev.Name, err)
	}
	defer driver.Close()
	if o.shadow {
		driver = agent.NewShadow(driver, fleet.Profile.Layout, log.WithField("device", dev.Name))
	}

	var server *api.Server
	a, err := agent.New(agent.Config{
		Profile: fleet.Profile,
		Policy:  fleet.Policy,
		Device:  *dev,
		Source:  source,
		Driver:  driver,
		Shadow:  o.shadow,
		Version: version,
		Log:     log,
		OnCycle: func() { server.Publish() },

		SelfTest: !o.noSelfTest,
	})
	if err != nil {
		return err
	}
	if server, err = api.Listen(o.socket, a.Status); err != nil {
		return err
	}
	serve := make(chan error, 1)
	go func() { serve <- server.Serve() }()
	defer func() {
		if err := server.Close(); err != nil {
			log.WithError(err).Warn("closing the socket")
		}
	}()

	if err := a.Start(ctx); err != nil {
		if undo := (*agent.UndoError)(nil); ctx.Err() != nil && !errors.As(err, &undo) {
			return leave(ctx, log, driver, dev.Name, o.shadow, false)
		}
		return err
	}
	// Starting up takes several times the memory of running for years, and a
	// cycle allocates next to nothing: a small heap costs no time.
	debug.SetGCPercent(25)
	debug.FreeOSMemory()
	log.WithFields(logrus.Fields{
		"device": dev.Name, "ports": len(dev.Ports), "schedule": dev.Schedule, "interval": dev.Interval.String(),
		"profile": fleet.Profile.Hash()[:12], "socket": o.socket, "shadow": o.shadow,
	}).Info("agent runs")

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := <-serve; err != nil {
			cancel(fmt.Errorf("socket %s: %w", o.socket, err))
		}
	}()
	if err := a.Run(ctx); err != nil {
		return err
	}
	return leave(ctx, log, driver, dev.Name, o.shadow, true)
}

// leave ends an agent as the cause of ctx's end wants it, and says what remains
// on the device. A start that did not come about has undone itself.
func leave(ctx context.Context, log *logrus.Entry, driver vendors.Driver, device string, shadow, ran bool) error {
	cause := context.Cause(ctx)
	interrupted := errors.Is(cause, errInterrupted)
	switch {
	case !interrupted && !errors.Is(cause, context.Canceled):
		return cause
	case shadow:
		log.Info("shadow mode ends: nothing was programmed")
	case interrupted:
		rctx, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := driver.Remove(rctx); err != nil {
			return fmt.Errorf("device %s: removing our rules: %w", device, err)
		}
		log.Info("interrupted: every rule of ours is removed")
	case !ran:
		log.Info("terminated before the start was complete: the device is as it was")
	default:
		log.Info("terminated: the data plane has fallen back; the set-up stays for the next start")
	}
	return nil
}
