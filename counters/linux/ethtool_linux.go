package linux

import (
	"fmt"
	"slices"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ethtool asks the kernel's ethtool netlink family (Linux 5.8 or newer). It is
// used when a port is found or has changed, never for a reading.
type ethtool struct {
	conn   *genetlink.Conn
	family genetlink.Family
}

// dialEthtool returns nil without an error where the kernel has no such family.
func dialEthtool(netns int) (*ethtool, error) {
	conn, err := genetlink.Dial(&netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("opening a generic netlink socket: %w", err)
	}
	family, err := conn.GetFamily(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		_ = conn.Close()
		return nil, nil
	}
	return &ethtool{conn: conn, family: family}, nil
}

func (e *ethtool) close() error {
	if e == nil {
		return nil
	}
	return e.conn.Close()
}

func (e *ethtool) get(command uint8, index int32) ([]genetlink.Message, error) {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(unix.ETHTOOL_A_FEATURES_HEADER, func(ae *netlink.AttributeEncoder) error {
		ae.Uint32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index))
		return nil
	})
	b, err := ae.Encode()
	if err != nil {
		return nil, err
	}
	return e.conn.Execute(genetlink.Message{
		Header: genetlink.Header{Command: command, Version: unix.ETHTOOL_GENL_VERSION},
		Data:   b,
	}, e.family.ID, netlink.Request)
}

// offloads asks for the features of an interface; what cannot be asked is
// unknown.
func (e *ethtool) offloads(index int32) offloads {
	if e == nil {
		return offloads{}
	}
	msgs, err := e.get(unix.ETHTOOL_MSG_FEATURES_GET, index)
	if err != nil {
		return offloads{}
	}
	var o offloads
	for _, m := range msgs {
		o, err = parseFeatures(m.Data)
		if err != nil {
			return offloads{}
		}
	}
	return o
}

// speed asks for the link speed in bit/s; 0 is unknown.
func (e *ethtool) speed(index int32) uint64 {
	if e == nil {
		return 0
	}
	msgs, err := e.get(unix.ETHTOOL_MSG_LINKMODES_GET, index)
	if err != nil {
		return 0
	}
	for _, m := range msgs {
		ad, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return 0
		}
		for ad.Next() {
			if ad.Type() != unix.ETHTOOL_A_LINKMODES_SPEED {
				continue
			}
			if mbps := ad.Uint32(); ad.Err() == nil && mbps != ^uint32(0) {
				return uint64(mbps) * 1_000_000
			}
		}
	}
	return 0
}

// Every super-frame has one of these types, whatever else it is: without them
// the kernel segments it before the driver sees it. The tunnel, ECN and
// fraglist features only add to these.
var segmentation = []struct{ feature, alias string }{
	{"tx-tcp-segmentation", "tso"},
	{"tx-tcp6-segmentation", "tso"},
	{"tx-udp-segmentation", "tx-udp-segmentation"},
	{"tx-sctp-segmentation", "tx-sctp-segmentation"},
	{"tx-fcoe-segmentation", "tx-fcoe-segmentation"},
}

var vlanInsertion = []struct{ feature, alias string }{
	{"tx-vlan-hw-insert", "txvlan"},
	{"tx-vlan-stag-hw-insert", "tx-vlan-stag-hw-insert"},
}

// parseFeatures reads the answer to ETHTOOL_MSG_FEATURES_GET.
func parseFeatures(b []byte) (offloads, error) {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return offloads{}, err
	}
	var changeable, active []string
	sawActive := false
	for ad.Next() {
		switch ad.Type() {
		case unix.ETHTOOL_A_FEATURES_HW:
			ad.Nested(names(&changeable))
		case unix.ETHTOOL_A_FEATURES_ACTIVE:
			sawActive = true
			ad.Nested(names(&active))
		}
	}
	if err := ad.Err(); err != nil {
		return offloads{}, err
	}
	o := offloads{known: sawActive}
	for _, f := range segmentation {
		if !slices.Contains(active, f.feature) {
			continue
		}
		if !slices.Contains(o.segmentation, f.alias) {
			o.segmentation = append(o.segmentation, f.alias)
		}
		if !slices.Contains(changeable, f.feature) {
			o.fixed = append(o.fixed, f.feature)
		}
	}
	for _, f := range vlanInsertion {
		if slices.Contains(active, f.feature) {
			o.vlan = append(o.vlan, f.alias)
		}
	}
	return o, nil
}

// names collects the names of the bits in a bitset without a mask, in which
// every bit listed is set.
func names(dst *[]string) func(*netlink.AttributeDecoder) error {
	return func(set *netlink.AttributeDecoder) error {
		for set.Next() {
			if set.Type() != unix.ETHTOOL_A_BITSET_BITS {
				continue
			}
			set.Nested(func(bits *netlink.AttributeDecoder) error {
				for bits.Next() {
					bits.Nested(func(bit *netlink.AttributeDecoder) error {
						for bit.Next() {
							if bit.Type() == unix.ETHTOOL_A_BITSET_BIT_NAME {
								*dst = append(*dst, bit.String())
							}
						}
						return nil
					})
				}
				return nil
			})
		}
		return nil
	}
}
