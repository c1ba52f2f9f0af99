package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/web"
)

func newAgent() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent -i FILE",
		Short: "Keep this switch's rules up to date (the daemon)",
		Long: `Poll this switch's byte counters on a schedule and keep the match/action rules of
its ports up to date. FILE is a fleet file with exactly one device marked local.

With --wait the daemon may be started before there is a FILE: csig apply, from this
machine or remotely, gives it a configuration, which it stores in FILE and runs.

A FILE that you changed is read again when it is saved, and at SIGHUP: one that is valid
takes effect without a gap. With an invalid one the agent keeps the old configuration,
and csig status shows the mistake and its place. In a terminal SIGHUP ends the agent as SIGTERM does.

Ctrl-C removes everything the agent made. SIGTERM, which service managers send,
releases the lease, so that the data plane falls back at once, and leaves the
setup for the next start. When the agent is killed the data plane falls back
by itself when the lease ends.

With --dry-run it listens at a socket of its own, shadow.sock beside the usual
one, because it may run beside a real agent.`,
		Example: `  csig agent -i tor.yaml
  csig agent -i /var/lib/csig/device.yaml --wait
  csig agent -i tor.yaml --web 127.0.0.1:8080
  csig agent -i tor.yaml --dry-run --log-level debug`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Shadow && !cmd.Flags().Changed("socket") {
				o.Socket = api.DefaultShadowSocket()
			}
			if err := o.check(); err != nil {
				return err
			}
			log, end, err := o.log.Open()
			if err != nil {
				return err
			}
			err = runAgent(cmd.Context(), log, o)
			if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
				err = fmt.Errorf("run csig agent as root: %w", err)
			}
			if !end() && err != nil {
				return &exitError{code: 1} // the log is not read, and waiting for a reader would hang
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.File, "inventory", "i", "", "fleet file with exactly one device marked local (required)")
	f.BoolVar(&o.Shadow, "dry-run", false, "shadow mode: poll, compute, log the operations and program nothing")
	f.BoolVar(&o.Wait, "wait", false, "without a FILE, or with one that cannot be run, wait for a configuration")
	f.StringVar(&o.Listen, "listen", "", "listen at this TCP address, too, e.g. 192.0.2.1:7443; needs the --tls flags")
	f.StringVar(&o.Metrics, "metrics", "", "serve metrics for Prometheus at this TCP address, e.g. 127.0.0.1:9343; needs the --tls flags unless it is a loopback address")
	f.StringVar(&o.TLS.Cert, "tls-cert", "", "certificate of this daemon (PEM)")
	f.StringVar(&o.TLS.Key, "tls-key", "", "its key (PEM)")
	f.StringVar(&o.TLS.CA, "tls-client-ca", "", "authorities of the clients' certificates (PEM)")
	f.StringSliceVar(&o.Access.Change, "tls-change", nil, "names of client certificates that may change the device")
	f.StringSliceVar(&o.Access.Read, "tls-read", nil, "names of client certificates that may only read the status and its reasons")
	f.BoolVar(&o.NoCommands, "no-remote-commands", false, "refuse configurations that name programs to fetch secrets")
	f.StringVar(&o.Group, "socket-group", "", "let the members of this group read csig status; the rest stays root's")
	f.StringVar(&o.records, "records", "", "keep what csig why shows in this file, too, and in FILE.1 when it is full: 32 MiB (flash wears out)")
	f.BoolVar(&o.noSelfTest, "no-self-test", false, "skip the start-up self-test of the data plane (it takes a moment)")
	process.PageFlags(f, &o.page, "this switch")
	o.log.Flags(f)
	addSocket(cmd, &o.Socket)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key", "tls-client-ca")
	_ = cmd.MarkFlagRequired("inventory")
	return cmd
}

// agentMemory is the memory in bytes that an agent is given: one of 512 ports takes some
// 37 MiB, one that is asked much a few times that.
const agentMemory = 256 << 20

type agentOptions struct {
	agent.Config
	noSelfTest bool
	records    string
	page       web.Config
	log        process.LogOptions
}

