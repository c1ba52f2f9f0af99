package main

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
)

// locks are what makes this process the only agent of what it programs: of a
// bridge of Open vSwitch, which may have its ports in any network namespace and
// beside which there may be others, or else of the ports of this one. They are
// held until the process ends, since configurations come and go.
type locks struct {
	log *logrus.Entry

	mu   sync.Mutex
	free map[string]func() // by what is locked
}

// take locks a device, unless this process has done so before; nil is one that
// is not known yet.
func (l *locks) take(d *inventory.Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	what, lock := "", func() (func(), error) { return lockDevice(l.log) }
	if d != nil && d.Platform == "ovs" {
		o := d.Management.OVS
		if o == nil {
			return nil // no bridge: the driver says so
		}
		what, lock = o.RunDir+"/"+o.Bridge, func() (func(), error) { return lockBridge(o.RunDir, o.Bridge) }
	}
	if l.free[what] != nil {
		return nil
	}
	free, err := lock()
	if err == nil {
		l.free[what] = free
	}
	return err
}

func (l *locks) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, free := range l.free {
		free()
	}
}
