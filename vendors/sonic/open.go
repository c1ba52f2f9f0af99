package sonic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Redis returns the databases of a device: those of this machine where the
// device is local, else those of its address through SSH. It connects when it
// is first used, as root where the fleet file has sudo, and the passwords, where
// there are any, are fetched then.
func Redis(cfg vendors.Config) (*sonicdb.Client, error) {
	dev := &cfg.Device
	how, ok := inventory.OwnKeys[*Keys](dev)
	if !ok {
		how = &Keys{}
	}
	opt := sonicdb.Options{File: how.Databases, Socket: how.Socket}
	if how.Port != 0 {
		opt.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(how.Port)))
	}
	if !how.Password.IsZero() {
		opt.Password = how.Password.Resolve
	}
	if cfg.Owner != nil {
		opt.Token = cfg.Owner.Token
	}
	switch {
	case dev.Local:
		opt.Dial = (&net.Dialer{}).DialContext
		opt.ReadFile = func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }
		return sonicdb.New(opt), nil
	case dev.Management.SSH == nil:
		return nil, &vendors.PermanentError{Err: errors.New("csig does not know how to reach its Redis: mark it local: true on the switch itself, or give management: ssh")}
	case dev.Address == "":
		return nil, &vendors.PermanentError{Err: errors.New("the device has no address: add one to the fleet file")}
	}
	t := ssh.NewTunnel(ssh.Config{Address: dev.Address, Login: *dev.Management.SSH, Dial: cfg.Dial})
	opt.Connect = ssh.DefaultTimeout
	if dev.Management.SSH.Sudo != nil {
		opt.Connect *= 2 // it holds for either half
	}
	opt.Dial, opt.Close = t.Dial, t.Close
	opt.ReadFile = func(ctx context.Context, path string) ([]byte, error) {
		out, err := t.Run(ctx, "cat "+untrusted.ShellWord(path), nil)
		if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
			return nil, fmt.Errorf("%w: %w", exit, fs.ErrNotExist)
		}
		return out, err
	}
	return sonicdb.New(opt), nil
}
