package linux

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/vendors"
)

var _ vendors.HealthReader = (*Driver)(nil)

// listTries is how often a dump of the devices is repeated because one came or went
// in the middle.
const listTries = 5

// Health reads the error and drop counters of every network device. Discards
// are the device's own; those of its queueing discipline are not among them,
// since a full queue is what congestion is.
func (d *Driver) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	links, err := d.linkList(ctx)
	if err != nil {
		return nil, fmt.Errorf("read error counters: %w", err)
	}
	var out []vendors.PortHealth
	for _, l := range links {
		if s := l.Attrs().Statistics; s != nil {
			out = append(out, vendors.PortHealth{Port: l.Attrs().Name, Errors: s.RxErrors + s.TxErrors, Discards: s.RxDropped + s.TxDropped})
		}
	}
	return out, nil
}

// linkList lists the network devices.
func (d *Driver) linkList(ctx context.Context) ([]netlink.Link, error) {
	h, err := d.route()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		links, err := h.LinkList()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == listTries {
			return links, err
		}
	}
}
