package all

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/ssh"
)

// openLinux opens the ports of this machine, of one of its network namespaces,
// or of a switch behind SSH. The SSH connection is made at the first use.
func openLinux(cfg vendors.Config) (vendors.Driver, error) {
	if cfg.Afar() {
		if cfg.Device.Address == "" {
			return nil, &vendors.PermanentError{Err: errors.New("the device has no address: add one to the fleet file")}
		}
		return linux.OpenAfar(linux.AfarConfig{Connect: func(ctx context.Context) (linux.Runner, error) {
			return Login(ctx, ssh.Config{Address: cfg.Device.Address, Login: *cfg.Device.Management.SSH, Dial: cfg.Dial})
		}}), nil
	}
	d, err := linux.Open(linux.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, err // not a nil *linux.Driver in a Driver that is not nil
	}
	return d, nil
}

// Login logs in at a switch that runs commands, as root where the fleet file has
// sudo. After a *vendors.PermanentError something has to be changed first.
func Login(ctx context.Context, cfg ssh.Config) (linux.Runner, error) {
	if cfg.Login.Sudo == nil {
		c, err := ssh.Dial(ctx, cfg)
		if err != nil {
			return nil, err // not a nil *ssh.Client in a Runner that is not nil
		}
		return c, nil
	}
	r, err := ssh.DialRoot(ctx, cfg)
	var refused *ssh.SudoError
	switch {
	case errors.As(err, &refused):
		return nil, &vendors.PermanentError{Err: err}
	case err != nil:
		return nil, err
	}
	return r, nil
}
