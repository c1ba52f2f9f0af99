package all

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/ssh"
)

func registerOVS(r *Registry) {
	r.Register("ovs", Platform{
		Title: "Open vSwitch", Open: openOVS, Rules: ovs.Rules(),
		Offline: ovs.Offline, Diff: ovs.Diff, Commands: ovs.Commands,
	})
}

// openOVS opens a bridge of Open vSwitch, on this machine or behind SSH. It
// connects at the first use.
func openOVS(cfg vendors.Config) (vendors.Driver, error) {
	c := ovs.Config{}
	if o := cfg.Device.Management.OVS; o != nil {
		c.Bridge, c.RunDir, c.Table = o.Bridge, o.RunDir, o.Table
	}
	if cfg.Afar() {
		if cfg.Device.Address == "" {
			return nil, &vendors.PermanentError{Err: errors.New("the device has no address: add one to the fleet file")}
		}
		c.Dial, c.Done = UnixSockets(cfg)
	}
	d, err := ovs.Open(c)
	if err != nil {
		return nil, err // not a nil *ovs.Driver in a Driver that is not nil
	}
	return d, nil
}

// UnixSockets connects to unix sockets of a device behind SSH, through one
// connection that is made when it is needed, and made anew when it broke; done
// ends it.
func UnixSockets(cfg vendors.Config) (dial func(ctx context.Context, path string) (net.Conn, error), done func() error) {
	f := &far{cfg: cfg, login: cfg.Device.Management.SSH}
	return f.dial, f.close
}

// far is a connection with a device.
type far struct {
	cfg   vendors.Config
	login *inventory.SSH

	mu sync.Mutex
	c  *ssh.Client
}

func (f *far) dial(ctx context.Context, path string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c != nil {
		if conn, err := f.c.DialUnix(ctx, path); err == nil {
			return conn, nil
		}
		_ = f.c.Close() // perhaps it broke: once more, with another
		f.c = nil
	}
	c, err := ssh.Dial(ctx, ssh.Config{Address: f.cfg.Device.Address, Login: *f.login, Dial: f.cfg.Dial})
	if err != nil {
		return nil, err
	}
	f.c = c
	return c.DialUnix(ctx, path)
}

func (f *far) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c == nil {
		return nil
	}
	err := f.c.Close()
	f.c = nil
	return err
}
