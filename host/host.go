// Package host runs the agent of one device in a process: with its counters and its driver,
// the lock of the device, and the sockets that it answers at.
package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// Config is what the agent of one device needs in a process. It opens counters and
// drivers itself, locks the device and answers at Socket.
type Config struct {
	File       string // of the daemon, and the rest as in agent.DaemonConfig
	Wait       bool
	Shadow     bool
	SelfTest   bool
	NoCommands bool
	Version    string
	Log        *logrus.Entry

	Who    string // names the process to the device
	Socket string // unix socket that it answers at
	Group  string // its members may read the status; "": none

	Listen string // TCP address that it answers at, too; "" for none
	TLS    api.TLSFiles
	Access api.TLSAccess

	Metrics string // TCP address of api.NewObserver, with TLS and Access; "" for none

	Also net.Listener // of other controllers, which answer for their clients (api.Trusted); nil: none

	Owner *vendors.Owner // where several controllers share the device; nil: none do

	Beside    int // as in agent.DaemonConfig, and the next four
	LeaveBare bool
	Store     agent.Store
	Load      func(path string) (*inventory.Fleet, error)
	Reload    <-chan struct{}
	Reloading func() (done func()) // as in agent.DaemonConfig
	OnReady   func()               // called when the start is over; nil for none
	Journals  api.Journals         // that it keeps for operators; nil: none

	OnLaunch func()            // as in agent.DaemonConfig
	Records  *agent.RecordFile // the same

	// Interrupted is the cause of a context whose end is to remove everything from the
	// device; any other end gives up the lease alone.
	Interrupted error
}

// Agent is the agent of one device in this process.
type Agent struct {
	cfg    Config
	lock   device.Lock
	daemon *agent.Daemon
	server *api.Server // nil until it listens
}

// New returns an agent that has not touched its device yet.
func New(cfg Config) *Agent {
	a := &Agent{cfg: cfg, lock: device.Lock{Log: cfg.Log}}
	a.daemon = agent.NewDaemon(agent.DaemonConfig{
		File: cfg.File, Wait: cfg.Wait, Shadow: cfg.Shadow, SelfTest: cfg.SelfTest, NoCommands: cfg.NoCommands, Version: cfg.Version, Log: cfg.Log,
		OffMarker: api.OffMarker(cfg.Socket), LeaveBare: cfg.LeaveBare, Beside: cfg.Beside, Store: cfg.Store, Load: cfg.Load, Reload: cfg.Reload, Reloading: cfg.Reloading,
		OpenSource: func(ctx context.Context, f *inventory.Fleet, d *inventory.Device) (counters.Source, error) {
			return device.OpenSource(ctx, &f.Profile, d, 0)
		},
		KnowsPlatform: func(name string) error {
			_, err := all.Default().Platform(name)
			return err
		},
		OpenDriver: a.openDriver, OnLaunch: cfg.OnLaunch, Records: cfg.Records,
		OnCycle: func() {
			if a.server != nil {
				a.server.Publish()
			}
		},
	})
	return a
}

func (a *Agent) openDriver(d *inventory.Device) (vendors.Driver, error) {
	cfg := vendors.Config{Device: *d, Who: a.cfg.Who, Owner: a.cfg.Owner, Note: func(what string) { a.cfg.Log.Warn(what) }}
	if cfg.Owner != nil {
		cfg.Dial = cfg.Owner.Guard()
	}
	if !a.cfg.Shadow { // another configuration may be of another platform
		if err := a.lock.Take(d); err != nil {
			return nil, err
		}
		cfg.Claim = func(identity string) error { return a.lock.Claim(d.Name, identity) }
	}
	return all.Open(d.Platform, cfg)
}

// Take locks a device before the agent runs; the error is that another agent has it.
func (a *Agent) Take(d *inventory.Device) error { return a.lock.Take(d) }

// Run is the agent's life: it answers at its sockets and keeps the device's rules true
// until ctx ends. When it returns nothing of it is left in this process.
func (a *Agent) Run(ctx context.Context) (err error) {
	defer a.lock.Close()
	defer func() {
		if err := a.daemon.Close(); err != nil {
			a.cfg.Log.WithError(err).Warn("closing the device")
		}
	}()
	if err := a.daemon.Open(ctx); err != nil {
		if ctx.Err() != nil {
			return a.leave(ctx, false)
		}
		return err
	}
	if err := a.listen(); err != nil {
		return err
	}
	defer func() {
		if err := a.server.Close(); err != nil {
			a.cfg.Log.WithError(err).Warn("closing the socket")
		}
	}()
	serve := make(chan error, 1)
	go func() { serve <- a.server.Serve() }()
	a.cfg.Log.WithField("socket", a.cfg.Socket).Debug("listening")
	if a.cfg.Metrics == "" {
		return a.drive(ctx, serve)
	}
	return api.Observed(a.cfg.Metrics, a.cfg.TLS, a.cfg.Access, a.metrics(), a.cfg.Log, func() error { return a.drive(ctx, serve) })
}

