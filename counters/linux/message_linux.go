package linux

import "encoding/binary"

// The parts of the kernel's netlink interface that this package reads
// (include/uapi/linux: netlink.h, if_link.h, rtnetlink.h, gen_stats.h,
// pkt_sched.h). They are spelled out here because the parsers also build, and
// are tested, where package unix has no Linux in it.
const (
	nlmsgError = 2
	nlmsgDone  = 3

	flagDumpInterrupted = 0x10

	rtmNewLink  = 16
	rtmDelLink  = 17
	rtmGetLink  = 18
	rtmNewQdisc = 36
	rtmDelQdisc = 37
	rtmGetQdisc = 38
	rtmNewStats = 92
	rtmGetStats = 94

	sizeofHeader    = 16
	sizeofLinkMsg   = 16
	sizeofStatsMsg  = 12
	sizeofTCMsg     = 20
	sizeofRatespec  = 12
	sizeofTBFParams = 36

	attrTypeMask = 0x3fff

	statsLink64 = 1

	linkName       = 3
	linkMaster     = 10
	linkQdisc      = 6
	linkInfo       = 18
	linkInfoKind   = 1
	linkExtMask    = 29
	linkParentBus  = 57
	skipStatsInExt = 8

	linkUp       = 0x1
	linkLoopback = 0x8
	linkRunning  = 0x40
	linkLowerUp  = 0x10000

	tcKind    = 1
	tcOptions = 2
	tcStats2  = 7
	tcStab    = 8
	tcRoot    = 0xffffffff

	genStatsBasic = 1
	genStatsPkt64 = 8

	tbfParams = 1
	tbfRate64 = 4
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
	if len(b) < sizeofHeader {
		return message{}, nil, false
	}
	n := native.Uint32(b)
	if n < sizeofHeader || uint64(n) > uint64(len(b)) {
		return message{}, nil, false
	}
	m = message{typ: native.Uint16(b[4:]), flags: native.Uint16(b[6:]), seq: native.Uint32(b[8:]), body: b[sizeofHeader:n]}
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
	return native.Uint16(b[2:]) & attrTypeMask, b[4:n], b[min(align(n), len(b)):], true
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
		if typ == statsLink64 && len(v) >= 32 {
			return index, native.Uint64(v[24:]), native.Uint64(v[8:]), true
		}
		b = rest
	}
}

// parseQdiscStats reads the counters in an RTM_NEWQDISC message; ok is false
// where it is not about the root qdisc of an interface, or has none.
func parseQdiscStats(b []byte) (index int32, handle uint32, octets, packets uint64, ok bool) {
	if len(b) < sizeofTCMsg || native.Uint32(b[12:]) != tcRoot {
		return 0, 0, 0, 0, false
	}
	index, handle = int32(native.Uint32(b[4:])), native.Uint32(b[8:])
	stats, found := findAttr(b[sizeofTCMsg:], tcStats2)
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
		case typ == genStatsBasic && len(v) >= 12:
			octets, ok = native.Uint64(v), true
			if !wide {
				packets = uint64(native.Uint32(v[8:]))
			}
		case typ == genStatsPkt64 && len(v) >= 8:
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
	const all = linkUp | linkRunning | linkLowerUp
	return l.flags&all == all
}

// deviceKind is the kind, also of the one virtual device that has none.
func (l *link) deviceKind() string {
	if l.kind == "" && l.flags&linkLoopback != 0 {
		return "loopback"
	}
	return l.kind
}

func parseLink(b []byte) (l link, ok bool) {
	if len(b) < sizeofLinkMsg {
		return link{}, false
	}
	l = link{family: b[0], index: int32(native.Uint32(b[4:])), flags: native.Uint32(b[8:])}
	b = b[sizeofLinkMsg:]
	for {
		typ, v, rest, more := nextAttr(b)
		if !more {
			return l, true
		}
		switch typ {
		case linkName:
			l.name = text(v)
		case linkMaster:
			if len(v) == 4 {
				l.master = int32(native.Uint32(v))
			}
		case linkQdisc:
			l.qdisc = text(v)
		case linkParentBus:
			l.bus = text(v)
		case linkInfo:
			kind, _ := findAttr(v, linkInfoKind)
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
	if len(b) < sizeofTCMsg || native.Uint32(b[12:]) != tcRoot {
		return 0, qdisc{}, false
	}
	index, q.handle = int32(native.Uint32(b[4:])), native.Uint32(b[8:])
	var options []byte
	for b = b[sizeofTCMsg:]; ; {
		typ, v, rest, more := nextAttr(b)
		if !more {
			break
		}
		switch typ {
		case tcKind:
			q.kind = text(v)
		case tcOptions:
			options = v
		case tcStats2:
			_, q.counts = findAttr(v, genStatsBasic)
		case tcStab:
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
	if v, ok := findAttr(b, tbfParams); ok && len(v) >= sizeofTBFParams {
		overhead, rate = native.Uint16(v[2:]), uint64(native.Uint32(v[8:]))
	}
	if v, ok := findAttr(b, tbfRate64); ok && len(v) >= 8 {
		rate = native.Uint64(v)
	}
	if rate > (1<<64-1)/8 {
		return 0, overhead
	}
	return 8 * rate, overhead
}
