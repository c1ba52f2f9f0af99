package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Links knows which network devices exist, and is notified when that changes. It is not safe for
// concurrent use.
type Links struct {
	Index  map[string]int    // ifindex by name, of all devices
	Name   map[int]string    // the reverse
	Egress map[string]Egress // what devices do with frames, by name

	netns  int
	events *netlink.Conn
	raw    syscall.RawConn

	buf  []byte
	n    int
	err  error
	read func(fd uintptr) bool
}

// Egress is what a network device does with frames that it sends.
type Egress struct {
	GSO      uint64 // bytes of the longest frame that it segments later
	MTU      uint32 // bytes
	TxQLen   uint32 // frames that a queue of its own holds
	TxQueues uint32
	Wire     bool // it is an Ethernet card: one of a kind that the kernel makes (veth, tun) has no wire
}

// WatchLinks begins to be notified. It knows no device before Scan.
func (ns NS) WatchLinks() (*Links, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: int(ns), Groups: unix.RTMGRP_LINK})
	if err != nil {
		return nil, fmt.Errorf("listen for changes of network devices: %w", err)
	}
	l := &Links{netns: int(ns), events: conn, buf: make([]byte, 64<<10)}
	if l.raw, err = conn.SyscallConn(); err != nil {
		_ = conn.Close() // the error says more
		return nil, fmt.Errorf("listen for changes of network devices: %w", err)
	}
	l.read = func(fd uintptr) bool {
		l.n, l.err = unix.Read(int(fd), l.buf)
		return true // never wait: no event is the usual answer
	}
	return l, nil
}

// Scan lists the devices.
func (l *Links) Scan() error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: l.netns})
	if err != nil {
		return fmt.Errorf("list network devices: %w", err)
	}
	defer conn.Close()
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, unix.SizeofIfInfomsg),
	})
	if err != nil {
		return fmt.Errorf("list network devices: %w", err)
	}
	l.Index, l.Name, l.Egress = make(map[string]int, len(answers)), make(map[int]string, len(answers)), make(map[string]Egress, len(answers))
	for _, m := range answers {
		index, name, egress, err := readLink(m.Data)
		if err != nil {
			return fmt.Errorf("list network devices: %w", err)
		}
		l.Index[name], l.Name[index], l.Egress[name] = index, name, egress
	}
	return nil
}

// Changed reads what happened since the last call and reports whether a device
// came, went or was renamed.
func (l *Links) Changed() (changed bool, err error) {
	for {
		if err := l.raw.Read(l.read); err != nil {
			return false, fmt.Errorf("changes of network devices: %w", err)
		}
		switch {
		case errors.Is(l.err, unix.EAGAIN):
			return changed, nil
		case errors.Is(l.err, unix.EINTR):
			continue
		case errors.Is(l.err, unix.ENOBUFS):
			changed = true // events were lost
			continue
		case l.err != nil:
			return false, fmt.Errorf("changes of network devices: %w", l.err)
		}
		changed = l.tells(l.buf[:l.n]) || changed
	}
}

func (l *Links) tells(p []byte) bool {
	changed := false
	for len(p) >= unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg {
		size := int(binary.NativeEndian.Uint32(p))
		if size < unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg || size > len(p) {
			break
		}
		body := p[unix.NLMSG_HDRLEN:size]
		// Family other than unspecified: a bridge's view of its port.
		if body[0] == unix.AF_UNSPEC {
			switch index, name, egress, err := readLink(body); {
			case err != nil:
				changed = true
			case binary.NativeEndian.Uint16(p[4:]) == unix.RTM_DELLINK:
				changed = changed || l.Name[index] != ""
			case l.Name[index] != name:
				changed = true
			default:
				l.Egress[name] = egress
			}
		}
		p = p[min(len(p), (size+3)&^3):]
	}
	return changed
}

func readLink(data []byte) (index int, name string, e Egress, err error) {
	if len(data) < unix.SizeofIfInfomsg {
		return 0, "", e, fmt.Errorf("message of %d bytes about a device", len(data))
	}
	e.Wire = binary.NativeEndian.Uint16(data[2:]) == unix.ARPHRD_ETHER
	index = int(int32(binary.NativeEndian.Uint32(data[4:])))
	ad, err := netlink.NewAttributeDecoder(data[unix.SizeofIfInfomsg:])
	if err != nil {
		return 0, "", e, err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_IFNAME:
			name = ad.String()
		case unix.IFLA_GSO_MAX_SIZE:
			e.GSO = uint64(ad.Uint32())
		case unix.IFLA_MTU:
			e.MTU = ad.Uint32()
		case unix.IFLA_TXQLEN:
			e.TxQLen = ad.Uint32()
		case unix.IFLA_NUM_TX_QUEUES:
			e.TxQueues = ad.Uint32()
		case unix.IFLA_LINKINFO:
			ad.Nested(func(info *netlink.AttributeDecoder) error {
				for info.Next() {
					if info.Type() == unix.IFLA_INFO_KIND {
						e.Wire = false
					}
				}
				return info.Err()
			})
		}
	}
	return index, name, e, ad.Err()
}

// Close ends the notifications.
func (l *Links) Close() error { return l.events.Close() }
