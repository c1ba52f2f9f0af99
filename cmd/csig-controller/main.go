// Command csig-controller drives many switches that cannot run csig from one machine. This
// package is flags and wiring; csig itself plans, applies and shows what it does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/controller"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/web"
)

// version is stamped by the Makefile.
var version = "unknown"

func main() {
	os.Exit(process.Guarded("csig-controller", os.Stderr, run))
}

func run() int {
	ctx, stop := process.Notify(context.Background())
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "csig-controller:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	var (
		o          agent.Config
		fleetFile  string
		state      string
		noSelfTest bool
		log        process.LogOptions
		others     sharing
		page       web.Config
		scraped    metricsFlags
		collects   meshFlags
	)
	cmd := &cobra.Command{
		Use:   "csig-controller -i FLEET",
		Short: "Keep the rules of many switches up to date that cannot run csig",
		Long: `Drive every device of a fleet file whose agent is on this machine (management:
daemon: {at: here, socket: …}): poll its counters and keep its rules up to date,
each by an agent of its own. csig plan, apply, rollback, off and status reach each
at its socket, as they reach an agent on a switch. A device is driven from the first
csig apply on, which gives it its configuration; the controller keeps it in its
state folder and runs it again after a restart.

Several controllers share a fleet through NATS JetStream: each device has one owner
among them, and another takes it over when that one is gone. With --cluster each runs
a NATS server of its own; with --nats they use one that exists.

A fleet file that you changed is read again when it is saved, and at SIGHUP: devices
that were added are driven, those that are gone are let go as at SIGTERM, and the others
go on. In a terminal SIGHUP ends the controller as SIGTERM does.

Ctrl-C removes everything that it made from all devices. SIGTERM, which service
managers send, releases their leases and leaves the setups for the next start.`,
		Example: `  csig-controller -i fleet.yaml
  csig-controller -i fleet.yaml --state /var/lib/csig/controller
  csig-controller -i fleet.yaml --web 127.0.0.1:8080 --metrics 127.0.0.1:9343
  csig-controller -i fleet.yaml --name c1 --cluster 192.0.2.1:6222 --peer c2=192.0.2.2:6222 --peer c3=192.0.2.3:6222 --tls-cert c1.pem --tls-key c1.key --tls-ca ca.pem
  csig-controller -i fleet.yaml --name c1 --nats tls://nats.example.net:4222 --nats-creds csig.creds`,
		Args:          noArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fleetFile == "" {
				return errors.New("-i/--inventory is missing: fleet file; see csig-controller --help")
			}
			if err := others.check(scraped.addr != "" || collects.addr != ""); err != nil {
				return err
			}
			if err := scraped.check(others.cert); err != nil {
				return err
			}
			if err := collects.check(others.cert); err != nil {
				return err
			}
			if others.shared() && !cmd.Flags().Changed("no-remote-commands") {
				o.NoCommands = true // who may write to the store runs no programs here
			}
			fleet, err := device.LoadFleet(fleetFile)
			if err != nil {
				return err
			}
			devices, err := controller.Devices(fleet)
			if err != nil {
				return err
			}
			platforms := []string{}
			for _, d := range devices {
				platforms = append(platforms, d.Platform, device.SourceName(d))
			}
			entry, end, err := log.Open()
			if err != nil {
				return err
			}
			defer end()
			service := process.NewService(entry)
			defer service.Close()
			ctx, reload, release := process.OnReload(cmd.Context())
			defer release()
			if err := process.Prepare(entry, platforms, o.Group != "", int64(len(devices))*memoryEach); err != nil {
				return err
			}
			o.Log, o.Version, o.Interrupted, o.SelfTest = entry, version, process.ErrInterrupted, !noSelfTest
			return others.with(ctx, state, entry, func(ctx context.Context, store *owner.Store) error {
				cfg := controller.Config{Fleet: fleet, State: state, Agent: o, Share: store, Reload: reload, Reloading: service.Reloading}
				cfg.OnReady = func(alive func() bool, line func() string) { service.Ready(ctx, alive, line) }
				cfg.Statuses = new(controller.Statuses)
				return collects.with(ctx, &cfg, others.files(), scraped.read, func() error {
					page.Mesh = collects.collector
					return withPage(ctx, page, &cfg, func(ctx context.Context) error {
						return scraped.with(&cfg, others.files(), collects.families(), func() error { return controller.Run(ctx, cfg) })
					})
				})
			})
		},
	}
	cmd.InitDefaultVersionFlag()
	cmd.SetVersionTemplate(process.VersionText("csig-controller", version) + "\n")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && unknown.GetSpecifiedName() == "c" { // the habit of other programs
			err = fmt.Errorf("%w: the fleet file goes with -i", err)
		}
		return fmt.Errorf("%w; see csig-controller --help", err)
	})
	f := cmd.Flags()
	f.StringVarP(&fleetFile, "inventory", "i", "", "fleet file (required)")
	f.StringVar(&state, "state", defaultState(), "folder for the devices' configurations")
	f.BoolVar(&o.NoCommands, "no-remote-commands", false, "refuse configurations that name programs to fetch secrets; the default with --cluster and --nats, which --no-remote-commands=false lifts")
	f.StringVar(&o.Group, "socket-group", "", "let the members of this group read csig status; the rest stays root's")
	f.BoolVar(&noSelfTest, "no-self-test", false, "skip the self-tests of data planes when agents start")
	log.Flags(f)
	others.flags(f)
	process.PageFlags(f, &page, "the fleet")
	scraped.flags(f)
	collects.flags(f)
	process.ExitCodes(cmd, exitText(cmd))
	return cmd
}

// noArgs names the flag that takes what was given as an argument.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected %q: the fleet file goes with -i: csig-controller -i %s; see csig-controller --help", args[0], untrusted.ShellWord(args[0]))
}

// exitText is the line of its help about exit codes.
func exitText(*cobra.Command) string { return "0 it was asked to end, 1 an error" }

// memoryEach is the memory in bytes for an agent among many, from which on garbage is
// collected more eagerly.
const memoryEach = 64 << 20

// defaultState is beside csig's other state; an ordinary user's is their own.
func defaultState() string {
	home, err := os.UserHomeDir()
	switch dir := os.Getenv("XDG_STATE_HOME"); {
	case os.Geteuid() == 0:
	case dir != "":
		return filepath.Join(dir, "csig", "controller")
	case err == nil:
		return filepath.Join(home, ".local", "state", "csig", "controller")
	}
	return "/var/lib/csig/controller"
}
