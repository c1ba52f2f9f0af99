package snmp

import (
	"context"
	"fmt"
	"time"

	"github.com/gosnmp/gosnmp"
)

// Info is what is known of the agent and of how it is read. It is valid after
// a Read.
type Info struct {
	Description string   // sysDescr
	Overhead    uint8    // bytes that a packet costs beyond the agent's octets
	Discards    Discards // what is known about discarded packets; DiscardsLearn is nothing yet
	Method      string   // how the counters are read
	Interfaces  int      // rows of the interface table
	LastChange  bool     // the agent has ifTableLastChange
	Restarts    uint64   // of the agent, noticed since New
}

// Info describes the agent.
func (s *Source) Info() Info {
	return Info{
		Description: s.system.descr,
		Overhead:    s.overhead(),
		Discards:    s.discards(),
		Method:      fmt.Sprintf("Get, up to %d bindings a PDU", s.limit),
		Interfaces:  len(s.rows),
		LastChange:  s.hasLastChange,
		Restarts:    s.boot,
	}
}

// overheads of a packet in bytes: preamble, start delimiter and gap; and the FCS.
const (
	preambleAndGap = 20
	fcs            = 4
)

func (s *Source) overhead() uint8 {
	switch {
	case s.cfg.Overhead != 0:
		return s.cfg.Overhead
	case s.system.kernel:
		return preambleAndGap + fcs
	}
	return preambleAndGap
}

// Reading is what the last Read knows of a port beyond its Sample.
type Reading struct {
	Port    string
	IfIndex uint32 // 0 where the port was not found

	// The exchange that carried the port's octets. Sample.At is its midpoint.
	Sent, Received time.Time
	// Uptime is sysUpTime in the same PDU: when the agent answered, by its own
	// clock, in steps of 10 ms. HasUptime is false where it was not in the answer.
	Uptime    time.Duration
	HasUptime bool

	// Discards and Errors are ifOutDiscards and ifOutErrors, where HasDiscards
	// and HasErrors. They are not read where packets are known to exclude them.
	Discards, Errors       uint32
	HasDiscards, HasErrors bool
}

// Readings appends one Reading for each port of the last Read to dst[:0], in the
// order of the samples. Those of ports with Sample.Err mean nothing.
func (s *Source) Readings(dst []Reading) []Reading {
	dst = dst[:0]
	for i := range s.ports {
		p := &s.ports[i]
		dst = append(dst, Reading{
			Port: p.name, IfIndex: p.index,
			Sent: p.sent, Received: p.received,
			Uptime: time.Duration(p.ticks) * tick, HasUptime: p.hasTicks,
			Discards: uint32(p.val[ifOutDiscards]), HasDiscards: p.need.has(ifOutDiscards),
			Errors: uint32(p.val[ifOutErrors]), HasErrors: p.need.has(ifOutErrors),
		})
	}
	return dst
}

// Members returns the members of each link aggregation group of the device, by
// name, in the order of their ifIndex (dot3adAggPortAttachedAggID of IEEE 802.3 clause
// 30). Only ports that are attached are listed: one whose LACP fails is none. The
// map is empty where the agent has no such table.
//
// It reads the device, and is not safe for use concurrent with Read.
func (s *Source) Members(ctx context.Context) (map[string][]string, error) {
	if s.closed {
		return nil, s.deviceError(fmt.Errorf("read LAG members after Close"))
	}
	done, err := s.arm(ctx)
	if err != nil {
		return nil, s.deviceError(err)
	}
	defer done()
	var list table
	err = s.walkNames(ctx, ifName, &list)
	if err == nil && len(list.rows) == 0 {
		list = table{}
		err = s.walkNames(ctx, ifDescr, &list)
	}
	if err != nil {
		return nil, s.deviceError(fmt.Errorf("list the interfaces: %w", err))
	}
	name := make(map[uint32]string, len(list.rows))
	for _, r := range list.rows {
		name[r.index] = r.name
	}
	members := make(map[string][]string)
	err = s.walk(ctx, dot3adAggPortAttachedAggID, &walked{}, func(index uint32, b *binding) error {
		if b.kind != gosnmp.Integer {
			return fmt.Errorf("dot3adAggPortAttachedAggID.%d: %w: %v", index, ErrType, b.kind)
		}
		// 0 is a port that is in no group; a port in its own group is how an
		// individual link is written.
		group := uint32(b.n)
		if group == 0 || group == index {
			return nil
		}
		lag, port := name[group], name[index]
		if lag == "" || port == "" {
			return fmt.Errorf("dot3adAggPortAttachedAggID.%d is %d: %w: one of them is not in the interface table", index, group, ErrMissing)
		}
		members[lag] = append(members[lag], port)
		return nil
	})
	if err != nil {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w", err))
	}
	return members, nil
}
