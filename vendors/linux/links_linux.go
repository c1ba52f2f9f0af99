package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// links knows which network devices exist, and hears when that changes.
type links struct {
	netns  int
	events *netlink.Conn
	raw    syscall.RawConn
	index  map[string]int // ifindex by name, of all devices
	name   map[int]string // the reverse

	buf  []byte
	n    int
	err  error
	read func(fd uintptr) bool
}

func watchLinks(netns int) (*links, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: netns, Groups: unix.RTMGRP_LINK})
	if err != nil {
		return nil, fmt.Errorf("listen for changes of network devices: %w", err)
	}
	l := &links{netns: netns, events: conn, buf: make([]byte, 64<<10)}
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

// scan lists the devices.
func (l *links) scan() error {
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
	l.index, l.name = make(map[string]int, len(answers)), make(map[int]string, len(answers))
	for _, m := range answers {
		index, name, err := readLink(m.Data)
		if err != nil {
			return fmt.Errorf("list network devices: %w", err)
		}
		l.index[name], l.name[index] = index, name
	}
	return nil
}

// changed reads what happened since the last call and reports whether a device
// came, went or was renamed.
func (l *links) changed() (bool, error) {
	changed := false
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

func (l *links) tells(p []byte) bool {
	changed := false
	for len(p) >= nlmsgHeader+unix.SizeofIfInfomsg {
		size := int(binary.NativeEndian.Uint32(p))
		if size < nlmsgHeader+unix.SizeofIfInfomsg || size > len(p) {
			break
		}
		body := p[nlmsgHeader:size]
		// Family other than unspecified: a bridge's view of its port.
		if body[0] == unix.AF_UNSPEC {
			switch index, name, err := readLink(body); {
			case err != nil:
				changed = true
			case binary.NativeEndian.Uint16(p[4:]) == unix.RTM_DELLINK:
				changed = changed || l.name[index] != ""
			default:
				changed = changed || l.name[index] != name
			}
		}
		p = p[min(len(p), (size+3)&^3):]
	}
	return changed
}

func readLink(data []byte) (index int, name string, err error) {
	if len(data) < unix.SizeofIfInfomsg {
		return 0, "", fmt.Errorf("message of %d bytes about a device", len(data))
	}
	index = int(int32(binary.NativeEndian.Uint32(data[4:])))
	ad, err := netlink.NewAttributeDecoder(data[unix.SizeofIfInfomsg:])
	if err != nil {
		return 0, "", err
	}
	for ad.Next() {
		if ad.Type() == unix.IFLA_IFNAME {
			name = ad.String()
		}
	}
	return index, name, ad.Err()
}

func (l *links) close() error { return l.events.Close() }
