package all

import (
	"context"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/eos"
)

// registerEOS adds the driver over EOS's command line.
func registerEOS(r *Registry) {
	r.Register("eos", Platform{
		Title: "Arista EOS, DirectFlow", Experimental: "it ran with a fake of EOS's command line, and never on a switch",
		Open: openEOS, Rules: eos.Rules(), Offline: eos.Offline, Diff: eos.Diff,
		Commands: func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
			return eos.Commands(eosOf(&cfg.Device), have, want)
		},
		Refuse: func(cfg vendors.Config, want vendors.Setup) error {
			c := eosOf(&cfg.Device)
			return c.Undeclared(&want)
		},
	})
}

// openEOS opens a switch behind SSH, which is connected to at the first use.
func openEOS(cfg vendors.Config) (vendors.Driver, error) {
	login, err := commandLine(cfg, docs.EOS)
	if err != nil {
		return nil, err
	}
	c := eosOf(&cfg.Device)
	c.Dial = func(ctx context.Context) (*cli.Session, error) {
		return eos.Dial(ctx, login)
	}
	return eos.Open(c), nil
}

// eosOf is what a device's fleet file says of its switch.
func eosOf(dev *inventory.Device) eos.Config {
	c := eos.Config{Updates: dev.Updates == inventory.UpdatesCLI}
	if k, ok := inventory.OwnKeys[*eos.Keys](dev); ok {
		c.Forwarding, c.Priority = k.Forwarding, k.Priority
	}
	return c
}
