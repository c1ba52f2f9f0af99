package all

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli"
	"github.com/csig-agent/csig/vendors/eos"
	"github.com/csig-agent/csig/vendors/ssh"
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
	login := cfg.Device.Management.SSH
	switch {
	case login == nil:
		return nil, &vendors.PermanentError{Err: errors.New("the device has no login: add management: {ssh: {user: …}} to the fleet file (docs/eos.md)")}
	case login.Sudo != nil:
		return nil, &vendors.PermanentError{Err: errors.New("management.ssh.sudo has no meaning for a command line: leave it out")}
	}
	c := eosOf(&cfg.Device)
	c.Dial = func(ctx context.Context) (*cli.Session, error) {
		return eos.Dial(ctx, ssh.Config{Address: cfg.Device.Address, Login: *login, Dial: cfg.Dial})
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
