package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// NotHereError is why a device's driver cannot be used from this machine, or at all.
type NotHereError struct{ Why string }

func (e *NotHereError) Error() string { return e.Why }

// OpenSole opens a device's own driver, as csig agent does, and is its only agent until
// the driver is closed. The error is a *NotHereError where there is no driver for it, or
// none that works from here; else that an agent runs, or why it cannot be opened.
func (o *Opener) OpenSole(ctx context.Context, d *inventory.Device, who string, log *logrus.Entry) (vendors.Driver, error) {
	p, err := o.Registry.Platform(d.Platform)
	switch {
	case err != nil:
		return nil, err
	case p.Open == nil:
		return nil, &NotHereError{p.NoDriver(d.Platform)}
	}
	if d.Management.Daemon != nil {
		t, err := o.dialDaemon(ctx, d)
		if err == nil {
			err = errors.Join(t.answers(ctx), t.Close())
		}
		if err == nil || errors.Is(err, api.ErrNoOwner) {
			return nil, fmt.Errorf("the agent of %s answers: stop it first", d.Name)
		}
	}
	here := *d
	here.Management.Daemon = nil // this process is in its place
	netns := ""
	if !d.Local {
		netns = d.Management.NetNS
	}
	switch {
	case !d.Local && netns == "" && d.Management.SSH == nil && len(d.Management.Own) == 0:
		return nil, &NotHereError{errNoManagement.Error()}
	case here.Remote() && p.OnDevice:
		return nil, &NotHereError{p.Title + " is driven on the device alone"}
	}
	lock := &Lock{Log: log}
	s := &sole{holds: []io.Closer{closing(lock.Close)}}
	cfg := vendors.Config{Device: here, Who: who, Claim: func(identity string) error { return lock.Claim(here.Name, identity) }}
	if netns != "" {
		ns, err := os.Open(netns)
		if err != nil {
			return nil, fmt.Errorf("its network namespace: %w", err)
		}
		s.holds = append(s.holds, ns)
		cfg.NetNS = int(ns.Fd())
	}
	if _, err := inNamespace(netns, func() (struct{}, error) { return struct{}{}, lock.Take(&here) }); err != nil {
		return nil, errors.Join(err, s.free())
	}
	if s.Driver, err = o.Registry.Open(d.Platform, cfg); err != nil {
		return nil, errors.Join(err, s.free())
	}
	return s, nil
}

// sole is a driver with what is given back after it.
type sole struct {
	vendors.Driver
	holds  []io.Closer
	closed bool
}

// Unwrap returns the driver, for its optional capabilities.
func (s *sole) Unwrap() any { return s.Driver }

func (s *sole) free() error {
	var errs []error
	for _, h := range s.holds {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// Close may be called twice.
func (s *sole) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.Driver.Close(), s.free())
}

// closing is a function as an io.Closer.
type closing func()

func (f closing) Close() error {
	f()
	return nil
}
