package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Process is the agent of one device in a process, with the sockets that it answers at.
type Process struct {
	cfg    Config
	daemon *Daemon
	server *api.Server // nil until it listens
}

// NewProcess returns one that has not touched its device yet.
func NewProcess(cfg Config) *Process {
	a := &Process{cfg: cfg}
	cfg.OffMarker = api.OffMarker(cfg.Socket)
	cfg.OnCycle = func() {
		if a.server != nil {
			a.server.Publish()
		}
	}
	a.daemon = NewDaemon(cfg)
	return a
}

// Run is the agent's life: it answers at its sockets and keeps the device's rules true
// until ctx ends. When it returns nothing of it is left in this process.
func (a *Process) Run(ctx context.Context) (err error) {
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

func (a *Process) metrics() http.Handler {
	return metrics.Handler(metrics.Own(a.cfg.Version, a.daemon.Status))
}

// drive starts the daemon and runs it until ctx ends or the socket fails.
func (a *Process) drive(ctx context.Context, serve <-chan error) error {
	if err := a.daemon.Start(ctx); err != nil {
		if undo := (*UndoError)(nil); ctx.Err() != nil && !errors.As(err, &undo) {
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
func (a *Process) listen() error {
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
func (a *Process) leave(ctx context.Context, ran bool) error {
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
func (a *Process) Status() *api.Status { return a.daemon.Status() }

// Why is Daemon's. Safe for concurrent use.
func (a *Process) Why(port string) (*api.Why, error) { return a.daemon.Why(port) }

// Alive reports whether the agent makes progress. Safe for concurrent use.
func (a *Process) Alive() bool { return a.daemon.Alive() }

// Waits reports whether the agent runs no configuration. Safe for concurrent use.
func (a *Process) Waits() bool { return a.daemon.Waits() }

// Line is the agent's state in a line, for the service manager. Safe for concurrent use.
func (a *Process) Line() string {
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
