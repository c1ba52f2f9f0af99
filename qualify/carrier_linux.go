package qualify

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// carrierOf is the carrier of a card: whether it has one, and how often that changed.
func carrierOf(c *netlink.Conn, index int) (up bool, changes uint32, err error) {
	request := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(request[4:], uint32(index))
	answer, err := c.Execute(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request}, Data: request})
	if err != nil {
		return false, 0, err
	}
	if len(answer) != 1 || len(answer[0].Data) < unix.SizeofIfInfomsg {
		return false, 0, fmt.Errorf("the kernel answered with %d links, want one", len(answer))
	}
	attrs, err := netlink.NewAttributeDecoder(answer[0].Data[unix.SizeofIfInfomsg:])
	if err != nil {
		return false, 0, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.IFLA_CARRIER:
			up = attrs.Uint8() != 0
		case unix.IFLA_CARRIER_CHANGES:
			changes = attrs.Uint32()
		}
	}
	return up, changes, attrs.Err()
}
