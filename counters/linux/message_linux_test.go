package linux

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The test's own encoders, from the kernel's headers.

func attr(typ uint16, value ...byte) []byte {
	b := make([]byte, 4, 4+len(value)+3)
	native.PutUint16(b, uint16(4+len(value)))
	native.PutUint16(b[2:], typ)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func nest(typ uint16, parts ...[]byte) []byte { return attr(typ|1<<15, bytes.Join(parts, nil)...) }

func u64(v ...uint64) (b []byte) {
	for _, x := range v {
		b = native.AppendUint64(b, x)
	}
	return b
}

func u32(v ...uint32) (b []byte) {
	for _, x := range v {
		b = native.AppendUint32(b, x)
	}
	return b
}

func str(s string) []byte { return append([]byte(s), 0) }

func netlinkMessage(typ, flags uint16, seq uint32, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	b := u32(uint32(16+len(body)), uint32(flags)<<16|uint32(typ), seq, 0)
	if native.Uint16([]byte{1, 0}) != 1 { // big endian: the two 16-bit fields the other way round
		native.PutUint16(b[4:], typ)
		native.PutUint16(b[6:], flags)
	}
	b = append(b, body...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func tcMessage(index, handle, parent uint32, attrs ...[]byte) []byte {
	return append(u32(0, index, handle, parent, 0), bytes.Join(attrs, nil)...)
}

var tbfOptions = nest(nl.TCA_OPTIONS, attr(nl.TCA_TBF_PARMS, append([]byte{8, 1, 24, 0, 0, 0, 0, 0}, u32(12_500_000, 0, 0, 0, 0, 0, 0)...)...))

func TestMessages(t *testing.T) {
	one := netlinkMessage(unix.RTM_NEWSTATS, unix.NLM_F_DUMP_INTR, 5, []byte{1, 2, 3})
	both := append(bytes.Clone(one), netlinkMessage(unix.NLMSG_DONE, 0, 6, u32(0))...)
	m, rest, ok := nextMessage(both)
	if !ok || m.typ != unix.RTM_NEWSTATS || m.flags != unix.NLM_F_DUMP_INTR || m.seq != 5 || !bytes.Equal(m.body, []byte{1, 2, 3}) {
		t.Fatalf("%+v", m)
	}
	m, rest, ok = nextMessage(rest)
	if !ok || m.typ != unix.NLMSG_DONE || m.seq != 6 || len(rest) != 0 {
		t.Fatalf("%+v", m)
	}
	for n := range len(one) - 1 {
		if _, _, ok := nextMessage(one[:n]); ok {
			t.Fatalf("%d of %d bytes pass for a message", n, len(one))
		}
	}
	for body, want := range map[string]int{string(u32(^uint32(104))): 105, string(u32(0)): 0, "": 0} {
		if got := errno([]byte(body)); got != want {
			t.Errorf("errno %x: %d, want %d", body, got, want)
		}
	}
}

func TestParseStats(t *testing.T) {
	counters := u64(11, 22, 33, 44, 55)
	tests := []struct {
		name string
		body []byte
		ok   bool
	}{
		{"plain", bytes.Join([][]byte{u32(0, 3, 1), attr(unix.IFLA_STATS_LINK_64, counters...)}, nil), true},
		{"behind padding and others", bytes.Join([][]byte{u32(0, 3, 1), attr(0), attr(9, 1, 2), attr(unix.IFLA_STATS_LINK_64, counters...)}, nil), true},
		{"none", u32(0, 3, 1), false},
		{"too short", append(u32(0, 3, 1), attr(unix.IFLA_STATS_LINK_64, counters[:24]...)...), false},
		{"no header", u32(0), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			index, octets, packets, ok := parseStats(tt.body)
			if ok != tt.ok || ok && (index != 3 || octets != 44 || packets != 22) {
				t.Errorf("%d %d %d %v", index, octets, packets, ok)
			}
		})
	}
}

func TestParseQdisc(t *testing.T) {
	basic := attr(nl.TCA_STATS_BASIC, append(u64(1000), u32(7, 0)...)...)
	wide := attr(nl.TCA_STATS_PKT64, u64(1<<32+7)...)
	rate64 := nest(nl.TCA_OPTIONS, attr(nl.TCA_TBF_PARMS, append([]byte{8, 1, 24, 0, 0, 0, 0, 0}, u32(^uint32(0), 0, 0, 0, 0, 0, 0)...)...), attr(nl.TCA_TBF_RATE64, u64(50e9)...))
	huge := nest(nl.TCA_OPTIONS, attr(nl.TCA_TBF_RATE64, u64(1<<63)...))
	tests := []struct {
		name    string
		body    []byte
		root    bool
		want    qdisc
		counted bool
		packets uint64
	}{
		{"tbf", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("tbf")...), tbfOptions, nest(nl.TCA_STATS2, basic)), true,
			qdisc{handle: 9, kind: "tbf", counts: true, rate: 100e6, overhead: 24}, true, 7},
		{"tbf above 34 Gb/s", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("tbf")...), rate64), true,
			qdisc{handle: 9, kind: "tbf", rate: 400e9, overhead: 24}, false, 0},
		{"tbf with a rate beyond reason", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("tbf")...), huge), true,
			qdisc{handle: 9, kind: "tbf"}, false, 0},
		{"many packets", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("htb")...), nest(nl.TCA_STATS2, basic, wide)), true,
			qdisc{handle: 9, kind: "htb", counts: true}, true, 1<<32 + 7},
		{"many packets, reported first", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("htb")...), nest(nl.TCA_STATS2, wide, basic)), true,
			qdisc{handle: 9, kind: "htb", counts: true}, true, 1<<32 + 7},
		{"size table", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("htb")...), nest(nl.TCA_STAB), nest(nl.TCA_STATS2, basic)), true,
			qdisc{handle: 9, kind: "htb", counts: true, stab: true}, true, 7},
		{"noqueue keeps no count", tcMessage(3, 0, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("noqueue")...), nest(nl.TCA_STATS2, basic)), true,
			qdisc{kind: "noqueue"}, true, 7},
		{"no counters", tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("htb")...), nest(nl.TCA_STATS2)), true,
			qdisc{handle: 9, kind: "htb"}, false, 0},
		{"not the root", tcMessage(3, 9, 1<<16, attr(nl.TCA_KIND, str("tbf")...), nest(nl.TCA_STATS2, basic)), false, qdisc{}, false, 0},
		{"no header", u32(0, 3), false, qdisc{}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			index, q, ok := parseQdisc(tt.body)
			if ok != tt.root || q != tt.want || ok && index != 3 {
				t.Errorf("%d %+v %v", index, q, ok)
			}
			index, handle, octets, packets, ok := parseQdiscStats(tt.body)
			if ok != tt.counted || ok && (index != 3 || handle != tt.want.handle || octets != 1000 || packets != tt.packets) {
				t.Errorf("%d %d %d %d %v", index, handle, octets, packets, ok)
			}
		})
	}
}

