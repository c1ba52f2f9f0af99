package vendors

import "github.com/csig-agent/csig/inventory"

// Config is what drivers may need to reach a device; each platform reads its
// part of it.
type Config struct {
	Device inventory.Device

	// NetNS is an open file descriptor of the network namespace whose ports
	// the linux platform drives; 0 is the caller's own. The caller closes it,
	// after the driver.
	NetNS int
}
