package all

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/setup"
	"github.com/csig-agent/csig/vendors/iosxr"
	"github.com/csig-agent/csig/vendors/junos"
	"github.com/csig-agent/csig/vendors/nxos"
)

// setUp is a platform that csig sets up over its command line, and no more.
type setUp struct {
	title   string
	page    string // of docs
	keys    inventory.Platform
	dialect *setup.Dialect
}

// setups are those platforms.
var setups = append([]setUp{
	{"Cisco NX-OS", docs.NXOS, nxos.Platform, nxos.Dialect},
	{"Cisco IOS XR", docs.IOSXR, iosxr.Platform, iosxr.Dialect},
}, junosSetups()...)

func junosSetups() (out []setUp) {
	for _, j := range junos.All {
		out = append(out, setUp{j.Title, docs.Junos, j.Platform, j.Dialect})
	}
	return out
}

func registerSetups(r *Registry) {
	for _, s := range setups {
		r.Register(s.keys.Name, Platform{
			Title: s.title, Experimental: "it ran with a fake of its command line, and never on such a device",
			Open:  func(cfg vendors.Config) (vendors.Driver, error) { return openSetup(s.dialect, s.page, cfg) },
			Rules: s.dialect.Platform.Offline().Rules, Offline: s.dialect.Platform.Offline, Diff: s.dialect.Platform.Diff,
			Commands: func(_ vendors.Config, have, want vendors.Setup) ([]byte, error) {
				return s.dialect.Commands(have, want)
			},
		})
	}
}

// openSetup opens a switch behind SSH, which is connected to at the first use.
func openSetup(d *setup.Dialect, page string, cfg vendors.Config) (vendors.Driver, error) {
	login := cfg.Device.Management.SSH
	switch {
	case login == nil:
		return nil, &vendors.PermanentError{Err: fmt.Errorf("the device has no login: add management: {ssh: {user: …}} to the fleet file (%s)", page)}
	case login.Sudo != nil:
		return nil, &vendors.PermanentError{Err: errors.New("management.ssh.sudo has no meaning for a command line: leave it out")}
	}
	return setup.Open(d, cfg.Device.InnerTag(), func(ctx context.Context) (*cli.Session, error) {
		c := d.Session
		c.SSH = ssh.Config{Address: cfg.Device.Address, Login: *login, Dial: cfg.Dial}
		return cli.Dial(ctx, c)
	}), nil
}
