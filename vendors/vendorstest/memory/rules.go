package memory

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

// Packet is a frame on its way through a switch: what rules match and alter.
type Packet struct {
	In       *Port
	Bytes    []byte // the frame without FCS; rules alter it, or put another in its place
	Metadata uint64 // what rules leave for those of later tables

	s    *Switch
	vlan uint16 // that it is bridged in
	now  time.Time
}

// Output sends a copy of the packet, as it is now, out of a port.
func (p *Packet) Output(to *Port) { to.emit(p.s, p.Bytes, p.vlan, p.now) }

// Copy returns a packet that is altered on its own, e.g. by a bucket of a group.
func (p *Packet) Copy() *Packet {
	c := *p
	c.Bytes = slices.Clone(p.Bytes)
	return &c
}

// Type returns the packet's EtherType: the TPID of the outermost tag where it has one.
func (p *Packet) Type() uint16 { return typeAt(p.Bytes, macs) }

// TCI returns the two bytes behind Type: PCP, DEI and VID where that is a TPID.
func (p *Packet) TCI() uint16 { return tciAt(p.Bytes, macs) }

// SetTCI sets those bits of the TCI that mask has.
func (p *Packet) SetTCI(tci, mask uint16) { setTCI(p.Bytes, macs, p.TCI()&^mask|tci&mask) }

// Push puts a tag in front of the others.
func (p *Packet) Push(tpid, tci uint16) {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, tpid), tci)
	p.Bytes = slices.Insert(p.Bytes, macs, tag...)
}

// Pop removes the outermost tag.
func (p *Packet) Pop() { p.Bytes = cut(p.Bytes, macs, tagSize) }

// Rule is one entry of a table.
type Rule struct {
	Priority int
	Match    func(*Packet) bool // nil: every packet
	Do       func(*Packet)      // nil: the packet is dropped

	Packets, Octets uint64 // that took the rule; octets as in counters, with the FCS
}

// Table is a list of rules, the highest priority first. A switch with several tables has
// rules that call Apply of the next one.
type Table []*Rule

// Add puts a rule behind those of its priority.
func (t *Table) Add(r *Rule) {
	*t = append(*t, r)
	slices.SortStableFunc(*t, func(a, b *Rule) int { return cmp.Compare(b.Priority, a.Priority) })
}

// Apply does what the first rule that matches says, and reports whether there was one.
func (t Table) Apply(p *Packet) bool {
	for _, r := range t {
		if r.Match != nil && !r.Match(p) {
			continue
		}
		r.Packets++
		r.Octets += uint64(len(p.Bytes) + fcs)
		if r.Do != nil {
			r.Do(p)
		}
		return true
	}
	return false
}