func TestParseLink(t *testing.T) {
	const all = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	for flags, want := range map[uint32]bool{all: true, all &^ unix.IFF_UP: false, all &^ unix.IFF_RUNNING: false, all &^ unix.IFF_LOWER_UP: false, 0: false} {
		b := append(u32(0, 4, flags, 0), bytes.Join([][]byte{
			attr(unix.IFLA_IFNAME, str("swp1")...), attr(unix.IFLA_MASTER, u32(7)...), attr(unix.IFLA_MASTER, 1, 2), attr(unix.IFLA_QDISC, str("noqueue")...), attr(unix.IFLA_PARENT_DEV_BUS_NAME, str("pci")...),
			nest(unix.IFLA_LINKINFO, attr(2, 1), attr(unix.IFLA_INFO_KIND, []byte("veth")...)),
		}, nil)...)
		l, ok := parseLink(b)
		if !ok || l.up() != want || l.index != 4 || l.master != 7 || l.name != "swp1" || l.qdisc != "noqueue" || l.bus != "pci" || l.kind != "veth" {
			t.Errorf("flags %x: %+v %v", flags, l, ok)
		}
	}
	if _, ok := parseLink(u32(0, 4, 0)); ok {
		t.Error("12 bytes pass for a link")
	}
}

// Whatever arrives, the parsers neither panic nor run on for ever, and look at
// no byte behind the message.
func FuzzMessages(f *testing.F) {
	f.Add(netlinkMessage(unix.RTM_NEWSTATS, 0, 1, u32(0, 3, 1), attr(unix.IFLA_STATS_LINK_64, u64(1, 2, 3, 4)...)))
	f.Add(netlinkMessage(unix.RTM_NEWQDISC, 0, 1, tcMessage(3, 9, netlink.HANDLE_ROOT, attr(nl.TCA_KIND, str("tbf")...), tbfOptions, nest(nl.TCA_STATS2, attr(nl.TCA_STATS_BASIC, u64(1, 2)...), attr(nl.TCA_STATS_PKT64, u64(1)...)))))
	f.Add(netlinkMessage(unix.RTM_NEWLINK, 0, 1, u32(0, 4, 0, 0), attr(unix.IFLA_IFNAME, str("swp1")...), nest(unix.IFLA_LINKINFO, attr(unix.IFLA_INFO_KIND, str("veth")...))))
	f.Add(netlinkMessage(unix.NLMSG_ERROR, 0, 1, u32(^uint32(0))))
	f.Fuzz(func(t *testing.T, b []byte) {
		for left := len(b); ; {
			m, rest, ok := nextMessage(b)
			if !ok {
				return
			}
			if len(rest) >= left {
				t.Fatal("no progress")
			}
			left, b = len(rest), rest
			_ = errno(m.body)
			_, octets, packets, ok := parseStats(m.body)
			if ok && len(m.body) < sizeofStatsMsg+4+32 {
				t.Fatalf("%d and %d out of %d bytes", octets, packets, len(m.body))
			}
			_, _, _, _, counted := parseQdiscStats(m.body)
			_, q, root := parseQdisc(m.body)
			if counted && !root || q.counts && !root {
				t.Fatalf("counters without a root qdisc: %+v", q)
			}
			if l, ok := parseLink(m.body); ok && len(l.name)+len(l.kind)+len(l.bus)+len(l.qdisc) > len(m.body) {
				t.Fatalf("more names than bytes: %+v", l)
			}
		}
	})
}
