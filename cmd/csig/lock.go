package main

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
)

// locks are what makes this process the only agent of the ports of this network
// namespace. It is held until the process ends, since configurations come and go.
// A bridge of Open vSwitch, which may have its ports in any namespace and beside
// which there may be others, has a lock of its own, which its driver holds.
type locks struct {
	log *logrus.Entry

	mu   sync.Mutex
	free func() // nil: not locked
}

// take locks what a device needs, unless this process has done so before; nil is
// one that is not known yet.
func (l *locks) take(d *inventory.Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free != nil || d != nil && d.Platform == "ovs" {
		return nil
	}
	var err error
	l.free, err = lockDevice(l.log)
	return err
}

func (l *locks) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free != nil {
		l.free()
	}
}
