package snmp

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gosnmp/gosnmp"
)

// problem says what is to be done about a port that was not read.
type problem uint8

const (
	fine   problem = iota
	retry          // ask again, in a smaller PDU
	lookUp         // the row is another port's, is gone, or has other columns
	final          // this reading failed
)

// port is what is known of one configured port.
type port struct {
	name string

	// Where it is and what is read of it, as the last survey found out.
	index   uint32 // ifIndex; 0 while it is not found
	need    mask   // the columns read; 0 while it cannot be read
	parts   []column
	partial bool // multicast or broadcast packets are not counted by the agent
	anySpd  bool // ifSpeed says nothing about this port
	missing error
	has     mask      // the columns of its row
	narrow  bool      // its 64-bit columns do not count
	proven  bool      // its 64-bit octets have moved
	ahead   time.Time // since when its 32-bit octets have moved alone
	stood   int       // readings that showed that
	alone   bool      // breaks the PDUs it shares with others
	wasBad  bool      // was not found, or down, when the last reading ended

	// This reading.
	val            [nColumns]uint64
	got            mask
	problem        problem
	err            error
	sent, received time.Time
	boot           uint64 // Source.boot when it was read

	hist history
}

var (
	leanColumns = of(ifOutOctets, ifHCOutOctets, ifOutUcastPkts, ifHCOutUcastPkts, ifOutMulticastPkts, ifHCOutMulticastPkts,
		ifOutBroadcastPkts, ifHCOutBroadcastPkts, ifOutNUcastPkts)
	surveyColumns = mask(1<<nColumns-1) &^ of(ifName, ifDescr)
)

func (p *port) fullColumns() mask { return p.need }
func (p *port) leanColumns() mask { return p.need & leanColumns }

// begin clears the values of the columns about to be read.
func (p *port) begin(cols mask) {
	p.got &^= cols
	p.problem, p.err = fine, nil
}

func (p *port) fail(what problem, err error) {
	if p.problem == fine {
		p.problem, p.err = what, err
	}
}

// take stores the value of one column.
func (p *port) take(c column, b *binding) {
	switch {
	case b.kind == gosnmp.NoSuchInstance || b.kind == gosnmp.NoSuchObject || b.kind == gosnmp.EndOfMibView:
		p.fail(lookUp, fmt.Errorf("%s.%d: %w (%v)", columns[c].name, p.index, ErrMissing, b.kind))
	case b.kind != columns[c].kind:
		kind := b.kind.String()
		if b.kind == damaged {
			kind = "a value that cannot be decoded"
		}
		p.fail(final, fmt.Errorf("%s.%d: %w: %s, want %v", columns[c].name, p.index, ErrType, kind, columns[c].kind))
	case c == ifDescr && p.need.has(ifName):
		if isLinkName(b.text) && !bytes.Equal(b.text, []byte(p.name)) {
			p.fail(lookUp, fmt.Errorf("ifIndex %d: its ifName is %q, its ifDescr %q: %w", p.index, p.name, nameOf(b.text), ErrRenamed))
			return
		}
		p.got |= 1 << c
	case (c == ifName || c == ifDescr) && string(b.text) != p.name && nameOf(b.text) != p.name:
		p.fail(lookUp, fmt.Errorf("ifIndex %d is now %q: %w", p.index, nameOf(b.text), ErrNoPort))
	default:
		p.val[c] = b.n
		p.got |= 1 << c
	}
}

// isLinkName reports whether Linux would take text for an interface's name. net-snmp
// describes some hardware in words instead.
func isLinkName(text []byte) bool {
	return len(text) > 0 && len(text) < 16 && !bytes.ContainsAny(text, " \t\n\v\f\r/")
}

// check finds values that do not fit together. It is for a port that was read.
func (p *port) check() {
	if p.problem != fine {
		return
	}
	if p.need&^p.got != 0 {
		p.fail(retry, ErrMissing)
		return
	}
	if s := p.val[ifOperStatus]; s < 1 || s > 7 {
		p.fail(final, fmt.Errorf("ifOperStatus.%d: %w: %d, want 1 to 7", p.index, ErrType, int64(s)))
		return
	}
	// The speed may have moved out of the column that has it best.
	switch {
	case p.need.has(ifSpeed) && p.val[ifSpeed] == speedMax && p.has.has(ifHighSpeed),
		p.need.has(ifHighSpeed) && !p.anySpd && p.val[ifHighSpeed] > 0 && p.val[ifHighSpeed]*1e6 < speedMax:
		p.fail(lookUp, fmt.Errorf("speed changed and was not read again: %w", ErrMissing))
	}
}

