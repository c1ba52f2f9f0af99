package openflow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
)

// Forwarding is one of the operator's forwarding flows: which frames leave by a
// port. A switch whose one table csig shares does not tell a flow there by which
// port a frame leaves. VLANs are no condition: the VID is the signal.
type Forwarding struct {
	InPort string `key:"in_port" is:"line 64" doc:"The port that the frames come in by; any unless given."`
	EthDst string `key:"eth_dst" is:"line 64" doc:"Their destination: a MAC address, or ADDRESS/MASK; any unless given."`
	IPDst  string `key:"ip_dst" is:"line 64" doc:"Their destination: an IPv4 prefix; frames of any protocol unless given."`
	Port   string `key:"port,need" is:"line 64" hint:"the port that the frames leave by" doc:"The port that they leave by."`
}

// Check wants conditions that can be read.
func (f *Forwarding) Check(m inventory.Mapping) {
	if _, err := f.match(); err != nil {
		key := "eth_dst"
		if strings.HasPrefix(err.Error(), "ip_dst") {
			key = "ip_dst"
		}
		m.WrongValue(key, "", "%v", err)
	}
}

// Fields of OXM that conditions name (§7.2.3.7).
const (
	oxmInPort  = 0
	oxmEthDst  = 3
	oxmEthSrc  = 4
	oxmIPv4Dst = 12

	ethTypeIPv4 = 0x0800
)

// oxmBytes is a field of OXM; without a mask where that has all bits, and nothing
// where it has none.
func oxmBytes(field byte, value, mask []byte) []byte {
	switch {
	case len(bytes.Trim(mask, "\x00")) == 0:
		return nil
	case len(bytes.Trim(mask, "\xff")) == 0:
		return append([]byte{0x80, 0, field << 1, byte(len(value))}, value...)
	}
	out := append([]byte{0x80, 0, field<<1 | 1, byte(2 * len(value))}, value...)
	for i := range value {
		out[4+i] &= mask[i]
	}
	return append(out, mask...)
}

// match is the condition but for the port that frames come in by.
func (f *Forwarding) match() (m ofp.Match, err error) {
	var more []byte
	if f.EthDst != "" {
		address, maskText, masked := strings.Cut(f.EthDst, "/")
		mac, err := net.ParseMAC(address)
		mask := net.HardwareAddr(bytes.Repeat([]byte{0xff}, 6))
		if err == nil && masked {
			mask, err = net.ParseMAC(maskText)
		}
		if err != nil || len(mac) != 6 || len(mask) != 6 {
			return m, fmt.Errorf("eth_dst: want a MAC address, or ADDRESS/MASK, e.g. 02:00:00:00:00:01 or 02:00:00:00:00:00/ff:ff:ff:00:00:00, found %q", f.EthDst)
		}
		more = append(more, oxmBytes(oxmEthDst, mac, mask)...)
	}
	if f.IPDst != "" {
		p, err := netip.ParsePrefix(f.IPDst)
		if a, errAddr := netip.ParseAddr(f.IPDst); errAddr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || !p.Addr().Is4() {
			return m, fmt.Errorf("ip_dst: want an IPv4 address or prefix, e.g. 192.0.2.0/24, found %q", f.IPDst)
		}
		a := p.Addr().As4()
		m.EthType = ethTypeIPv4
		more = append(more, oxmBytes(oxmIPv4Dst, a[:], net.CIDRMask(p.Bits(), 32))...)
	}
	m.Else = string(more)
	return m, nil
}

// String is the flow as messages name it.
func (f *Forwarding) String() string {
	var out []string
	for _, c := range []struct{ key, value string }{{"in_port", f.InPort}, {"eth_dst", f.EthDst}, {"ip_dst", f.IPDst}} {
		if c.value != "" {
			out = append(out, c.key+" "+c.value)
		}
	}
	if out == nil {
		out = []string{"every frame"}
	}
	return strings.Join(out, ", ") + " → " + f.Port
}

