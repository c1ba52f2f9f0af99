package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
)

// fileLook is how often the controller looks whether its fleet file has changed.
const fileLook = time.Second

// members are the agents of a controller's devices, by name.
type members struct {
	cfg    *Config
	fleet  *inventory.Fleet
	watch  inventory.Watch
	byName map[string]*member

	mu   sync.Mutex
	errs []error // of agents that have ended for good
}

// member is the agent of one device.
type member struct {
	device *inventory.Device
	stop   context.CancelFunc
	ended  chan struct{}
}

// sameAgent reports whether the agent of a device may go on: what else the fleet file has of
// it reaches the agent with csig apply.
func sameAgent(a, b *inventory.Device) bool {
	return a.Platform == b.Platform && a.Management.Daemon.Socket == b.Management.Daemon.Socket
}

// set has exactly these devices driven. The agents of those that are driven already go on.
func (m *members) set(ctx context.Context, devices []*inventory.Device) (added, removed []string) {
	stay := map[string]bool{}
	for _, d := range devices {
		if have := m.byName[d.Name]; have != nil && sameAgent(have.device, d) {
			stay[d.Name] = true
		}
	}
	var ending []*member
	for name, have := range m.byName {
		if !stay[name] {
			have.stop()
			ending = append(ending, have)
			removed = append(removed, name)
			delete(m.byName, name)
		}
	}
	for _, have := range ending { // before another agent takes its device or its socket
		<-have.ended
	}
	for _, d := range devices {
		if !stay[d.Name] {
			m.start(ctx, d, len(devices)-1)
			added = append(added, d.Name)
		}
	}
	return added, removed
}

func (m *members) start(ctx context.Context, d *inventory.Device, beside int) {
	ctx, stop := context.WithCancel(ctx)
	one := &member{device: d, stop: stop, ended: make(chan struct{})}
	m.byName[d.Name] = one
	go func() {
		defer close(one.ended)
		err := m.cfg.keep(ctx, d, beside)
		if err != nil {
			m.cfg.Agent.Log.WithError(err).Error("what an agent could not undo when it ended")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.errs = append(m.errs, err)
	}()
}

// follow changes the devices with the fleet file, until ctx ends.
func (m *members) follow(ctx context.Context) {
	var looks <-chan time.Time
	if m.cfg.Reload != nil {
		ticks := time.NewTicker(fileLook)
		defer ticks.Stop()
		looks = ticks.C
	}
	m.watch.Note(m.fleet.Path, m.fleet, nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
			if m.watch.Changed() {
				m.reload(ctx)
			}
		case <-m.cfg.Reload:
			done := func() {}
			if m.cfg.Reloading != nil {
				done = m.cfg.Reloading()
			}
			m.reload(ctx)
			done()
		}
	}
}

// reload reads the fleet file. One that is bad changes nothing.
func (m *members) reload(ctx context.Context) {
	log := m.cfg.Agent.Log.WithField("fleet", m.fleet.Path)
	fleet, err := device.LoadFleet(m.fleet.Path)
	m.watch.Note(m.fleet.Path, fleet, err)
	var devices []*inventory.Device
	if err == nil {
		devices, err = Devices(fleet)
	}
	if err == nil && m.cfg.Check != nil {
		err = m.cfg.Check(fleet)
	}
	last := api.Reload{Time: time.Now(), File: m.fleet.Path}
	if err != nil {
		last.Error = inventory.Mistakes(err)
		m.cfg.Statuses.reloaded(last)
		log.WithField("error", last.Error).Error("fleet file not reloaded: the devices stay as they are")
		return
	}
	m.fleet = fleet
	added, removed := m.set(ctx, devices)
	m.cfg.Statuses.drives(fleet, devices)
	if m.cfg.OnReload != nil {
		m.cfg.OnReload(fleet)
	}
	m.cfg.Statuses.reloaded(last)
	log.WithFields(logrus.Fields{"devices": len(devices), "started": len(added), "stopped": len(removed)}).Info("fleet file reloaded")
	for _, name := range removed {
		if m.byName[name] == nil {
			log.WithField("device", name).Warn("the device is no longer in the fleet file: its agent has ended as at SIGTERM, and its setup stays there; csig off with the fleet file of before removes it")
		}
	}
}

// wait returns when all agents have ended.
func (m *members) wait() error {
	for _, one := range m.byName {
		<-one.ended
		one.stop()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}
