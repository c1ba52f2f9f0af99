package gnmi

import (
	"fmt"
	"math"
	"strings"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// leafID is one of the leaves of an interface that this package looks at.
type leafID uint8

const (
	outOctets leafID = iota
	outPkts
	outUnicast
	outMulticast
	outBroadcast
	outDiscards
	lastClear
	operStatus
	portSpeed
	negotiatedSpeed
	lagSpeed
	aggregateID
	member
	noLeaf
)

// kept is the number of leaves that a port keeps; those after them are only read to
// find out who is a member of what.
const kept = aggregateID

// leafPaths are the leaves' places below /interfaces/interface. A test holds them
// against the tags of the generated types.
var leafPaths = [noLeaf]string{
	outOctets:       "state/counters/out-octets",
	outPkts:         "state/counters/out-pkts",
	outUnicast:      "state/counters/out-unicast-pkts",
	outMulticast:    "state/counters/out-multicast-pkts",
	outBroadcast:    "state/counters/out-broadcast-pkts",
	outDiscards:     "state/counters/out-discards",
	lastClear:       "state/counters/last-clear",
	operStatus:      "state/oper-status",
	portSpeed:       "ethernet/state/port-speed",
	negotiatedSpeed: "ethernet/state/negotiated-port-speed",
	lagSpeed:        "aggregation/state/lag-speed",
	aggregateID:     "ethernet/state/aggregate-id",
	member:          "aggregation/state/member",
}

func (l leafID) String() string {
	if l < noLeaf {
		return leafPaths[l]
	}
	return "unknown leaf"
}

// node is a place in the data tree that leads to leaves.
type node struct {
	name     string
	leaf     leafID // noLeaf for a container
	children []*node
	list     bool // /interfaces/interface
}

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// tree is the part of the data tree that is looked at, from its root.
var tree = buildTree()

func buildTree() *node {
	list := &node{name: "interface", leaf: noLeaf, list: true}
	for l, path := range leafPaths {
		at := list
		for name := range strings.SplitSeq(path, "/") {
			next := at.child(name)
			if next == nil {
				next = &node{name: name, leaf: noLeaf}
				at.children = append(at.children, next)
			}
			at = next
		}
		at.leaf = leafID(l)
	}
	return &node{leaf: noLeaf, children: []*node{{name: "interfaces", leaf: noLeaf, children: []*node{list}}}}
}

// under reports whether the leaf is n or below it.
func (n *node) under(l leafID) bool {
	if n.leaf == l {
		return true
	}
	for _, c := range n.children {
		if c.under(l) {
			return true
		}
	}
	return false
}

// number returns what a leaf's value means as a number: the count of a
// counter, the enumeration's value of a status, bit/s of a speed (0 for
// SPEED_UNKNOWN).
func (l leafID) number(v *gnmi.Value) (uint64, error) {
	switch l {
	case operStatus:
		if v.Kind == gnmi.Text {
			if e, ok := operStatuses[gnmi.Bare(v.Text)]; ok {
				return uint64(e), nil
			}
		}
	case portSpeed, negotiatedSpeed:
		if v.Kind == gnmi.Text {
			if bps, ok := speeds[gnmi.Bare(v.Text)]; ok {
				return bps, nil
			}
		}
	case lagSpeed:
		if n, ok := v.Whole(); ok && n <= math.MaxUint32 {
			return n * lagSpeedUnit, nil
		}
	default:
		if n, ok := v.Whole(); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s: %w: %s", l, gnmi.ErrType, v.Describe())
}

// lagSpeedUnit is the unit of lag-speed in bit/s.
const lagSpeedUnit = 1_000_000

// portSpeeds are the speeds of ETHERNET_SPEED in bit/s.
var portSpeeds = map[oc.E_IfEthernet_ETHERNET_SPEED]uint64{
	oc.IfEthernet_ETHERNET_SPEED_SPEED_10MB:    10e6,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_100MB:   100e6,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_1GB:     1e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_2500MB:  2500e6,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_5GB:     5e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_10GB:    10e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_25GB:    25e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_40GB:    40e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_50GB:    50e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_100GB:   100e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_200GB:   200e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_400GB:   400e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_600GB:   600e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_800GB:   800e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_1600GB:  1600e9,
	oc.IfEthernet_ETHERNET_SPEED_SPEED_UNKNOWN: 0,
}

// speeds and operStatuses are the values by the names that they have on the wire.
var (
	speeds       = speedNames()
	operStatuses = statusNames()
)

func speedNames() map[string]uint64 {
	m := make(map[string]uint64)
	for e, def := range oc.ΛEnum["E_IfEthernet_ETHERNET_SPEED"] {
		if bps, ok := portSpeeds[oc.E_IfEthernet_ETHERNET_SPEED(e)]; ok {
			m[def.Name] = bps
		}
	}
	return m
}

func statusNames() map[string]oc.E_Interface_OperStatus {
	m := make(map[string]oc.E_Interface_OperStatus)
	for e, def := range oc.ΛEnum["E_Interface_OperStatus"] {
		m[def.Name] = oc.E_Interface_OperStatus(e)
	}
	return m
}
