package device

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

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
	if locksItself(all.Default(), d) {
		return nil
	}
	if !d.Remote() {
		return l.take(d.Name, "")
	}
	return l.take(d.Name, remotes(d)...)
}

// Claim locks a device by what it reports of itself, whatever the way to it is. It is a
// vendors.Config's Claim.
func (l *Lock) Claim(device, identity string) error { return l.take(device, identity) }

func (l *Lock) take(device string, names ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := map[string]func(){}
	for _, name := range names {
		if l.held[name] != nil || taken[name] != nil {
			continue
		}
		free, err := lockDevice(name, device, l.Log)
		if err != nil {
			for _, free := range taken {
				free()
			}
			return err
		}
		taken[name] = free
	}
	if l.held == nil {
		l.held = map[string]func(){}
	}
	for name, free := range taken {
		l.held[name] = free
	}
	return nil
}

// resolveTimeout bounds how long the names of a device's address are looked up.
const resolveTimeout = 2 * time.Second

// remotes are the ways to a remote device, by each address that its name has now.
func remotes(d *inventory.Device) (ways []string) {
	way := func(address string) string {
		d := *d
		if d.Address = address; d.Management.SSH != nil {
			return sshAddress(&d)
		}
		return d.Reaches()
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, d.Address)
	if err != nil || len(addresses) == 0 {
		return []string{way(d.Address)} // as it is written
	}
	slices.Sort(addresses)
	for _, a := range addresses {
		ways = append(ways, way(a))
	}
	return ways
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
