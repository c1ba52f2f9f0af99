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
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// Config is what a controller needs.
type Config struct {
	Fleet *inventory.Fleet
	State string       // folder: a file for each device's configuration
	Agent agent.Config // of every device, without what is its own
	Share *owner.Store // with other controllers; nil: there are none

	Statuses *Statuses // of the devices; nil: not asked for

	// Reload has something in it when a user wants the fleet file read again; nil: it is read
	// once, and changes of it are not looked for.
	Reload    <-chan struct{}
	Reloading func() (done func()) // called when it is, and what it returns when that is done; nil for none

	// Check refuses a fleet file that is read again, and OnReload is called with one that is in force; nil for none.
	Check    func(*inventory.Fleet) error
	OnReload func(*inventory.Fleet)

	// OnReady is called when all agents have been started: with whether the controller makes
	// progress, and its state in a few words. nil for none.
	OnReady func(alive func() bool, line func() string)

	lives *lives
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
		case !p.Shared():
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
	cfg.lives = &lives{of: map[string]*agent.Process{}}
	m := &members{cfg: &cfg, fleet: cfg.Fleet, byName: map[string]*member{}}
	m.set(ctx, devices)
	cfg.Statuses.drives(cfg.Fleet, devices)
	cfg.Agent.Log.WithFields(logrus.Fields{"devices": len(devices), "fleet": cfg.Fleet.Path, "state": cfg.State}).Info("controller runs")
	if cfg.OnReady != nil {
		cfg.OnReady(cfg.lives.alive, cfg.lives.line)
	}
	m.follow(ctx)
	return m.wait()
}

// keep runs the agent of a device beside so many others, again where it ends by itself.
func (cfg *Config) keep(ctx context.Context, d *inventory.Device, beside int) error {
	own := cfg.Agent
	own.Beside = beside
	own.File = filepath.Join(cfg.State, d.Name+".yaml")
	own.Socket, own.Wait, own.LeaveBare = d.Management.Daemon.Socket, true, true
	own.Log = cfg.Agent.Log.WithField("device", d.Name)
	defer cfg.Statuses.set(d.Name, source{})()
	for {
		err := cfg.run(ctx, d, own)
		switch {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil
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

// run is one life of a device's agent, with whatever lets it drive the device.
func (cfg *Config) run(ctx context.Context, d *inventory.Device, own agent.Config) error {
	if cfg.Share != nil {
		return cfg.owned(ctx, d, own)
	}
	a, free := newAgent(own, nil)
	defer free()
	defer cfg.Statuses.set(d.Name, source{status: a.Status, why: a.Why})()
	defer cfg.lives.begin(d.Name, a)()
	return once(ctx, a)
}

// who names a controller to the devices.
const who = "csig-controller"

// newAgent is the agent of a device that several controllers may share, and what gives up the device's lock.
func newAgent(cfg agent.Config, shared *vendors.Owner) (a *agent.Process, free func()) {
	own := &device.Own{Lock: device.Lock{Log: cfg.Log}, Who: who, Owner: shared}
	cfg.OpenSource, cfg.OpenDriver, cfg.KnowsPlatform = own.OpenSource, own.OpenDriver, own.KnowsPlatform
	return agent.NewProcess(cfg), own.Close
}

// once is the life of an agent. A panic ends it alone.
func once(ctx context.Context, a *agent.Process) (err error) {
	defer untrusted.Recover(&err)
	return a.Run(ctx)
}
