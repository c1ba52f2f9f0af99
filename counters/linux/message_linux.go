package linux

import (
	"encoding/binary"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	sizeofStatsMsg  = 12 // struct if_stats_msg
	sizeofTBFParams = 36 // struct tc_tbf_qopt
	skipStatsInExt  = 8  // RTEXT_FILTER_SKIP_STATS
)

var native = binary.NativeEndian

// message is one netlink message in a buffer that the next receive overwrites.
type message struct {
	typ, flags uint16
	seq        uint32
	body       []byte
}

// nextMessage splits the first message off b; ok is false where b does not
// start with a whole one.
func nextMessage(b []byte) (m message, rest []byte, ok bool) {
	if len(b) < unix.SizeofNlMsghdr {
		return message{}, nil, false
	}
	n := native.Uint32(b)
	if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(b)) {
		return message{}, nil, false
	}
	m = message{typ: native.Uint16(b[4:]), flags: native.Uint16(b[6:]), seq: native.Uint32(b[8:]), body: b[unix.SizeofNlMsghdr:n]}
	return m, b[min(align(int(n)), len(b)):], true
}

// nextAttr splits the first attribute off b.
func nextAttr(b []byte) (typ uint16, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, nil, false
	}
	n := int(native.Uint16(b))
	if n < 4 || n > len(b) {
		return 0, nil, nil, false
	}
	return native.Uint16(b[2:]) & nl.NLA_TYPE_MASK, b[4:n], b[min(align(n), len(b)):], true
}

func align(n int) int { return (n + 3) &^ 3 }

// errno is the error number in the body of an NLMSG_ERROR or NLMSG_DONE
// message, positive, or 0.
func errno(body []byte) int {
	if len(body) < 4 {
		return 0
	}
	return -int(int32(native.Uint32(body)))
}

// parseStats reads an RTM_NEWSTATS message: bytes and packets sent by one
// interface.
func parseStats(b []byte) (index int32, octets, packets uint64, ok bool) {
	if len(b) < sizeofStatsMsg {
		return 0, 0, 0, false
	}
	index = int32(native.Uint32(b[4:]))
	b = b[sizeofStatsMsg:]
	for {
		typ, v, rest, more := nextAttr(b)
		if !more {
			return index, 0, 0, false
		}
		if typ == unix.IFLA_STATS_LINK_64 && len(v) >= 32 {
			return index, native.Uint64(v[24:]), native.Uint64(v[8:]), true
		}
		b = rest
	}
}

// parseQdiscStats reads the counters in an RTM_NEWQDISC message; ok is false
// where it is not about the root qdisc of an interface, or has none.
func parseQdiscStats(b []byte) (index int32, handle uint32, octets, packets uint64, ok bool) {
	if len(b) < nl.SizeofTcMsg || native.Uint32(b[12:]) != netlink.HANDLE_ROOT {
		return 0, 0, 0, 0, false
	}
	index, handle = int32(native.Uint32(b[4:])), native.Uint32(b[8:])
	stats, found := findAttr(b[nl.SizeofTcMsg:], nl.TCA_STATS2)
	if !found {
		return index, handle, 0, 0, false
	}
	wide := false
	for {
		typ, v, rest, more := nextAttr(stats)
		if !more {
			return index, handle, octets, packets, ok
		}
		switch {
		case typ == nl.TCA_STATS_BASIC && len(v) >= 12:
			octets, ok = native.Uint64(v), true
			if !wide {
				packets = uint64(native.Uint32(v[8:]))
			}
		case typ == nl.TCA_STATS_PKT64 && len(v) >= 8:
			packets, wide = native.Uint64(v), true
		}
		stats = rest
	}
}

func findAttr(b []byte, want uint16) (value []byte, ok bool) {
	for {
		typ, v, rest, more := nextAttr(b)
		if !more {
			return nil, false
		}
		if typ == want {
			return v, true
		}
		b = rest
	}
}

