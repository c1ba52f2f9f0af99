package plans

import (
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Configurer is a target that is driven through a daemon with a configuration
// of its own. It reads nothing, and may be asked after its Close.
type Configurer interface {
	// Configured returns a setup with the hash of the configuration that goes
	// with it: made from the one it names, else from the fleet, for its ports
	// and their actions. The error says why there is none.
	Configured(want vendors.Setup) (vendors.Setup, error)
}

// configured adds to a wanted setup what its device's daemon is to run. The error
// is why it cannot, for misconfigured; a panic is one.
func configured(n *node, want vendors.Setup) (out vendors.Setup, err error) {
	out = want
	defer untrusted.Recover(&err)
	c, ok := n.seen.Differ.(Configurer)
	if !ok || want.Nothing() || n.seen.Err != nil {
		return want, nil
	}
	made, err := c.Configured(want)
	if err != nil {
		return want, err
	}
	return made, nil
}

// misconfigured notes why a device's daemon cannot run what it should.
func (b *builder) misconfigured(n *node, err error) {
	if err != nil {
		b.find(findings.ConfigRefused, findings.Error, n, nil, "the configuration of its daemon: %v", err)
	}
}
