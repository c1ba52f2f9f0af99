package all

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs"
)

func registerOVS(r *Registry) {
	r.Register("ovs", Platform{
		Title: "Open vSwitch", Open: openOVS, Rules: ovs.Rules(), Capabilities: []int{capDACOverride}, Locks: true,
		Offline: ovs.Offline, Diff: ovs.Diff, Commands: func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
			return ovs.Commands(bridgeOf(&cfg), have, want)
		},
		Fence:       openFlowFence,
		FenceSource: vendors.Source{Mark: vendors.Ran, From: "TestFormerOwner (Open vSwitch 3.1); the database refuses what its lock does not cover any more (RFC 7047, §5.2.8)"},
	})
}

// openOVS opens a bridge of Open vSwitch, on this machine or behind SSH. It
// connects at the first use.
func openOVS(cfg vendors.Config) (vendors.Driver, error) {
	c := bridgeOf(&cfg)
	if cfg.Remote() {
		if cfg.Device.Address == "" {
			return nil, &vendors.PermanentError{Err: errors.New("the device has no address: add one to the fleet file")}
		}
		c.Dial, c.Done = UnixSockets(cfg)
	}
	dial := c.Dial
	if dial == nil {
		dial = dialUnix
	}
	d, err := ovs.Open(c)
	if err != nil {
		return nil, err // not a nil *ovs.Driver in a Driver that is not nil
	}
	socket := path.Join(cmp.Or(c.RunDir, ovs.DefaultRunDir), c.Bridge+".mgmt")
	with := dialed(c.Guard, func(ctx context.Context) (net.Conn, error) { return dial(ctx, socket) })
	formers := func(ctx context.Context, cfg *vendors.Config) ([]vendors.Former, error) {
		found, err := openFlows(ctx, c.Bridge, with)
		if err != nil || cfg.Remote() {
			return found, err
		}
		others, err := bridges(ctx, cfg, socket)
		return append(found, others...), err
	}
	return sole(cfg, d, formers, kernelPlanes(with)), nil
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// bridgeOf is the bridge that a device is.
func bridgeOf(cfg *vendors.Config) ovs.Config {
	c := ovs.Config{Who: cfg.Who, Take: cfg.Take}
	if o, ok := inventory.OwnKeys[*ovs.Keys](&cfg.Device); ok {
		c.Bridge, c.RunDir, c.Table = o.Bridge, o.RunDir, o.Table
		if o.IsMaster() {
			c.Role = ofp.RoleMaster
		}
	}
	if cfg.Owner != nil {
		c.Guard = &ofp.Guard{May: cfg.Owner.MayWrite, Generation: cfg.Owner.Token}
	}
	return c
}

// UnixSockets connects to unix sockets of a device behind SSH, as root where the
// fleet file has sudo. They share one login, which is made at the first use and
// again after the connection is lost; done ends it.
func UnixSockets(cfg vendors.Config) (dial func(ctx context.Context, path string) (net.Conn, error), done func() error) {
	t := ssh.NewTunnel(ssh.Config{Address: cfg.Device.Address, Login: *cfg.Device.Management.SSH, Dial: cfg.Dial})
	return func(ctx context.Context, path string) (net.Conn, error) { return t.Dial(ctx, "unix", path) }, t.Close
}
