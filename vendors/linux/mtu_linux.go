package linux

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

var _ vendors.MTUSetter = (*Driver)(nil)

// route opens the kernel's list of network devices.
func (d *Driver) route() (*netlink.Handle, error) {
	in := vnetns.None()
	if d.cfg.NetNS != 0 {
		in = vnetns.NsHandle(d.cfg.NetNS)
	}
	return netlink.NewHandleAt(in, unix.NETLINK_ROUTE)
}

// MTUs reads the MTU of every network device.
func (d *Driver) MTUs(ctx context.Context) (map[string]int, error) {
	links, err := d.linkList(ctx)
	if err != nil {
		return nil, fmt.Errorf("read MTUs: %w", err)
	}
	out := make(map[string]int, len(links))
	for _, l := range links {
		out[l.Attrs().Name] = l.Attrs().MTU
	}
	return out, nil
}

// SetMTU sets the MTU of one port.
func (d *Driver) SetMTU(ctx context.Context, port string, mtu int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := d.route()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(port)
	if err != nil {
		return err
	}
	return h.LinkSetMTU(l, mtu)
}
