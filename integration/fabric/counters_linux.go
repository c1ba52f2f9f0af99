package fabric

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Counts is one reading of what a port has sent, after its shaper.
type Counts struct {
	At      time.Time // midpoint of the reading
	Spread  time.Duration
	Bytes   uint64 // as the kernel counts: from the destination address, no FCS
	Frames  uint64
	Dropped uint64 // by the interface itself; the shaper's are in Queue
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

	mu      sync.Mutex
	fd      int
	seq     uint32
	request []byte
	reply   []byte
}

// Offsets in a reply to RTM_GETSTATS: netlink header 16, if_stats_msg 12, then
// attributes; and in struct rtnl_link_stats64.
const (
	statsRequestLen = 16 + 12
	stats64TxFrames = 8
	stats64TxBytes  = 24
	stats64TxDrops  = 56
)

// Counters opens a reader of the port's counters; close it after use.
func (p *Port) Counters() (*Reader, error) {
	r := &Reader{port: p, reply: make([]byte, 4096)}
	err := p.node.Do(func() (err error) {
		r.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open a netlink socket: %w", err)
		}
		if err := unix.Bind(r.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			unix.Close(r.fd)
			return fmt.Errorf("bind a netlink socket: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: read counters: %w", p, err)
	}
	b := make([]byte, statsRequestLen)
	binary.NativeEndian.PutUint32(b[0:], statsRequestLen)
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETSTATS)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[20:], uint32(p.index))
	binary.NativeEndian.PutUint32(b[24:], 1<<(unix.IFLA_STATS_LINK_64-1))
	r.request = b
	return r, nil
}

// Read reads the port's counters. It allocates nothing, as it may be called
// every millisecond for the whole fabric.
func (r *Reader) Read() (Counts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	binary.NativeEndian.PutUint32(r.request[8:], r.seq)
	before := time.Now()
	if _, err := unix.Write(r.fd, r.request); err != nil {
		return Counts{}, fmt.Errorf("%s: read counters: send: %w", r.port, err)
	}
	n, err := unix.Read(r.fd, r.reply)
	if err != nil {
		return Counts{}, fmt.Errorf("%s: read counters: receive: %w", r.port, err)
	}
	spread := time.Since(before)
	c := Counts{At: before.Add(spread / 2), Spread: spread}
	b := r.reply[:n]
	switch {
	case n < 20:
		return Counts{}, fmt.Errorf("%s: read counters: a reply of %d bytes", r.port, n)
	case binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR:
		return Counts{}, fmt.Errorf("%s: read counters: %w", r.port, unix.Errno(-int32(binary.NativeEndian.Uint32(b[16:]))))
	case binary.NativeEndian.Uint32(b[8:]) != r.seq || n < statsRequestLen:
		return Counts{}, fmt.Errorf("%s: read counters: a reply to something else", r.port)
	}
	for b = b[statsRequestLen:]; len(b) >= 4; {
		size := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) & nl.NLA_TYPE_MASK
		if size < 4 || size > len(b) {
			break
		}
		if kind == unix.IFLA_STATS_LINK_64 && size >= 4+stats64TxDrops+8 {
			s := b[4:size]
			c.Frames = binary.NativeEndian.Uint64(s[stats64TxFrames:])
			c.Bytes = binary.NativeEndian.Uint64(s[stats64TxBytes:])
			c.Dropped = binary.NativeEndian.Uint64(s[stats64TxDrops:])
			return c, nil
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return Counts{}, fmt.Errorf("%s: read counters: the reply holds no link statistics", r.port)
}

// Close closes the reader's socket.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd < 0 {
		return nil
	}
	fd := r.fd
	r.fd = -1
	return unix.Close(fd)
}
