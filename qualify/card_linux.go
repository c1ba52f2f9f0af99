package qualify

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/vendors/linux/packets"
)

// OpenCard opens a network card of the calling thread's network namespace, which needs
// CAP_NET_RAW, for the port of the switch that it is cabled to.
func OpenCard(port, name string) (*Port, error) {
	nic, err := net.InterfaceByName(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("card %s: this machine, or this network namespace, has no such interface (ip link shows them)", name)
	case len(nic.HardwareAddr) != 6:
		return nil, fmt.Errorf("card %s is no Ethernet interface (ip link shows them)", name)
	case nic.Flags&net.FlagUp == 0:
		return nil, fmt.Errorf("card %s is down: ip link set %s up", name, name)
	}
	s, err := packets.Open(nic.Index, nil)
	if err != nil {
		return nil, fmt.Errorf("card %s: %w", name, err)
	}
	if err := s.Promiscuous(nic.Index); err != nil {
		s.Close()
		return nil, fmt.Errorf("card %s: %w", name, err)
	}
	p := Cabled(port, name, MAC(nic.HardwareAddr), nic.MTU, s)
	// A handle of this namespace: links are taken down by goroutines elsewhere.
	h, err := netlink.NewHandle()
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("card %s: %w", name, err)
	}
	p.card = linked{s, h}
	p.Link = func(up bool) error {
		l, err := h.LinkByIndex(nic.Index)
		switch {
		case err != nil:
			return err
		case up:
			return h.LinkSetUp(l)
		}
		return h.LinkSetDown(l)
	}
	return p, nil
}

// linked is a card with what takes its link down.
type linked struct {
	*packets.Socket
	handle *netlink.Handle
}

func (l linked) Close() error {
	l.handle.Close()
	return l.Socket.Close()
}
