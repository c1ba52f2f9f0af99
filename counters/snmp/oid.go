package snmp

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/gosnmp/gosnmp"
)

// oid is an OBJECT IDENTIFIER.
type oid []uint32

var (
	ifEntry  = oid{1, 3, 6, 1, 2, 1, 2, 2, 1}
	ifXEntry = oid{1, 3, 6, 1, 2, 1, 31, 1, 1, 1}

	sysDescr          = oid{1, 3, 6, 1, 2, 1, 1, 1}
	sysObjectID       = oid{1, 3, 6, 1, 2, 1, 1, 2}
	sysUpTime         = oid{1, 3, 6, 1, 2, 1, 1, 3}
	sysName           = oid{1, 3, 6, 1, 2, 1, 1, 5}
	ifAlias           = oid{1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18}
	ifTableLastChange = oid{1, 3, 6, 1, 2, 1, 31, 1, 5}
	netSNMPAgents     = oid{1, 3, 6, 1, 4, 1, 8072, 3, 2}
	netSNMPOnLinux    = oid{1, 3, 6, 1, 4, 1, 8072, 3, 2, 10}

	dot3adAggPortAttachedAggID = oid{1, 2, 840, 10006, 300, 43, 1, 2, 1, 1, 13}
)

// at returns o with sub-identifiers appended, in memory of its own.
func (o oid) at(sub ...uint32) oid {
	return append(append(make(oid, 0, len(o)+len(sub)), o...), sub...)
}

// dotted returns o the way gosnmp wants it.
func (o oid) dotted() string {
	var b strings.Builder
	b.Grow(4 * len(o))
	var digits [10]byte
	for _, v := range o {
		b.WriteByte('.')
		b.Write(strconv.AppendUint(digits[:0], uint64(v), 10))
	}
	return b.String()
}

// encode appends o in BER, without tag and length. o has at least two
// sub-identifiers; the first is at most 2.
func (o oid) encode(dst []byte) []byte {
	dst = appendSub(dst, uint64(o[0])*40+uint64(o[1]))
	for _, v := range o[2:] {
		dst = appendSub(dst, uint64(v))
	}
	return dst
}

func appendSub(dst []byte, v uint64) []byte {
	for shift := 35; shift > 0; shift -= 7 {
		if v>>shift != 0 {
			dst = append(dst, byte(v>>shift)|0x80)
		}
	}
	return append(dst, byte(v&0x7f))
}

// parseDotted is the inverse of dotted; the leading dot is optional.
func parseDotted(s string) (o oid, ok bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(s, "."), ".") {
		v, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, false
		}
		o = append(o, uint32(v))
	}
	return o, len(o) >= 2 && o[0] <= 2 && (o[0] == 2 || o[1] < 40)
}

// suffix decodes what follows the encoded prefix in b, if that is exactly one
// sub-identifier of 32 bits.
func suffix(prefix, b []byte) (v uint32, ok bool) {
	if len(b) <= len(prefix) || string(b[:len(prefix)]) != string(prefix) {
		return 0, false
	}
	var sum uint64
	b = b[len(prefix):]
	for i, c := range b {
		sum = sum<<7 | uint64(c&0x7f)
		if sum > 1<<32-1 {
			return 0, false
		}
		if c&0x80 == 0 {
			return uint32(sum), i == len(b)-1
		}
	}
	return 0, false
}

// suffixes is suffix for an index of n sub-identifiers.
func suffixes(prefix, b []byte, n int) (sub []uint32, ok bool) {
	if len(b) <= len(prefix) || string(b[:len(prefix)]) != string(prefix) {
		return nil, false
	}
	var sum uint64
	open := false
	for _, c := range b[len(prefix):] {
		sum = sum<<7 | uint64(c&0x7f)
		if sum > 1<<32-1 || len(sub) == n {
			return nil, false
		}
		if open = c&0x80 != 0; !open {
			sub, sum = append(sub, uint32(sum)), 0
		}
	}
	return sub, !open && len(sub) == n
}

// column is one column of the interface tables.
type column uint8

const (
	ifName column = iota
	ifDescr
	ifOperStatus
	ifCounterDiscontinuityTime
	ifSpeed
	ifHighSpeed
	ifOutOctets
	ifHCOutOctets
	ifOutUcastPkts
	ifHCOutUcastPkts
	ifOutMulticastPkts
	ifHCOutMulticastPkts
	ifOutBroadcastPkts
	ifHCOutBroadcastPkts
	ifOutNUcastPkts
	ifOutDiscards
	ifOutErrors
	nColumns

	// What a request asks for beside columns of ports.
	uptimeScalar
	lastChangeScalar
)

var columns = [nColumns]struct {
	name  string
	entry oid
	sub   uint32
	kind  gosnmp.Asn1BER
}{
	ifName:                     {"ifName", ifXEntry, 1, gosnmp.OctetString},
	ifDescr:                    {"ifDescr", ifEntry, 2, gosnmp.OctetString},
	ifOperStatus:               {"ifOperStatus", ifEntry, 8, gosnmp.Integer},
	ifCounterDiscontinuityTime: {"ifCounterDiscontinuityTime", ifXEntry, 19, gosnmp.TimeTicks},
	ifSpeed:                    {"ifSpeed", ifEntry, 5, gosnmp.Gauge32},
	ifHighSpeed:                {"ifHighSpeed", ifXEntry, 15, gosnmp.Gauge32},
	ifOutOctets:                {"ifOutOctets", ifEntry, 16, gosnmp.Counter32},
	ifHCOutOctets:              {"ifHCOutOctets", ifXEntry, 10, gosnmp.Counter64},
	ifOutUcastPkts:             {"ifOutUcastPkts", ifEntry, 17, gosnmp.Counter32},
	ifHCOutUcastPkts:           {"ifHCOutUcastPkts", ifXEntry, 11, gosnmp.Counter64},
	ifOutMulticastPkts:         {"ifOutMulticastPkts", ifXEntry, 4, gosnmp.Counter32},
	ifHCOutMulticastPkts:       {"ifHCOutMulticastPkts", ifXEntry, 12, gosnmp.Counter64},
	ifOutBroadcastPkts:         {"ifOutBroadcastPkts", ifXEntry, 5, gosnmp.Counter32},
	ifHCOutBroadcastPkts:       {"ifHCOutBroadcastPkts", ifXEntry, 13, gosnmp.Counter64},
	ifOutNUcastPkts:            {"ifOutNUcastPkts", ifEntry, 18, gosnmp.Counter32},
	ifOutDiscards:              {"ifOutDiscards", ifEntry, 19, gosnmp.Counter32},
	ifOutErrors:                {"ifOutErrors", ifEntry, 20, gosnmp.Counter32},
}

// oid returns the column's name; with the ifIndex appended it names an instance.
func (c column) oid() oid { return columns[c].entry.at(columns[c].sub) }

// mask is a set of columns.
type mask uint32

func (m mask) has(c column) bool { return m&(1<<c) != 0 }

func (m mask) size() int { return bits.OnesCount32(uint32(m)) }

func of(cs ...column) (m mask) {
	for _, c := range cs {
		m |= 1 << c
	}
	return m
}
