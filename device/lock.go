package device

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/all"
)

// Lock makes this process the only agent of the ports of this network namespace. It
// is held until Close, as the agent's configuration changes. A device that has a lock of
// its own, as a bridge of Open vSwitch has, is locked by its driver instead.
type Lock struct {
	Log *logrus.Entry // gets a warning where a file replaces a lock that another process holds

	mu   sync.Mutex
	free func() // nil: not locked
}

// Take locks what a device needs, unless this process has done so before; nil is a
// device that is not known yet. The error is that another agent runs, or why the lock
// cannot be taken.
func (l *Lock) Take(d *inventory.Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free != nil || d != nil && locksItself(all.Default(), d) {
		return nil
	}
	var err error
	l.free, err = lockDevice(l.Log)
	return err
}

// locksItself reports whether a device's driver holds a lock of the device.
func locksItself(r *all.Registry, d *inventory.Device) bool {
	p, err := r.Platform(d.Platform)
	return err == nil && p.Locks
}

// Close releases the lock.
func (l *Lock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free != nil {
		l.free()
	}
}
