package snmp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// maxScanned is how many interfaces a listing has at most: more than switches have, also with
// all their VLAN interfaces.
const maxScanned = 10_000

// operStatuses are the names of ifOperStatus's values (RFC 2863).
var operStatuses = [...]string{1: "up", 2: "down", 3: "testing", 4: "unknown", 5: "dormant", 6: "notPresent", 7: "lowerLayerDown"}

// Scan lists the interfaces of a device, with what a Source would read of each, and its
// neighbours. cfg.Ports has no meaning. Where the device stops answering, or ctx ends, after its
// interfaces are known, there is a listing beside the error.
func Scan(ctx context.Context, cfg Config) (*counters.Listing, error) {
	cfg.Ports = []string{"*"} // of which there have to be some; the device names them
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	done, err := s.arm(ctx)
	if err != nil {
		return nil, s.deviceError(s.ended(ctx, err))
	}
	defer done()
	l, err := s.scan(ctx)
	if err != nil {
		err = s.deviceError(s.ended(ctx, err))
	}
	return l, err
}

func (s *Source) scan(ctx context.Context) (*counters.Listing, error) {
	q := &inquiry{}
	if err := s.identify(ctx, q); err != nil {
		return nil, err
	}
	l := &counters.Listing{Description: s.system.descr, Protocol: "SNMPv" + string(s.cfg.Version), Uptime: time.Duration(s.uptime.ticks) * tick}
	var err error
	if l.Name, err = s.name(ctx); err != nil {
		return nil, err
	}
	if err := s.list(ctx, q); err != nil {
		return nil, fmt.Errorf("list the interfaces (%d so far): %w", len(q.names.rows), err)
	}
	rows := q.names.rows
	if len(rows) > maxScanned {
		l.Notes = append(l.Notes, fmt.Sprintf("it lists %d interfaces: these are the first %d", len(rows), maxScanned))
		rows = rows[:maxScanned]
	}
	s.ports = make([]port, len(rows))
	for i, r := range rows {
		s.ports[i] = port{name: r.name, index: r.index, missing: errUnlisted}
		q.read = append(q.read, int32(i))
	}
	err = s.columnsOf(ctx, q)
	for i := range s.ports {
		l.Interfaces = append(l.Interfaces, s.listed(&s.ports[i]))
	}
	if err != nil {
		return l, fmt.Errorf("read the columns of %d more interfaces: %w", len(q.read), err)
	}
	if err := s.aliases(ctx, l.Interfaces); err != nil {
		return l, fmt.Errorf("read ifAlias: %w", err)
	}
	switch l.Neighbors, err = s.neighbors(ctx, q.names.rows); {
	case err == nil:
	case ctx.Err() != nil:
		return l, fmt.Errorf("read LLDP-MIB: %w", err)
	default:
		l.Notes = append(l.Notes, "neighbours: "+untrusted.Text(s.portError(err).Error(), maxText))
	}
	return l, nil
}

// name is the device's own, "" for none.
func (s *Source) name(ctx context.Context) (string, error) {
	p := &pdu{kind: gosnmp.GetRequest}
	p.ask(sysName.at(0), noPort, nColumns)
	if err := s.ask(ctx, p); err != nil {
		return "", err
	}
	if b := s.answer.bind(0, p); b != nil && b.kind == gosnmp.OctetString {
		return nameOf(b.text), nil
	}
	return "", nil
}

// listed is a port in words, after its columns have been looked at.
func (s *Source) listed(p *port) counters.Interface {
	row := counters.Interface{Index: p.index, Name: p.name, Speed: p.speed()}
	if status := p.val[ifOperStatus]; p.has.has(ifOperStatus) && status > 0 && status < uint64(len(operStatuses)) {
		row.OperStatus = operStatuses[status]
	}
	for _, c := range []column{ifHCOutOctets, ifHCOutUcastPkts, ifHCOutMulticastPkts, ifHCOutBroadcastPkts} {
		if p.has.has(c) {
			row.Wide = append(row.Wide, columns[c].name)
		}
	}
	if p.missing != nil {
		row.Note = untrusted.Text(p.missing.Error(), maxText)
		return row
	}
	octets := ifOutOctets
	if p.wide() {
		octets = ifHCOutOctets
	}
	row.Uses = append(row.Uses, columns[octets].name)
	for _, c := range p.parts {
		row.Uses = append(row.Uses, columns[c].name)
	}
	switch {
	case !p.wide() && row.Speed > 0:
		wraps := time.Duration((8 << 32) * 1e9 / float64(row.Speed))
		row.Note = fmt.Sprintf("32-bit octets wrap every %v at full load: read it more than twice as often", wraps.Round(100*time.Millisecond))
	case !p.wide():
		row.Note = "32-bit octets"
	case p.partial:
		row.Note = "multicast and broadcast packets are not counted"
	case row.Speed == 0:
		row.Note = "the device does not know its speed: give it in the fleet file"
	}
	return row
}

// aliases fills in ifAlias; an agent may not have it.
func (s *Source) aliases(ctx context.Context, list []counters.Interface) error {
	return s.walk(ctx, ifAlias, &walked{}, func(index uint32, b *binding) error {
		i, ok := slices.BinarySearchFunc(list, index, func(row counters.Interface, index uint32) int { return cmp.Compare(row.Index, index) })
		if ok && b.kind == gosnmp.OctetString {
			list[i].Alias = nameOf(b.text)
		}
		return nil
	})
}

// Neighbors implements counters.Neighbored with LLDP-MIB (IEEE 802.1AB).
func (s *Source) Neighbors(ctx context.Context) (self string, list []counters.Neighbor, err error) {
	if s.closed {
		return "", nil, s.deviceError(errors.New("read LLDP-MIB after Close"))
	}
	done, err := s.arm(ctx)
	if err != nil {
		return "", nil, s.deviceError(s.ended(ctx, err))
	}
	defer done()
	q := &inquiry{}
	if self, err = s.name(ctx); err == nil {
		err = s.list(ctx, q)
	}
	if err != nil {
		return "", nil, s.deviceError(fmt.Errorf("list the interfaces: %w", s.ended(ctx, err)))
	}
	if list, err = s.neighbors(ctx, q.names.rows); err != nil {
		return "", nil, s.deviceError(fmt.Errorf("read LLDP-MIB: %w", s.ended(ctx, err)))
	}
	return self, list, nil
}