// check refuses TLS files without an address, and the reverse.
func (o *agentOptions) check() error {
	switch tls := o.TLS.Cert != ""; {
	case o.Listen != "" && !tls:
		return errors.New("--listen needs --tls-cert, --tls-key and --tls-client-ca")
	case tls && o.Listen == "" && o.Metrics == "":
		return errors.New("--tls-cert, --tls-key and --tls-client-ca go with --listen or --metrics")
	}
	return nil
}

func runAgent(ctx context.Context, log *logrus.Entry, o agentOptions) error {
	if err := api.CheckSocket(o.Socket); err != nil {
		return err
	}
	// Before anything is locked or listened at.
	var dev *inventory.Device
	fleet, err := device.LoadFleet(o.File)
	if err == nil {
		if dev, err = fleet.LocalDevice(); err == nil {
			p, unknown := all.Default().Platform(dev.Platform)
			switch {
			case unknown != nil:
				err = unknownPlatform(fleet, dev, unknown)
			case !p.Reached(dev):
				return fmt.Errorf("device %s: csig does not reach it, so that an agent has nothing to do: csig plan --commands prints what a person carries out there ("+docs.SAI+")", dev.Name)
			}
		}
	}
	if foreign := (*device.ForeignError)(nil); errors.As(err, &foreign) {
		return err // an agent that waits would run it, too
	}
	if err != nil && !o.Wait {
		return err
	}
	path, err := filepath.Abs(o.File)
	if err != nil { // there is no working directory
		path = o.File
	}
	if o.Wait { // or the first csig apply would find that out
		if _, err := os.Stat(filepath.Dir(path) + string(filepath.Separator)); err != nil {
			return fmt.Errorf("--wait: csig apply keeps the configuration at %s: %w: create that folder", path, err)
		}
	}
	service := process.NewService(log)
	defer service.Close()
	ctx, reload, stop := process.OnReload(ctx) // before the first line: a log reader may be gone already
	defer stop()
	o.Load, o.Reload = device.LoadFleet, reload
	log.WithField("file", path).Info("fleet file of this agent")

	o.SelfTest, o.Version, o.Log, o.Interrupted = !o.noSelfTest, version, log, process.ErrInterrupted
	own := &device.Own{Lock: device.Lock{Log: log}, Who: "csig agent", Shadow: o.Shadow}
	defer own.Close()
	o.OpenSource, o.OpenDriver, o.KnowsPlatform = own.OpenSource, own.OpenDriver, own.KnowsPlatform
	o.OnLaunch = process.GiveBack
	if o.records != "" {
		if o.Records, err = agent.OpenRecordFile(o.records, log); err != nil {
			return fmt.Errorf("--records: %w", err)
		}
		defer o.Records.Close()
	}
	var a *agent.Process
	o.OnReady, o.Reloading = func() { service.Ready(ctx, a.Alive, a.Line) }, service.Reloading
	a = agent.NewProcess(o.Config)
	var platforms []string
	if dev != nil {
		platforms = []string{dev.Platform, device.SourceName(dev)} // counter sources are called as their platforms are
		if all.BesideKernel(dev) {
			platforms = append(platforms, "linux")
		}
		if !o.Shadow { // two agents on one set of ports would undo each other's work
			if err := own.Take(dev); err != nil {
				return err
			}
		}
	}
	// Before the first command that fetches a secret.
	if err := process.Prepare(log, platforms, o.Group != "", agentMemory); err != nil {
		return err
	}
	o.page.Fleet, o.page.Status, o.page.Log = fleetOfPage(o.File), func(string) *api.Status { return a.Status() }, log
	o.page.Why = func(_, port string) (*api.Why, error) { return a.Why(port) }
	return web.Beside(ctx, o.page, a.Run)
}

// fleetOfPage has what the page of an agent draws its switch and the links by: the agent's fleet
// file, as it is now. The device's name comes with its status.
func fleetOfPage(file string) func() (*inventory.Fleet, []string) {
	var (
		watch inventory.Watch
		fleet *inventory.Fleet
		names = []string{""}
	)
	load := func() {
		f, err := device.LoadFleet(file)
		if watch.Note(file, f, err); err == nil { // what is wrong with it, the agent says
			fleet = f
		}
	}
	load()
	return func() (*inventory.Fleet, []string) {
		if watch.Changed() {
			load()
		}
		return fleet, names
	}
}
