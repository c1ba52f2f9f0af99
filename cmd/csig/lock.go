package main

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/all"
)

// locks are what makes this process the only agent of the ports of this network
// namespace. It is held until the process ends, since configurations come and go.
// A device that has a lock of its own, as a bridge of Open vSwitch has, is locked by
// its driver instead.
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
	if l.free != nil || d != nil && locksItself(d) {
		return nil
	}
	var err error
	l.free, err = lockDevice(l.log)
	return err
}

// locksItself reports whether a device's driver holds a lock of the device.
func locksItself(d *inventory.Device) bool {
	p, err := all.Default().Platform(d.Platform)
	return err == nil && p.Locks
}

func (l *locks) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free != nil {
		l.free()
	}
}
