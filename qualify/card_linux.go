package qualify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	mdnetlink "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/protocol/packets"
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
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("card %s: %w: run csig as root, or give it CAP_NET_RAW", name, err)
	}
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
	c, err := mdnetlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		h.Close()
		s.Close()
		return nil, fmt.Errorf("card %s: %w", name, err)
	}
	p.card = linked{s, h, c}
	p.Carrier = func() (bool, uint32, error) { return carrierOf(c, nic.Index) }
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

// Restore brings up a card, of the calling thread's network namespace, that an interrupted
// run has left down, as the report in its folder has noted.
func Restore(folder, name string) error {
	before, err := Load(filepath.Join(folder, reportJSON))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case before.LinkDown != name:
		return nil
	}
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("bringing card %s up: %w", name, err)
	}
	return nil
}

// linked is a card with what takes its link down.
type linked struct {
	*packets.Socket
	handle *netlink.Handle
	conn   *mdnetlink.Conn
}

func (l linked) Close() error {
	l.handle.Close()
	return errors.Join(l.conn.Close(), l.Socket.Close())
}
