package all

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/comware"
	"github.com/csig-agent/csig/vendors/ssh"
)

// registerComware adds the driver over Comware's command line.
func registerComware(r *Registry) {
	r.Register("comware", Platform{
		Title: "HPE and H3C Comware, QoS policy", Experimental: "it ran with a fake of Comware's command line, and never on a switch",
		Open: openComware, Rules: comware.Rules(), Offline: comware.Offline, Diff: comware.Diff,
		Commands: func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
			return comware.Commands(comwareOf(&cfg.Device), have, want)
		},
	})
}

// openComware opens a switch behind SSH, which is connected to at the first use.
func openComware(cfg vendors.Config) (vendors.Driver, error) {
	login := cfg.Device.Management.SSH
	switch {
	case login == nil:
		return nil, &vendors.PermanentError{Err: errors.New("the device has no login: add management: {ssh: {user: …}} to the fleet file (docs/comware.md)")}
	case login.Sudo != nil:
		return nil, &vendors.PermanentError{Err: errors.New("management.ssh.sudo has no meaning for a command line: leave it out")}
	}
	c := comwareOf(&cfg.Device)
	c.Dial = func(ctx context.Context) (comware.Session, error) {
		return comware.Dial(ctx, ssh.Config{Address: cfg.Device.Address, Login: *login, Dial: cfg.Dial})
	}
	return comware.Open(c), nil
}

// comwareOf is what a device's fleet file says of its switch.
func comwareOf(dev *inventory.Device) comware.Config {
	c := comware.Config{Updates: dev.Updates == inventory.UpdatesCLI}
	if k, ok := inventory.OwnKeys[*comware.Keys](dev); ok {
		c.Outer = k.Tag == "outer"
	}
	return c
}
