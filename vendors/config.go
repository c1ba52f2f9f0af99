package vendors

import (
	"context"
	"net"

	"github.com/csig-agent/csig/inventory"
)

// Config is what drivers may need to reach a device; each platform reads its
// part of it.
type Config struct {
	// Device is remote where its management says how to reach it and it is not
	// local.
	Device inventory.Device

	// NetNS is an open file descriptor of the network namespace whose ports
	// the linux platform drives; 0 is the caller's own. The caller closes it,
	// after the driver.
	NetNS int

	// Who is the owner's name, shown to others, where the device has a writer's
	// lock; "" is csig. With Take the driver takes the lock from its holder, as
	// csig off does.
	Who  string
	Take bool

	// Claim makes this process the only one on this machine that drives the device that
	// describes itself so, e.g. by its datapath ID; the error is that another one does.
	// nil: it need not be.
	Claim func(identity string) error

	// Owner is that of a device that several controllers share; nil: no other drives it.
	// Dial is its Guard then.
	Owner *Owner

	// Note gets what an operator should read of what happens beside the driver's calls,
	// each as one line, from any goroutine; nil: it is lost. It does not block.
	Note func(what string)

	// Dial makes connections to the device's address; nil is net.Dialer's
	// DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Remote reports whether the device is reached over SSH, by a program that
// does not run on it.
func (c *Config) Remote() bool {
	return c.NetNS == 0 && !c.Device.Local && c.Device.Management.SSH != nil
}
