package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

func newAgent() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent -c FILE",
		Short: "Keep this switch's rules up to date (the daemon)",
		Long: `Poll this switch's byte counters on a schedule and keep the match/action rules of
its ports up to date. FILE is a fleet file with exactly one device marked local.

With --wait the daemon may be started before there is a FILE: csig apply, from this
machine or remotely, gives it a configuration, which it stores in FILE and runs.

Ctrl-C removes everything the agent made. SIGTERM, which service managers send,
releases the lease, so that the data plane falls back at once, and leaves the
setup for the next start. When the agent is killed the data plane falls back
by itself when the lease ends.

With --dry-run it listens at a socket of its own, shadow.sock beside the usual
one, because it may run beside a real agent.`,
		Example: `  csig agent -c tor.yaml
  csig agent -c /var/lib/csig/device.yaml --wait
  csig agent -c tor.yaml --dry-run --log-level debug`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Shadow && !cmd.Flags().Changed("socket") {
				o.socket = api.DefaultShadowSocket()
			}
			logger, err := newLog(o.logLevel, o.logFormat)
			if err != nil {
				return err
			}
			lines := newLogQueue(os.Stderr, func(dropped int) []byte { return droppedLines(logger, dropped) })
			logger.SetOutput(lines)
			err = runAgent(cmd.Context(), logrus.NewEntry(logger), o)
			if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
				err = fmt.Errorf("run csig agent as root: %w", err)
			}
			if !lines.close() && err != nil {
				return &exitError{code: 1} // the log is not read, and waiting for a reader would hang
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.File, "config", "c", "", "fleet file with exactly one device marked local (required)")
	f.BoolVar(&o.Shadow, "dry-run", false, "shadow mode: poll, compute, log the operations and program nothing")
	f.BoolVar(&o.Wait, "wait", false, "without a FILE, or with one that cannot be run, wait for a configuration")
	f.StringVar(&o.listen, "listen", "", "listen at this TCP address, too, e.g. 192.0.2.1:7443; needs the --tls flags")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "certificate of this daemon (PEM)")
	f.StringVar(&o.tls.Key, "tls-key", "", "its key (PEM)")
	f.StringVar(&o.tls.CA, "tls-client-ca", "", "authorities of the clients' certificates (PEM)")
	f.StringSliceVar(&o.access.Change, "tls-change", nil, "names of client certificates that may change the device")
	f.StringSliceVar(&o.access.Read, "tls-read", nil, "names of client certificates that may only read")
	f.BoolVar(&o.NoCommands, "no-remote-commands", false, "refuse configurations that name programs to fetch secrets")
	f.StringVar(&o.group, "socket-group", "", "let the members of this group read csig status; the rest stays root's")
	f.BoolVar(&o.noSelfTest, "no-self-test", false, "skip the start-up self-test of the data plane (it takes a moment)")
	f.StringVar(&o.logLevel, "log-level", "info", "error, warn, info or debug")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	addSocket(cmd, &o.socket)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	cmd.MarkFlagsRequiredTogether("listen", "tls-cert", "tls-key", "tls-client-ca")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

type agentOptions struct {
	agent.DaemonConfig
	socket, group       string
	noSelfTest          bool
	listen              string
	tls                 api.TLSFiles
	access              api.TLSAccess
	logLevel, logFormat string
}

// daemonMemory is the memory in bytes from which on the daemon collects garbage
// more eagerly: one of 512 ports takes some 37 MiB, one that is asked much a few
// times that.
const daemonMemory = 256 << 20

// memoryLimit is the daemon's limit, where the environment does not set another.
func memoryLimit() int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return -1 // as it is
	}
	return daemonMemory
}

