package snmp

import (
	"context"
	"fmt"

	"github.com/gosnmp/gosnmp"
)

// Details returns how the agent is read, and what it does not show, a sentence each. It is
// valid after a Read.
func (s *Source) Details() (details, limitations []string) {
	details = []string{s.system.descr, fmt.Sprintf("Get, up to %d bindings a PDU", s.limit)}
	if s.limit < rowOIDs {
		limitations = append(limitations, fmt.Sprintf("a port at once: the agent takes no more than %d bindings a PDU, and each port is read in several", s.limit))
	}
	if s.discards() == DiscardsLearn {
		limitations = append(limitations, "whether the packet counters include discarded ones (set discards: in the fleet file if you know)")
	}
	if !s.hasLastChange {
		limitations = append(limitations, "when its interfaces change (no ifTableLastChange): names and status are read each time")
	}
	return details, limitations
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
	q := &inquiry{}
	if err := s.list(ctx, q); err != nil {
		return nil, s.deviceError(fmt.Errorf("list the interfaces: %w", err))
	}
	name := make(map[uint32]string, len(q.names.rows))
	for _, r := range q.names.rows {
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
