package linux

import "errors"

// Config says what to read.
type Config struct {
	Ports []Port // in the order in which Read returns them

	// NetNS is an open file of the network namespace to read in; 0 is that of
	// the thread which calls New.
	NetNS int
}

// Port is one interface to read.
type Port struct {
	Name string // the interface's name

	// Speed is what is configured in bit/s, 0 where nothing is, and Override that it is the
	// capacity whatever the kernel says. Samples have the kernel's speed all the same.
	Speed    uint64
	Override bool

	// Tagged says that frames with an 802.1Q or 802.1ad tag, or with a CSIG tag
	// whose TPID is 0x8100 or 0x88a8, are to be expected on this port.
	Tagged bool
}

// Facts is what the source found out about one port, and what it does with it.
type Facts struct {
	Port      string
	Index     int      // the kernel's number of the interface, 0 while it does not exist
	Device    string   // what kind of device it is: "veth", "pci", …
	Counter   string   // what Octets and Packets are read from: "interface" or "qdisc tbf"
	Speed     uint64   // that is the capacity, in bit/s, 0 where unknown
	SpeedFrom string   // "configuration", "ethtool", "tbf rate" or "" where unknown
	Degraded  string   // as in the samples
	Notes     []string // what an operator should know, one sentence each
}

// ErrNoInterface is in the error of a port whose interface does not exist.
var ErrNoInterface = errors.New("no such interface: create it, or correct the name in the fleet file")
