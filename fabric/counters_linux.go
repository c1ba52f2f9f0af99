package fabric

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Counts is one reading of what a port has sent, after its shaper.
type Counts struct {
	At      time.Time // midpoint of the reading
	Spread  time.Duration
	Bytes   uint64 // as the kernel counts: from the destination address, no FCS
	Frames  uint64
	Dropped uint64 // by the interface itself, not by its shaper
}

// L1Bits is what the frames occupied of the wire, in bits.
func (c Counts) L1Bits() uint64 { return 8 * (c.Bytes + L1Overhead*c.Frames) }

// L1Rate is the mean rate between two readings, in layer 1 bits per second.
func (c Counts) L1Rate(before Counts) float64 {
	return float64(c.L1Bits()-before.L1Bits()) / c.At.Sub(before.At).Seconds()
}

// Reader reads counters of one port, straight from the kernel and apart from
// any agent, so that it can serve as the truth. It keeps a netlink socket
// open. Methods are safe for concurrent use.
type Reader struct {
	port *Port
	conn *netlink.Handle
}

// Counters opens a reader of the port's counters; close it after use.
func (p *Port) Counters() (*Reader, error) {
	conn, err := netlink.NewHandleAt(netns.NsHandle(p.node.FD()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("%s: read counters: %w", p, err)
	}
	return &Reader{port: p, conn: conn}, nil
}

// Read reads the port's counters.
func (r *Reader) Read() (Counts, error) {
	before := time.Now()
	l, err := r.conn.LinkByIndex(r.port.index)
	if err != nil {
		return Counts{}, fmt.Errorf("%s: read counters: %w", r.port, err)
	}
	spread := time.Since(before)
	s := l.Attrs().Statistics
	return Counts{At: before.Add(spread / 2), Spread: spread, Bytes: s.TxBytes, Frames: s.TxPackets, Dropped: s.TxDropped}, nil
}

// Close closes the reader's socket.
func (r *Reader) Close() { r.conn.Close() }
