package snmp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
)

// Tables of LLDP-MIB (IEEE 802.1AB). A row of the remote table is indexed by a time, the
// local port number and a number of its own.
var (
	lldpLocPortEntry = oid{1, 0, 8802, 1, 1, 2, 1, 3, 7, 1}
	lldpRemEntry     = oid{1, 0, 8802, 1, 1, 2, 1, 4, 1, 1}
)

// Columns of the two tables.
const (
	lldpLocPortIDSubtype = 2
	lldpLocPortID        = 3
	lldpLocPortDesc      = 4

	lldpRemChassisIDSubtype = 4
	lldpRemChassisID        = 5
	lldpRemPortIDSubtype    = 6
	lldpRemPortID           = 7
	lldpRemPortDesc         = 8
	lldpRemSysName          = 9
)

// maxNeighbors bounds what is kept of a device that invents them.
const maxNeighbors = 1 << 14

// Subtypes of LLDP's identifiers; those of chassis and ports differ.
const (
	chassisMAC  = 4
	chassisAddr = 5
	portMAC     = 3
	portAddr    = 4
	portName    = 5
)

// remote is a row of the remote table, and local what the agent says of one of its ports.
type remote struct {
	index                     [3]uint32
	chassisKind, portKind     uint64
	chassis, port, descr, sys []byte
}

type local struct{ id, descr string }

// neighbors reads LLDP-MIB; rows are the device's interfaces.
func (s *Source) neighbors(ctx context.Context, rows []row) ([]counters.Neighbor, error) {
	ports := make(map[uint32]*local)
	for _, c := range []uint32{lldpLocPortID, lldpLocPortDesc} {
		err := s.walk(ctx, lldpLocPortEntry.at(c), &walked{}, func(num uint32, b *binding) error {
			if ports[num] == nil {
				ports[num] = &local{}
			}
			if b.kind != gosnmp.OctetString {
				return nil
			}
			if c == lldpLocPortID {
				ports[num].id = nameOf(b.text)
			} else {
				ports[num].descr = nameOf(b.text)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	found := make(map[[3]uint32]*remote)
	for c := uint32(lldpRemChassisIDSubtype); c <= lldpRemSysName; c++ {
		if err := s.walkRemote(ctx, c, found); err != nil {
			return nil, err
		}
	}
	if len(ports) == 0 && len(found) == 0 {
		return nil, counters.ErrNoLLDP
	}
	byName, byIndex := make(map[string]bool, len(rows)), make(map[uint32]string, len(rows))
	for _, r := range rows {
		byName[r.name], byIndex[r.index] = true, r.name
	}
	// lldpLocPortNum is the ifIndex on many devices, and a number of its own on others: what
	// it says of itself goes first.
	name := func(num uint32) string {
		p := ports[num]
		switch {
		case p != nil && byName[p.id]:
			return p.id
		case p != nil && byName[p.descr]:
			return p.descr
		case byIndex[num] != "":
			return byIndex[num]
		}
		return fmt.Sprintf("LLDP port %d", num)
	}
	list := make([]counters.Neighbor, 0, len(found))
	sorted := make([]*remote, 0, len(found))
	for _, r := range found {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *remote) int { // the time of a row is none of an order
		return slices.Compare(a.index[1:], b.index[1:])
	})
	for _, r := range sorted {
		n := counters.Neighbor{
			Port: name(r.index[1]), System: nameOf(r.sys), PeerText: nameOf(r.descr),
			Chassis:  identifier(r.chassis, r.chassisKind == chassisMAC, r.chassisKind == chassisAddr),
			PeerPort: identifier(r.port, r.portKind == portMAC, r.portKind == portAddr),
		}
		switch r.portKind {
		case portName:
			n.PeerKind = counters.NamePortID
		case portMAC:
			n.PeerKind = counters.MACPortID
		}
		list = append(list, n)
	}
	return list, nil
}

// identifier is an identifier of LLDP as text.
func identifier(b []byte, mac, addr bool) string {
	if mac && len(b) == 6 {
		return net.HardwareAddr(b).String()
	}
	if addr && len(b) > 1 { // its first byte is the address family
		if a, ok := netip.AddrFromSlice(b[1:]); ok {
			return a.String()
		}
	}
	return nameOf(b)
}

// walkRemote reads a column of the remote table. A row that comes or goes meanwhile has
// what was read of it.
func (s *Source) walkRemote(ctx context.Context, c uint32, found map[[3]uint32]*remote) error {
	return s.walkTable(ctx, lldpRemEntry.at(c), 3, func(sub []uint32, b *binding) error {
		index := [3]uint32(sub)
		r := found[index]
		if r == nil {
			if len(found) == maxNeighbors {
				return fmt.Errorf("%w: more than %d neighbours", ErrMalformed, maxNeighbors)
			}
			r = &remote{index: index}
			found[index] = r
		}
		text := slices.Clone(b.text[:min(len(b.text), maxText)])
		switch c {
		case lldpRemChassisIDSubtype:
			r.chassisKind = b.n
		case lldpRemChassisID:
			r.chassis = text
		case lldpRemPortIDSubtype:
			r.portKind = b.n
		case lldpRemPortID:
			r.port = text
		case lldpRemPortDesc:
			r.descr = text
		case lldpRemSysName:
			r.sys = text
		}
		return nil
	})
}

// walkTable calls visit for each instance of a column that is indexed by n numbers. A column
// that the agent does not have is no error.
func (s *Source) walkTable(ctx context.Context, base oid, n int, visit func(sub []uint32, b *binding) error) error {
	prefix := base.encode(nil)
	var last []uint32
	for seen := 0; ; {
		if err := s.bulk(ctx, base.at(last...)); err != nil {
			return err
		}
		for i := range s.answer.binds {
			b := &s.answer.binds[i]
			sub, ok := suffixes(prefix, b.oid, n)
			if !ok || b.kind == gosnmp.EndOfMibView {
				return nil
			}
			if slices.Compare(sub, last) <= 0 {
				return fmt.Errorf("%w: instance %d of %s follows %d", ErrMalformed, sub, base.dotted()[1:], last)
			}
			if seen++; seen > maxRows {
				return fmt.Errorf("%w: %s has more than %d instances", ErrMalformed, base.dotted()[1:], maxRows)
			}
			last = sub
			if err := visit(sub, b); err != nil {
				return err
			}
		}
	}
}
