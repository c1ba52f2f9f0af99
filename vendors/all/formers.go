package all

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow"
	"github.com/csig-agent/csig/vendors/ovs"
)

// What other platforms than a device's may have left where it is: the kernel's data planes at
// ports of this machine, and flows of OpenFlow on its switch.

// finder finds what one of them left.
type finder func(context.Context, *vendors.Config) ([]vendors.Former, error)

// sole is a driver beside which nothing is left.
func sole(cfg vendors.Config, d vendors.Driver, finders ...finder) vendors.Driver {
	return &vendors.Sole{Driver: d, Formers: func(ctx context.Context) (all []vendors.Former, err error) {
		for _, find := range finders {
			found, err := find(ctx, &cfg)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}}
}

// madeAs names what a platform made.
func madeAs(what, platform string) string {
	return fmt.Sprintf("%s, which csig made as platform %s,", what, platform)
}

// session does something over a connection of OpenFlow with a device's switch.
type session func(context.Context, func(*ofp.Conn) error) error

// dialed is a session of its own each time.
func dialed(guard *ofp.Guard, dial func(context.Context) (net.Conn, error)) session {
	return func(ctx context.Context, do func(*ofp.Conn) error) error {
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		of, err := ofp.NewConn(ctx, c, ofp.Version13, ofp.Version14)
		if err != nil {
			return err
		}
		if guard != nil {
			of.Guard(guard)
		}
		return errors.Join(do(of), of.Close())
	}
}

// ovsFlows are csig's flows of platform ovs on a switch of OpenFlow 1.3.
func ovsFlows(ctx context.Context, with session) ([]vendors.Former, error) {
	return flowsLeft(ctx, with, "its switch", "ovs", func(ctx context.Context, of *ofp.Conn) (int, bool, error) {
		flows, leased, err := ovs.FlowsLeft(ctx, of)
		return len(flows), leased, err
	}, func(ctx context.Context, of *ofp.Conn) error {
		flows, _, err := ovs.FlowsLeft(ctx, of)
		if err != nil {
			return err
		}
		return ovs.RemoveFlowsLeft(ctx, of, flows)
	})
}

// openFlows are csig's flows of the platforms of OpenFlow 1.3 on a bridge of Open vSwitch.
func openFlows(ctx context.Context, bridge string, with session) ([]vendors.Former, error) {
	return flowsLeft(ctx, with, "bridge "+bridge, "openflow", openflow.FlowsLeft, openflow.RemoveFlowsLeft)
}

// flowsLeft are the flows that a platform has somewhere, which read counts and remove deletes.
func flowsLeft(ctx context.Context, with session, where, platform string, read func(context.Context, *ofp.Conn) (n int, leased bool, err error), remove func(context.Context, *ofp.Conn) error) (found []vendors.Former, err error) {
	err = with(ctx, func(of *ofp.Conn) error {
		n, leased, err := read(ctx, of)
		if n > 0 {
			o := flowsOf(where, platform, n, leased)
			o.Remove = func(ctx context.Context) error {
				return with(ctx, func(of *ofp.Conn) error { return remove(ctx, of) })
			}
			found = []vendors.Former{o}
		}
		return err
	})
	return found, err
}

// flowsOf are flows of a platform's, which an agent drives as long as their lease lasts.
func flowsOf(where, platform string, n int, leased bool) vendors.Former {
	o := vendors.Former{What: madeAs(fmt.Sprintf("%d flows of %s", n, where), platform)}
	if leased {
		o.By = "an agent whose lease has not ended"
	}
	return o
}

// onThisMachine reports whether a device's switch runs here, so that its ports may be network
// devices of this namespace.
func onThisMachine(d *inventory.Device) bool {
	switch keys, ok := inventory.OwnKeys[*openflow.Keys](d); {
	case !ok:
		return d.Management.SSH == nil || d.Local
	case keys.Listen != "":
		return isHere(keys.Listen)
	}
	return isHere(d.Address)
}

// BesideKernel reports whether an agent of the device looks for what the platforms of Linux left
// at its ports, which takes their capabilities.
func BesideKernel(d *inventory.Device) bool {
	_, flows := inventory.OwnKeys[*openflow.Keys](d)
	_, bridge := inventory.OwnKeys[*ovs.Keys](d)
	return (flows || bridge) && onThisMachine(d)
}

func isHere(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address == "localhost"
	}
	if ip.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.IP(ip.AsSlice())) {
			return true
		}
	}
	return false
}

// portNames are the names of a device's ports.
func portNames(d *inventory.Device) map[string]bool {
	names := make(map[string]bool, len(d.Ports))
	for i := range d.Ports {
		names[d.Ports[i].Name] = true
	}
	return names
}