// link is what an RTM_NEWLINK or RTM_DELLINK message says.
type link struct {
	family uint8
	index  int32
	master int32 // index of the interface it is a port of; 0 for none
	flags  uint32
	name   string
	kind   string // "veth", "bridge", …; "" for hardware
	bus    string // "pci", "virtio", …; "" for what has no parent device
	qdisc  string // kind of the root qdisc
}

func (l *link) up() bool {
	const all = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	return l.flags&all == all
}

// deviceKind is the kind, also of the one virtual device that has none.
func (l *link) deviceKind() string {
	if l.kind == "" && l.flags&unix.IFF_LOOPBACK != 0 {
		return "loopback"
	}
	return l.kind
}

func parseLink(b []byte) (l link, ok bool) {
	if len(b) < unix.SizeofIfInfomsg {
		return link{}, false
	}
	l = link{family: b[0], index: int32(native.Uint32(b[4:])), flags: native.Uint32(b[8:])}
	b = b[unix.SizeofIfInfomsg:]
	for {
		typ, v, rest, more := nextAttr(b)
		if !more {
			return l, true
		}
		switch typ {
		case unix.IFLA_IFNAME:
			l.name = text(v)
		case unix.IFLA_MASTER:
			if len(v) == 4 {
				l.master = int32(native.Uint32(v))
			}
		case unix.IFLA_QDISC:
			l.qdisc = text(v)
		case unix.IFLA_PARENT_DEV_BUS_NAME:
			l.bus = text(v)
		case unix.IFLA_LINKINFO:
			kind, _ := findAttr(v, unix.IFLA_INFO_KIND)
			l.kind = text(kind)
		}
		b = rest
	}
}

func text(v []byte) string {
	for i, c := range v {
		if c == 0 {
			return string(v[:i])
		}
	}
	return string(v)
}

// qdisc is the root qdisc of an interface; the zero value is none.
type qdisc struct {
	handle   uint32
	kind     string
	counts   bool   // it keeps counters
	stab     bool   // a size table changes what it counts
	rate     uint64 // bit/s a tbf lets through; 0 for other kinds
	overhead uint16 // bytes a packet that a tbf adds to what it lets through
}

// parseQdisc reads an RTM_NEWQDISC or RTM_DELQDISC message; ok is false where it
// is not about the root qdisc of an interface.
func parseQdisc(b []byte) (index int32, q qdisc, ok bool) {
	if len(b) < nl.SizeofTcMsg || native.Uint32(b[12:]) != netlink.HANDLE_ROOT {
		return 0, qdisc{}, false
	}
	index, q.handle = int32(native.Uint32(b[4:])), native.Uint32(b[8:])
	var options []byte
	for b = b[nl.SizeofTcMsg:]; ; {
		typ, v, rest, more := nextAttr(b)
		if !more {
			break
		}
		switch typ {
		case nl.TCA_KIND:
			q.kind = text(v)
		case nl.TCA_OPTIONS:
			options = v
		case nl.TCA_STATS2:
			_, q.counts = findAttr(v, nl.TCA_STATS_BASIC)
		case nl.TCA_STAB:
			q.stab = true
		}
		b = rest
	}
	switch q.kind {
	case "noqueue", "noop":
		q.counts = false // frames never pass through these
	case "tbf":
		q.rate, q.overhead = parseTBF(options)
	}
	return index, q, true
}

func parseTBF(b []byte) (rate uint64, overhead uint16) {
	if v, ok := findAttr(b, nl.TCA_TBF_PARMS); ok && len(v) >= sizeofTBFParams {
		overhead, rate = native.Uint16(v[2:]), uint64(native.Uint32(v[8:]))
	}
	if v, ok := findAttr(b, nl.TCA_TBF_RATE64); ok && len(v) >= 8 {
		rate = native.Uint64(v)
	}
	if rate > (1<<64-1)/8 {
		return 0, overhead
	}
	return 8 * rate, overhead
}
