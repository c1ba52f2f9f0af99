package agent

import (
	"encoding/binary"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// texts are those of a record, which many in a row have in common.
type texts [6]string

// mostText bounds each of them in a packed record, in bytes: one record fits into fewestBytes.
const mostText = 150

func (r *record) texts() (t texts) {
	t = texts{r.state, string(r.code), r.reason, r.failure, r.refused, r.repaired}
	for i := range t {
		t[i] = untrusted.Text(t[i], mostText)
	}
	return t
}

// What a packed record has.
const (
	packedFailed = 1 << iota
	packedRefuses
	packedHeld
	packedWritten
	packedLast  // more than one cycle: the last of them
	packedTexts // other texts than the record before
)

// pack appends a record: some 80 bytes where it has one cycle, 150 where it has more. before are
// the texts of the record before; then they are this one's.
func (r *record) pack(b []byte, before *texts) []byte {
	flags := byte(0)
	flag := func(is bool, bit byte) {
		if is {
			flags |= bit
		}
	}
	t := r.texts()
	flag(r.failed, packedFailed)
	flag(r.refuses, packedRefuses)
	flag(r.held, packedHeld)
	flag(r.written, packedWritten)
	flag(r.cycles > 1, packedLast)
	flag(t != *before, packedTexts)
	b = append(b, flags)
	if t != *before {
		for _, one := range t {
			b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
		}
		*before = t
	}
	set := byte(0)
	for k := range r.signals {
		if r.signals[k].set {
			set |= 1 << k
		}
	}
	b = append(b, set)
	for _, s := range r.signals {
		if s.set {
			b = binary.AppendUvarint(append(b, s.s), uint64(s.lm))
		}
	}
	b = r.first.pack(b)
	if r.cycles > 1 {
		b = r.last.pack(b)
		b = binary.AppendUvarint(b, r.cycles)
		b = binary.AppendUvarint(b, r.minABW)
		b = binary.AppendUvarint(b, r.maxABW)
	}
	return b
}

// unpack reads what pack has appended, and returns what is behind it.
func (r *record) unpack(b []byte, before *texts) []byte {
	u := unpacking{b}
	flags := u.byte()
	if flags&packedTexts != 0 {
		for i := range before {
			n := u.uint()
			before[i], u.b = string(u.b[:n]), u.b[n:]
		}
	}
	*r = record{
		outcome: outcome{
			state: before[0], code: findings.Code(before[1]),
			failed: flags&packedFailed != 0, refuses: flags&packedRefuses != 0, held: flags&packedHeld != 0, written: flags&packedWritten != 0,
		},
		cycles: 1, reason: before[2], failure: before[3], refused: before[4], repaired: before[5],
	}
	set := u.byte()
	for k := range r.signals {
		if set&(1<<k) != 0 {
			r.signals[k] = told{true, u.byte(), uint16(u.uint())}
		}
	}
	r.first = u.moment()
	r.last, r.minABW, r.maxABW = r.first, r.first.abw, r.first.abw
	if flags&packedLast != 0 {
		r.last, r.cycles, r.minABW, r.maxABW = u.moment(), u.uint(), u.uint(), u.uint()
	}
	return u.b
}

// pack appends a moment. Its times are told from the time of its cycle.
func (m *moment) pack(b []byte) []byte {
	b = binary.AppendVarint(b, m.at)
	for _, t := range [...]int64{m.read, m.start, m.end, m.lease} {
		b = binary.AppendVarint(b, m.at-t)
	}
	for _, v := range [...]uint64{
		uint64(m.readNS), uint64(m.programNS), uint64(m.errorNS), m.octets, m.bits, m.capacity, m.load, m.abw, uint64(m.abwc), uint64(m.ops),
	} {
		b = binary.AppendUvarint(b, v)
	}
	return append(append(b, byte(m.estimate)), m.buckets[:]...)
}

// unpacking is what is still to be read of what this process has packed.
type unpacking struct{ b []byte }

func (u *unpacking) moment() (m moment) {
	m.at = u.int()
	m.read, m.start, m.end, m.lease = m.at-u.int(), m.at-u.int(), m.at-u.int(), m.at-u.int()
	m.readNS, m.programNS, m.errorNS = int64(u.uint()), int64(u.uint()), int64(u.uint())
	m.octets, m.bits, m.capacity, m.load, m.abw = u.uint(), u.uint(), u.uint(), u.uint(), u.uint()
	m.abwc, m.ops, m.estimate = uint32(u.uint()), uint32(u.uint()), counters.State(u.byte())
	for k := range m.buckets {
		m.buckets[k] = u.byte()
	}
	return m
}

func (u *unpacking) byte() (v byte) {
	v, u.b = u.b[0], u.b[1:]
	return v
}

func (u *unpacking) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	u.b = u.b[n:]
	return v
}

func (u *unpacking) int() int64 {
	v, n := binary.Varint(u.b)
	u.b = u.b[n:]
	return v
}