func newLog(level, format string) (*logrus.Logger, error) {
	log := logrus.New()
	lvl, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %q: want error, warn, info or debug", level)
	}
	log.SetLevel(lvl)
	switch format {
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	case "text":
		tty := term.IsTerminal(int(os.Stderr.Fd())) // the logger does not see it behind a logQueue
		log.SetFormatter(&logrus.TextFormatter{ForceColors: tty, FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", format)
	}
	return log, nil
}

// droppedLines is the line in place of those that were not read in time.
func droppedLines(log *logrus.Logger, n int) []byte {
	e := log.WithField("dropped", n)
	e.Time, e.Level, e.Message = time.Now(), logrus.WarnLevel, "lines of the log were dropped: no reader"
	line, err := log.Formatter.Format(e)
	if err != nil { // it is text and a number
		return fmt.Appendf(nil, "csig: %d lines of the log were dropped: %v\n", n, err)
	}
	return line
}

func runAgent(ctx context.Context, log *logrus.Entry, o agentOptions) error {
	if err := api.CheckSocket(o.socket); err != nil {
		return err
	}
	// Before anything is locked or listened at.
	var dev *inventory.Device
	fleet, err := device.LoadFleet(o.File)
	if err == nil {
		if dev, err = fleet.LocalDevice(); err == nil {
			if _, unknown := all.Default().Platform(dev.Platform); unknown != nil {
				err = unknownPlatform(fleet, dev, unknown)
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
	ctx, stop := onHangup(ctx) // before the first line: a log reader may be gone already
	defer stop()
	log.WithField("file", path).Info("fleet file of this agent")

	// Two agents on one set of ports would undo each other's work.
	held := &device.Lock{Log: log}
	defer held.Close()
	if !o.Shadow && dev != nil {
		if err := held.Take(dev); err != nil {
			return err
		}
	}

	// Before the first command that fetches a secret.
	if err := dropPrivileges(dev, o.group != ""); errors.Is(err, errors.ErrUnsupported) {
		log.WithError(err).Warn("this csig was built with cgo, and keeps its capabilities")
	} else if err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryLimit())

	var server *api.Server
	o.OffMarker, o.SelfTest, o.Version, o.Log = api.OffMarker(o.socket), !o.noSelfTest, version, log
	o.OpenSource = func(ctx context.Context, f *inventory.Fleet, d *inventory.Device) (counters.Source, error) {
		return device.OpenSource(ctx, &f.Profile, d, 0)
	}
	o.OpenDriver = func(d *inventory.Device) (vendors.Driver, error) {
		cfg := vendors.Config{Device: *d, Who: "csig agent", Note: func(what string) { log.Warn(what) }}
		if !o.Shadow { // another configuration may be of another platform
			if err := held.Take(d); err != nil {
				return nil, err
			}
			cfg.Claim = func(identity string) error { return held.Claim(d.Name, identity) }
		}
		return all.Open(d.Platform, cfg)
	}
	o.OnCycle = func() {
		if server != nil {
			server.Publish()
		}
	}
	daemon := agent.NewDaemon(o.DaemonConfig)
	defer func() {
		if err := daemon.Close(); err != nil {
			log.WithError(err).Warn("closing the device")
		}
	}()
	if err := daemon.Open(ctx); err != nil {
		if ctx.Err() != nil {
			return leave(ctx, log, daemon, &o, false)
		}
		return err
	}
	if server, err = api.Listen(o.socket, daemon.Status); err != nil {
		return err
	}
	if o.group != "" {
		if err := server.Share(o.group); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	server.Manage(daemon)
	server.LogTo(log)
	defer func() {
		if err := server.Close(); err != nil {
			log.WithError(err).Warn("closing the socket")
		}
	}()
	if o.listen != "" {
		addr, err := server.ListenTLS(o.listen, o.tls, o.access)
		if err != nil {
			return err
		}
		log.WithFields(logrus.Fields{"address": addr.String(), "change": o.access.Change, "read": o.access.Read}).Info("listening for clients with a certificate")
	}
	serve := make(chan error, 1)
	go func() { serve <- server.Serve() }()
	log.WithField("socket", o.socket).Debug("listening")

	if err := daemon.Start(ctx); err != nil {
		if undo := (*agent.UndoError)(nil); ctx.Err() != nil && !errors.As(err, &undo) {
			return leave(ctx, log, daemon, &o, false)
		}
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := <-serve; err != nil {
			cancel(fmt.Errorf("socket %s: %w", o.socket, err))
		}
	}()
	if err := daemon.Run(ctx); err != nil {
		return err
	}
	return leave(ctx, log, daemon, &o, true)
}

// leave ends an agent as the cause of ctx's end wants it, and logs what remains
// on the device. A start that did not come about has undone itself.
func leave(ctx context.Context, log *logrus.Entry, daemon *agent.Daemon, o *agentOptions, ran bool) error {
	cause := context.Cause(ctx)
	interrupted := errors.Is(cause, errInterrupted)
	switch {
	case !interrupted && !errors.Is(cause, context.Canceled):
		return cause
	case o.Shadow:
		log.Info("shadow mode ends: nothing was programmed")
	case !ran:
		log.Info("stopped before the start was complete: the device is as it was")
	case interrupted && daemon.Waits():
		log.Info("interrupted: " + daemon.Left())
	case interrupted:
		rctx, done := context.WithTimeout(context.Background(), daemon.WriteLimit())
		defer done()
		if err := daemon.Remove(rctx); err != nil {
			return err
		}
		log.Info("interrupted: every rule of ours is removed")
	default:
		log.Info("terminated: " + daemon.Left())
	}
	return nil
}