// forward is one with the numbers of its ports.
type forward struct {
	Forwarding
	match  ofp.Match
	number uint32
}

// resolve finds the ports of forwarding flows. Frames that two of them take have
// no one port: that is an error, as is one of a port that there is not.
func resolve(list []Forwarding, ports *portNames) ([]forward, error) {
	var out []forward
	for i := range list {
		f := forward{Forwarding: list[i], number: ports.number[list[i].Port]}
		m, err := f.Forwarding.match()
		if err != nil {
			return nil, err
		}
		if f.match = m; f.InPort != "" {
			f.match.InPort = ports.number[f.InPort]
		}
		for _, name := range []string{f.Port, f.InPort} {
			if name != "" && ports.number[name] == 0 {
				return nil, fmt.Errorf("forwarding %q: port %s: %w", f.Forwarding.String(), name, ports.missing(name))
			}
		}
		for j := range out {
			if overlap(&out[j].match, &f.match) {
				return nil, fmt.Errorf("forwarding %q and %q take the same frames: by which port do they leave?", out[j].Forwarding.String(), f.Forwarding.String())
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// overlap reports whether some frame meets two conditions.
func overlap(a, b *ofp.Match) bool {
	if a.InPort != 0 && b.InPort != 0 && a.InPort != b.InPort {
		return false
	}
	ours, _ := splitOXM(a.Else)
	theirs, _ := splitOXM(b.Else)
	for field, x := range ours {
		y, both := theirs[field]
		if !both || len(x.value) != len(y.value) {
			continue
		}
		for i := range x.value {
			if (x.value[i]^y.value[i])&x.mask[i]&y.mask[i] != 0 {
				return false
			}
		}
	}
	return true
}

type valueMask struct{ value, mask []byte }

// splitOXM are OpenFlow's own fields in Match.Else, by their numbers, and the bytes of others.
func splitOXM(text string) (out map[byte]valueMask, others []byte) {
	out = map[byte]valueMask{}
	for b := []byte(text); len(b) >= 4; {
		n := min(4+int(b[3]), len(b))
		if b[0] != 0x80 || b[1] != 0 { // of another class
			others, b = append(others, b[:n]...), b[n:]
			continue
		}
		v := valueMask{value: b[4:n], mask: bytes.Repeat([]byte{0xff}, n-4)}
		if b[2]&1 != 0 {
			v = valueMask{b[4 : 4+(n-4)/2], b[4+(n-4)/2 : n]}
		}
		out[b[2]>>1] = v
		b = b[n:]
	}
	return out, others
}

// canonical is a match as csig writes it: a switch may return the fields of Else in
// an order of its own, with bits outside of their masks.
func canonical(m ofp.Match) ofp.Match {
	fields, others := splitOXM(m.Else)
	var all []byte
	for f := range fields {
		all = append(all, f)
	}
	slices.Sort(all)
	var out []byte
	for _, f := range all {
		out = append(out, oxmBytes(f, fields[f].value, fields[f].mask)...)
	}
	m.Else = string(append(out, others...))
	return m
}

// nowhereFlat is the condition of flows that no frame meets: no frame has the address
// of a group as its source (IEEE 802, 8.2.2). The last byte tells them apart.
func nowhereFlat(n byte) ofp.Match {
	return ofp.Match{Else: string(oxmBytes(oxmEthSrc, []byte{0x03, 'c', 's', 'i', 'g', n}, bytes.Repeat([]byte{0xff}, 6)))}
}

// isNowhere is the inverse of nowhereFlat.
func isNowhere(m *ofp.Match) (n byte, ok bool) {
	fields, _ := splitOXM(m.Else)
	v, has := fields[oxmEthSrc]
	if !has || len(v.value) != 6 || binary.BigEndian.Uint32(v.value) != binary.BigEndian.Uint32([]byte{0x03, 'c', 's', 'i'}) || v.value[4] != 'g' {
		return 0, false
	}
	return v.value[5], true
}
