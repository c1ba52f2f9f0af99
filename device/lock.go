package device

import (
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/all"
)

// Lock makes this process the only agent of the ports of this network namespace, or of a
// remote device on this machine. It is held until Close, as the agent's configuration
// changes. A device that has a lock of its own, as a bridge of Open vSwitch has, is locked
// by its driver instead.
type Lock struct {
	Log *logrus.Entry // gets a warning where a file replaces a lock that another process holds

	mu   sync.Mutex
	held map[string]func() // by the remote device; "": this network namespace
}

// Take locks what a device needs, unless this process has done so before. The error is
// that another agent runs, or why the lock cannot be taken.
func (l *Lock) Take(d *inventory.Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	remote := ""
	if d.Remote() {
		if remote = d.Reaches(); d.Management.SSH != nil {
			remote = sshAddress(d)
		}
	}
	if l.held[remote] != nil || locksItself(all.Default(), d) {
		return nil
	}
	free, err := lockDevice(remote, d.Name, l.Log)
	if err != nil {
		return err
	}
	if l.held == nil {
		l.held = map[string]func(){}
	}
	l.held[remote] = free
	return nil
}

// locksItself reports whether a device's driver holds a lock of the device.
func locksItself(r *all.Registry, d *inventory.Device) bool {
	p, err := r.Platform(d.Platform)
	return err == nil && p.Locks
}

// Close releases what is locked.
func (l *Lock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, free := range l.held {
		free()
	}
	l.held = nil
}
