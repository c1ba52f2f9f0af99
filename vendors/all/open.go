package all

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/ssh"
)

// openLinux opens the ports of this machine, or of one of its network namespaces.
func openLinux(cfg vendors.Config) (vendors.Driver, error) {
	if cfg.Remote() {
		return nil, &vendors.PermanentError{Err: errors.New("a Linux switch is set up by csig agent on it: install csig there, start csig agent --wait, and say where it listens (management: daemon)")}
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
