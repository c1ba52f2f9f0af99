// Package controller drives many switches that cannot run csig from one process: for each
// the agent that runs on a switch elsewhere, with its own loop, schedule and lease, at a
// socket of its own.
package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/host"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// Config is what a controller needs.
type Config struct {
	Fleet *inventory.Fleet
	State string      // folder: a file for each device's configuration
	Agent host.Config // of every device, without what is its own
}

// restartPause is how long an agent that ended by itself is left alone.
const restartPause = 5 * time.Second

// Devices are those of a fleet whose agent runs on this machine and reaches them remotely,
// in the file's order. The error names one that cannot be driven so.
func Devices(f *inventory.Fleet) (list []*inventory.Device, err error) {
	for i := range f.Devices {
		d := &f.Devices[i]
		if at := d.Management.Daemon; at == nil || at.At != inventory.Here {
			continue
		}
		p, err := all.Default().Platform(d.Platform)
		switch {
		case err != nil:
			return nil, f.Mistake(d.Name, "platform", "name one of csig platforms", err)
		case p.Open == nil:
			return nil, f.Mistake(d.Name, "platform", "take its management: daemon out", errors.New(p.NoDriver(d.Platform)))
		case p.OnDevice:
			return nil, f.Mistake(d.Name, "management: daemon", "run csig agent --wait on the device", fmt.Errorf("%s is driven on the device alone", p.Title))
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no device for a controller on this machine: mark those it is to drive with management: {daemon: {at: here, socket: /run/csig/NAME.sock}}", f.Path)
	}
	return list, nil
}

// Run drives the devices until ctx ends, and returns when nothing of any agent is left in
// this process. What one of them does delays no other; an agent that ends by itself is
// logged and started again. The error joins what agents could not undo.
func Run(ctx context.Context, cfg Config) error {
	devices, err := Devices(cfg.Fleet)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	errs := make([]error, len(devices))
	var agents sync.WaitGroup
	for i, d := range devices {
		agents.Go(func() { errs[i] = cfg.keep(ctx, d) })
	}
	cfg.Agent.Log.WithFields(logrus.Fields{"devices": len(devices), "fleet": cfg.Fleet.Path, "state": cfg.State}).Info("controller runs")
	agents.Wait()
	return errors.Join(errs...)
}

// keep runs the agent of a device, again where it ends by itself.
func (cfg *Config) keep(ctx context.Context, d *inventory.Device) error {
	own := cfg.Agent
	own.File = filepath.Join(cfg.State, d.Name+".yaml")
	own.Socket, own.Wait = d.Management.Daemon.Socket, true
	own.Log = cfg.Agent.Log.WithField("device", d.Name)
	for {
		err := once(ctx, own)
		switch {
		case ctx.Err() == nil && err != nil:
			own.Log.WithError(err).Errorf("its agent ended; it is started again in %v", restartPause)
		case err != nil:
			return fmt.Errorf("device %s: %w", d.Name, err)
		case ctx.Err() != nil:
			return nil
		}
		if vendors.Wait(ctx, restartPause) != nil {
			return nil
		}
	}
}

// once is one life of an agent. A panic ends it alone.
func once(ctx context.Context, cfg host.Config) (err error) {
	defer untrusted.Recover(&err)
	return host.New(cfg).Run(ctx)
}
