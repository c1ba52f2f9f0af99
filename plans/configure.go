package plans

import "github.com/csig-agent/csig/vendors"

// Configurer is a target that is driven through a daemon with a configuration
// of its own. It reads nothing, and may be asked after its Close.
type Configurer interface {
	// Configured returns a setup with the hash of the configuration that goes
	// with it: made from the one it names, else from the fleet, for its ports
	// and their actions. The error says why there is none.
	Configured(want vendors.Setup) (vendors.Setup, error)
}

// configured adds to a wanted setup what its device's daemon is to run.
func (b *builder) configured(n *node, want vendors.Setup) vendors.Setup {
	c, ok := n.seen.Differ.(Configurer)
	if !ok || none(&want) || n.seen.Err != nil {
		return want
	}
	out, err := c.Configured(want)
	if err != nil {
		b.find(SeverityError, n, "", "the configuration of its daemon: %v", err)
		return want
	}
	return out
}