// Values of ifOperStatus (RFC 2863).
const (
	operUp      = 1
	operUnknown = 4
)

// up reports whether the link carries frames. An agent that does not know it
// (unknown) has no reason to think that it does not.
func (p *port) up() bool {
	return p.val[ifOperStatus] == operUp || p.val[ifOperStatus] == operUnknown
}

// speedMax is what ifSpeed says where the speed is more than it can hold, which is nothing where there is
// no ifHighSpeed.
const speedMax = 1<<32 - 1

// speed returns the capacity in bit/s, 0 where the agent does not know it.
func (p *port) speed() uint64 {
	switch {
	case p.need.has(ifSpeed) && p.val[ifSpeed] != speedMax:
		return p.val[ifSpeed]
	case p.need.has(ifHighSpeed):
		return p.val[ifHighSpeed] * 1e6
	}
	return 0
}

// choose decides what to read of a port whose row has the given columns; kernel is for
// net-snmp on Linux. RFC 2863 §3.1.6 lets the width of octets and packets differ.
func (p *port) choose(name column, has mask, val *[nColumns]uint64, rule Discards, kernel bool) {
	p.need, p.parts, p.partial, p.missing = 0, p.parts[:0], false, nil
	p.has, p.proven = has, false
	if !has.has(ifOperStatus) {
		p.missing = fmt.Errorf("ifOperStatus.%d: %w", p.index, ErrMissing)
		return
	}
	need := of(name, ifOperStatus)
	if kernel && name == ifName {
		// net-snmp keeps the row of an interface that was renamed, with its counters
		// as they were: only ifDescr has the new name.
		need |= of(ifDescr)
	}
	switch {
	case has.has(ifHCOutOctets) && !p.narrow && (val[ifHCOutOctets] != 0 || !has.has(ifOutOctets) || val[ifOutOctets] == 0):
		need |= of(ifHCOutOctets)
	case has.has(ifOutOctets):
		need |= of(ifOutOctets)
	default:
		p.missing = fmt.Errorf("neither ifHCOutOctets.%d nor ifOutOctets.%d: %w", p.index, p.index, ErrMissing)
		return
	}
	wide := need.has(ifHCOutOctets)
	pick := func(hc, narrow column) bool {
		switch {
		case has.has(hc) && wide && (val[hc] != 0 || !has.has(narrow) || val[narrow] == 0):
			p.parts = append(p.parts, hc)
		case has.has(narrow):
			p.parts = append(p.parts, narrow)
		case has.has(hc):
			p.parts = append(p.parts, hc)
		default:
			return false
		}
		return true
	}
	if !pick(ifHCOutUcastPkts, ifOutUcastPkts) {
		p.missing = fmt.Errorf("neither ifHCOutUcastPkts.%d nor ifOutUcastPkts.%d, without which the cost of preambles is unknown: %w",
			p.index, p.index, ErrMissing)
		return
	}
	multicast := pick(ifHCOutMulticastPkts, ifOutMulticastPkts)
	broadcast := pick(ifHCOutBroadcastPkts, ifOutBroadcastPkts)
	if !multicast || !broadcast {
		// ifOutNUcastPkts is the sum of both, for agents older than ifXTable.
		p.parts = p.parts[:1]
		if has.has(ifOutNUcastPkts) {
			p.parts = append(p.parts, ifOutNUcastPkts)
		} else {
			p.partial = true
		}
	}
	need |= of(p.parts...)
	need |= has & of(ifCounterDiscontinuityTime)
	if rule != DiscardsExcluded {
		need |= has & of(ifOutDiscards, ifOutErrors)
	}

	// ifSpeed is exact and ifHighSpeed rounded to 1 Mbit/s, but ifSpeed ends at
	// 4.3 Gbit/s.
	p.anySpd = !has.has(ifSpeed) || val[ifSpeed] == 0
	switch {
	case !p.anySpd && (val[ifSpeed] != speedMax || !has.has(ifHighSpeed)):
		need |= of(ifSpeed)
	case has.has(ifHighSpeed):
		need |= of(ifHighSpeed)
	}
	p.need = need
}
