package all

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/vrp"
)

// registerVRP adds the driver over the command line of Huawei's switches.
func registerVRP(r *Registry) {
	for name, title := range map[string]string{vrp.SSeries: "Huawei S series (VRP 5), traffic policy", vrp.CloudEngine: "Huawei CloudEngine (VRP 8, YunShan OS), traffic policy"} {
		r.Register(name, Platform{
			Title: title, Experimental: "it ran with a fake of Huawei's command line, and never on a switch",
			Open:  func(cfg vendors.Config) (vendors.Driver, error) { return openVRP(name, cfg) },
			Rules: vrp.Rules(), Offline: vrp.Offline(name),
			Diff: func(have, want vendors.Setup) ([]vendors.Change, error) { return vrp.Diff(name, have, want) },
			Commands: func(_ vendors.Config, have, want vendors.Setup) ([]byte, error) {
				return vrp.Commands(name, have, want)
			},
			EndLogins: endLogins(docs.VRP, func(ctx context.Context, login ssh.Config, owner *vendors.Owner) (*cli.Session, error) {
				return vrp.Dial(ctx, name, login, owner)
			}),
			FenceSource: vendors.Source{Mark: vendors.Read, From: "Huawei, command references of user interfaces: display users, kill user-interface (CloudEngine), free user-interface (VRP 5)"},
		})
	}
}

// openVRP opens a switch behind SSH, which is connected to at the first use.
func openVRP(platform string, cfg vendors.Config) (vendors.Driver, error) {
	login, err := commandLine(cfg, docs.VRP)
	if err != nil {
		return nil, err
	}
	return vrp.Open(vrp.Config{
		Platform: platform, Updates: cfg.Device.Updates == inventory.UpdatesCLI,
		Dial: func(ctx context.Context) (qos.Session, error) { return vrp.Dial(ctx, platform, login, cfg.Owner) },
	}), nil
}

// commandLine is how to log in to a device that is driven over its command line; page is
// where that is described.
func commandLine(cfg vendors.Config, page string) (ssh.Config, error) {
	login := cfg.Device.Management.SSH
	switch {
	case login == nil:
		return ssh.Config{}, &vendors.PermanentError{Err: errors.New("the device has no login: add management: {ssh: {user: …}} to the fleet file (" + page + ")")}
	case login.Sudo != nil:
		return ssh.Config{}, &vendors.PermanentError{Err: errors.New("management.ssh.sudo has no meaning for a command line: leave it out")}
	}
	return ssh.Config{Address: cfg.Device.Address, Login: *login, Dial: cfg.Dial}, nil
}

// endLogins returns a platform's EndLogins; the page tells of its login.
func endLogins(page string, dial func(context.Context, ssh.Config, *vendors.Owner) (*cli.Session, error)) func(context.Context, vendors.Config, []string) error {
	return func(ctx context.Context, cfg vendors.Config, logins []string) error {
		login, err := commandLine(cfg, page)
		if err != nil {
			return err
		}
		s, err := dial(ctx, login, cfg.Owner)
		if err != nil {
			return err
		}
		return errors.Join(s.EndLogins(ctx, logins), s.Close())
	}
}
