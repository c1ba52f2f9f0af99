package netdev

import (
	"fmt"
	"math"
	"slices"

	"github.com/vishvananda/netlink"
)

// Drain is how the queue of a port drains, as far as its root queueing discipline tells.
type Drain struct {
	Rate    uint64 // bit/s
	Limit   uint64 // bytes that may wait; 0: it is counted in frames, or not known
	Frames  uint64 // frames that may wait; 0: it is counted in bytes, or not known
	Refused string // why the backlog at the root is not what waits in front of a frame; then the others are 0
}

// Drain reads how the queue of a network device drains. The backlog of a root tbf is what
// waits in front of the next frame, and that of an HTB whose only leaf takes every frame.
// Others have no backlog of their own, or choose among queues.
func (ns NS) Drain(index int) (Drain, error) {
	h, err := ns.route()
	if err != nil {
		return Drain{}, err
	}
	defer h.Close()
	dev := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
	list, err := h.QdiscList(dev)
	if err != nil {
		return Drain{}, fmt.Errorf("read queueing disciplines: %w", err)
	}
	for _, q := range list {
		if q.Attrs().Parent != netlink.HANDLE_ROOT {
			continue
		}
		switch q := q.(type) {
		case *netlink.Tbf:
			return drainAt(q.Rate, uint64(q.Limit)), nil
		case *netlink.Htb:
			return htbDrain(h, dev, q, list)
		}
		return Drain{Refused: fmt.Sprintf("its root queueing discipline is %s, whose backlog is not what waits in front of a frame: tbf, or htb with one leaf, shows that", q.Type())}, nil
	}
	return Drain{Refused: "it has no queueing discipline"}, nil
}

func drainAt(bytes, limit uint64) Drain {
	if bytes == 0 || bytes > math.MaxUint64/8 {
		return Drain{Refused: fmt.Sprintf("its queue drains at %d bytes a second, which is no rate", bytes)}
	}
	return Drain{Rate: 8 * bytes, Limit: limit}
}

// htbDrain is that of an HTB with a single leaf. The leaf's own queue, where nobody gave it
// another, holds as many frames as the device's transmit queue did when it was made.
func htbDrain(h *netlink.Handle, dev netlink.Link, root *netlink.Htb, list []netlink.Qdisc) (Drain, error) {
	classes, err := h.ClassList(dev, netlink.HANDLE_NONE)
	if err != nil {
		return Drain{}, fmt.Errorf("read classes of htb: %w", err)
	}
	var leaf *netlink.HtbClass
	for _, c := range classes {
		if c, ok := c.(*netlink.HtbClass); ok && c.Level == 0 {
			if leaf != nil {
				return Drain{Refused: "its htb has more than one leaf: which of them a frame goes to is not decided yet where the data plane sees it"}, nil
			}
			leaf = c
		}
	}
	_, minor := netlink.MajorMinor(leafHandle(leaf))
	switch {
	case leaf == nil:
		return Drain{Refused: "its htb has no leaf"}, nil
	case root.Defcls != uint32(minor):
		return Drain{Refused: "frames pass its htb that are of no class: make its only leaf the default"}, nil
	case leaf.Rate != leaf.Ceil:
		return Drain{Refused: "the leaf of its htb drains at its rate or its ceil: make them equal"}, nil
	}
	d := drainAt(leaf.Rate, 0)
	if d.Refused != "" || slices.ContainsFunc(list, func(q netlink.Qdisc) bool { return q.Attrs().Parent == leaf.Handle }) {
		return d, nil
	}
	l, err := h.LinkByIndex(dev.Attrs().Index)
	if err != nil {
		return d, fmt.Errorf("read the length of the transmit queue: %w", err)
	}
	d.Frames = uint64(max(l.Attrs().TxQLen, 0))
	return d, nil
}

func leafHandle(c *netlink.HtbClass) uint32 {
	if c == nil {
		return 0
	}
	return c.Handle
}