func (a *Agent) metrics() http.Handler {
	return metrics.Handler(metrics.Own(a.cfg.Version, a.daemon.Status))
}

// drive starts the daemon and runs it until ctx ends or the socket fails.
func (a *Agent) drive(ctx context.Context, serve <-chan error) error {
	if err := a.daemon.Start(ctx); err != nil {
		if undo := (*agent.UndoError)(nil); ctx.Err() != nil && !errors.As(err, &undo) {
			return a.leave(ctx, false)
		}
		return err
	}
	if a.cfg.OnReady != nil {
		a.cfg.OnReady()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := <-serve; err != nil {
			cancel(fmt.Errorf("socket %s: %w", a.cfg.Socket, err))
		}
	}()
	if err := a.daemon.Run(ctx); err != nil {
		return err
	}
	return a.leave(ctx, true)
}

// listen opens the sockets; each client waits until Run serves them.
func (a *Agent) listen() error {
	server, err := api.Listen(a.cfg.Socket, a.daemon.Status)
	if err != nil {
		return err
	}
	if a.cfg.Group != "" {
		if err := server.Share(a.cfg.Group); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	server.Manage(a.daemon)
	server.Explain(a.daemon.Why)
	if a.cfg.Journals != nil {
		server.Keep(a.cfg.Journals)
	}
	if a.cfg.Also != nil {
		server.Also(a.cfg.Also)
	}
	server.LogTo(a.cfg.Log)
	server.Observe(a.metrics())
	if a.cfg.Listen != "" {
		addr, err := server.ListenTLS(a.cfg.Listen, a.cfg.TLS, a.cfg.Access)
		if err != nil {
			return errors.Join(err, server.Close())
		}
		a.cfg.Log.WithFields(logrus.Fields{"address": addr.String(), "change": a.cfg.Access.Change, "read": a.cfg.Access.Read}).Info("listening for clients with a certificate")
	}
	a.server = server
	return nil
}

// leave ends the agent as the cause of ctx's end wants it, and logs what remains on the
// device. A start that did not come about has undone itself.
func (a *Agent) leave(ctx context.Context, ran bool) error {
	cause := context.Cause(ctx)
	interrupted := a.cfg.Interrupted != nil && errors.Is(cause, a.cfg.Interrupted)
	switch {
	case !interrupted && !errors.Is(cause, context.Canceled):
		return cause
	case a.cfg.Shadow:
		a.cfg.Log.Info("shadow mode ends: nothing was programmed")
	case !ran:
		a.cfg.Log.Info("stopped before the start was complete: the device is as it was")
	case interrupted && a.daemon.Waits():
		a.cfg.Log.Info("interrupted: " + a.daemon.Left())
	case interrupted:
		rctx, done := context.WithTimeout(context.WithoutCancel(ctx), a.daemon.WriteLimit())
		defer done()
		if err := a.daemon.Remove(rctx); err != nil {
			return err
		}
		a.cfg.Log.Info("interrupted: every rule of ours is removed")
	default:
		a.cfg.Log.Info("terminated: " + a.daemon.Left())
	}
	return nil
}

// Status is the agent's. Safe for concurrent use.
func (a *Agent) Status() *api.Status { return a.daemon.Status() }

// Why is agent.Daemon's. Safe for concurrent use.
func (a *Agent) Why(port string) (*api.Why, error) { return a.daemon.Why(port) }

// Alive reports whether the agent makes progress. Safe for concurrent use.
func (a *Agent) Alive() bool { return a.daemon.Alive() }

// Waits reports whether the agent runs no configuration. Safe for concurrent use.
func (a *Agent) Waits() bool { return a.daemon.Waits() }

// Line is the agent's state in a line, for the service manager. Safe for concurrent use.
func (a *Agent) Line() string {
	s := a.daemon.Status()
	line := "waits " + s.Waiting
	if s.Waiting == "" {
		live := 0
		for i := range s.Ports {
			if s.Ports[i].State == api.StateLive {
				live++
			}
		}
		line = fmt.Sprintf("%s: %d of %d ports live, data plane %s", s.Device, live, len(s.Ports), s.DataPlane)
	}
	if s.Reload != nil && s.Reload.Error != "" {
		line += "; not reloaded: " + s.Reload.Error
	}
	return untrusted.Text(line, 300)
}

// Memory is the memory in bytes that an agent is given: one of 512 ports takes some
// 37 MiB, one that is asked much a few times that.
const Memory = 256 << 20
