package all

import (
	"fmt"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic"
	"github.com/csig-agent/csig/vlanrules"
)

// registerSONiC adds the driver over SONiC's Redis.
func registerSONiC(r *Registry) {
	r.Register("sonic", Platform{
		Title: "SONiC", Experimental: "it ran with a real Redis and a fake of orchagent, and never on a switch", Open: openSONiC, Rules: sonic.Rules(), Capabilities: []int{capDACOverride},
		Offline: sonic.Offline, Diff: sonic.Diff, Commands: sonicCommands,
		Fence: func(*inventory.Device) vlanrules.Verdict {
			return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "what goes through its Redis (up to 202511) is refused by the Lua script that writes; what goes over ZeroMQ (since 202605) is waited out"}
		},
		FenceSource: vendors.Source{Mark: vendors.Ran, From: "TestFence, with a real Redis"},
	})
}

// openSONiC opens the databases of this switch, or of one behind SSH, which is
// connected to at the first use.
func openSONiC(cfg vendors.Config) (vendors.Driver, error) {
	db, err := sonic.Redis(cfg)
	if err != nil {
		return nil, err // not a nil *sonic.Driver in a Driver that is not nil
	}
	return sonic.Open(sonic.Config{Redis: db}), nil
}

// sonicCommands notes for a switch with a database file of its own that the numbers
// in it may be others: where it is, and whether it can be read, the switch knows.
func sonicCommands(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
	text, err := sonic.Script(have, want)
	if r, ok := inventory.OwnKeys[*sonic.Keys](&cfg.Device); ok && err == nil && len(text) > 0 && r.Databases != "" {
		text = append(fmt.Appendf(nil, "# the numbers after SELECT are SONiC's defaults; those of %s hold\n", r.Databases), text...)
	}
	return text, err
}
