package ebpf

import (
	"bytes"
	"encoding/binary"
	"math/big"

	"github.com/csig-agent/csig/quantize"
)

// model is a port of a CSIG switch as draft-00 §5.4 and §6.2 tell it, written without any of
// the code under test: it works on bytes and on exact rationals.
type model struct {
	uec           bool
	compact, wide uint16
	retired       map[uint16]int // sizes of retired tags, which the port removes if strips
	update        bool
	stripOwn      bool
	stripRetired  bool
	signals       map[uint16]local // by T
}

// local is a port's own value of a signal.
type local struct {
	s, lm         uint32
	wideS, wideLM uint32
}

// out is the frame that leaves the port.
func (m *model) out(f []byte) []byte {
	f = m.stripped(f)
	if !m.update {
		return f
	}
	at := 12
	for n := 0; ; n++ {
		if len(f) < at+2 {
			return f
		}
		t := binary.BigEndian.Uint16(f[at:])
		size := m.size(t)
		if _, old := m.retired[t]; old {
			return f
		}
		if size == 0 {
			if t != 0x8100 && t != 0x88a8 || n == 4 {
				return f
			}
			at += 4
			continue
		}
		if len(f) < at+size+2 {
			return f
		}
		if next := binary.BigEndian.Uint16(f[at+size:]); m.size(next) != 0 || next == 0x8100 || next == 0x88a8 {
			return f
		}
		out := bytes.Clone(f)
		if size == 4 {
			m.short(out[at+2:])
		} else {
			m.long(out[at+2:])
		}
		return out
	}
}

func (m *model) size(t uint16) int {
	switch {
	case t == 0:
		return 0
	case t == m.compact:
		return 4
	case t == m.wide:
		return 8
	}
	return m.retired[t]
}

func (m *model) short(b []byte) {
	v := uint32(binary.BigEndian.Uint16(b))
	l, ok := m.signals[uint16(v>>13)]
	s, lm := v>>7&31, l.lm
	if m.uec {
		lm <<= 1
	}
	if !ok || m.uec && v&1 == 1 || !better(v>>13, s, l.s) {
		return
	}
	binary.BigEndian.PutUint16(b, uint16(v&0xf000|l.s<<7|lm))
}

func (m *model) long(b []byte) {
	lm, rest := binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])
	l, ok := m.signals[uint16(rest>>28)]
	if !ok || m.uec && lm&1 == 1 || !better(rest>>28, rest>>8&0xfffff, l.wideS) {
		return
	}
	lm = uint16(l.wideLM)
	if m.uec {
		lm <<= 1
	}
	binary.BigEndian.PutUint16(b, lm)
	binary.BigEndian.PutUint32(b[2:], rest&0xf00000ff|l.wideS<<8)
}

// better is whether a tag's S is better than the port's own.
func better(t, tag, own uint32) bool {
	if t >= 2 {
		return tag < own
	}
	return tag > own
}

// stripped is the frame without the tags that the port removes.
func (m *model) stripped(f []byte) []byte {
	type unit struct {
		from, to   int
		csig, goes bool
	}
	var row []unit
	at, vlans := 12, 0
	for {
		if len(f) < at+2 {
			return f
		}
		t := binary.BigEndian.Uint16(f[at:])
		size, vlan := m.size(t), t == 0x8100 || t == 0x88a8
		if size == 0 && !vlan {
			break
		}
		own := t == m.compact || t == m.wide
		u := unit{at, at + max(size, 4), size != 0, own && m.stripOwn || !own && m.stripRetired}
		if !u.csig {
			vlans++
		}
		if at = u.to; at > 12+32 || vlans > 4 {
			return f
		}
		row = append(row, u)
	}
	keep := len(row)
	for keep > 0 && row[keep-1].csig {
		keep--
	}
	out := bytes.Clone(f[:12])
	for i, u := range row {
		if i < keep || !u.goes {
			out = append(out, f[u.from:u.to]...)
		}
	}
	return append(out, f[at:]...)
}

// truth is a signal's value as a rational in its unit, for so many bytes in an interval of ns.
func truth(sig quantize.Signal, bytes, rate, ns uint64) *big.Rat {
	n := func(v uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(v)) }
	used := n(bytes)
	used.Mul(used, n(8e9)).Quo(used, n(ns))
	switch sig {
	case quantize.MaxPD:
		return used.Quo(n(0).Mul(n(bytes), n(8e9)), n(rate))
	case quantize.MinABWC:
		used.Sub(n(rate), used).Quo(used, n(rate)).Mul(used, n(1e6))
	default:
		used.Sub(n(rate), used)
	}
	if used.Sign() < 0 {
		used.SetInt64(0)
	}
	return used
}

func floor(r *big.Rat) uint64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Uint64()
}
