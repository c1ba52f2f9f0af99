package counters

import (
	"context"
	"errors"
	"time"
)

// Listing is what a device tells of itself, its interfaces and its neighbours: for a
// person who has not described it in a fleet file yet. Its texts can be printed.
type Listing struct {
	Name        string        // that the device gives itself, "" where it gives none
	Description string        // of its hardware and software
	Uptime      time.Duration // 0 where it does not tell
	Protocol    string        // that was spoken: SNMPv2c, gNMI 0.10.0 with PROTO
	Interfaces  []Interface
	Neighbors   []Neighbor
	Notes       []string // what could not be read, a sentence each
}

// Interface is a row of a device's table of interfaces, with what csig would read of it.
type Interface struct {
	Index      uint32   // ifIndex, 0 where the device does not tell
	Name       string   // what a fleet file calls it
	Alias      string   // the description that an operator gave it
	Speed      uint64   // bit/s, 0 where the device does not know
	OperStatus string   // as its MIB or model spells it
	Wide       []string // its 64-bit counters, as the MIB or model calls them
	Uses       []string // what csig would read of it: octets first, then packets; none where it cannot
	Note       string   // why not, or in what way it is less than it could be
}

// Neighbor is what the Link Layer Discovery Protocol (IEEE 802.1AB) brought to a port.
type Neighbor struct {
	Port     string // of the device that was asked
	Chassis  string // chassis ID of the neighbour
	System   string // its system name, "" where it sends none
	PeerPort string // its port ID
	PeerText string // its port description
	PeerKind PortID // what PeerPort is
}

// PortID says what the port ID of a neighbour is.
type PortID uint8

// Kinds of port IDs, as far as they matter.
const (
	OtherPortID PortID = iota
	NamePortID         // an interface's name
	MACPortID          // a MAC address
)

// ErrNoLLDP is a device that answers nothing about LLDP.
var ErrNoLLDP = errors.New("it answers nothing about LLDP")

// Neighbored is what a Source implements that can ask its device for its neighbours.
type Neighbored interface {
	// Neighbors reads them from the device, in the order of its table, and the name by which
	// LLDP knows the device itself, "" where it does not tell. A device without LLDP is
	// ErrNoLLDP. It is not safe for use concurrent with Read.
	Neighbors(ctx context.Context) (self string, list []Neighbor, err error)
}
