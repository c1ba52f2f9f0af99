package snmp

import "math/bits"

const (
	// firstOIDs is how many bindings a PDU carries at first: what most agents take. The
	// answer stays well below the 64 KiB of a datagram.
	firstOIDs = 128
	// rowOIDs is how many a PDU has to carry for all columns of any port. Of an agent that
	// takes fewer a port is read in several PDUs.
	rowOIDs = 14
	// halfRow is how many at a time the columns of a port that are looked up are asked for.
	halfRow = 8
	// enoughFailures is how many PDUs in a row have to fail until a port is read in smaller
	// parts.
	enoughFailures = 3

	// Readings without trouble before larger PDUs are tried again: at first, and
	// at most, for on a path that drops fragments every attempt costs a
	// timeout.
	growAtFirst = 256
	growAtMost  = 1 << 20
)

// plan is the set of requests that reads all ports.
type plan struct {
	full, lean []*pdu
}

// build builds the plan again where it is out of date.
func (s *Source) build() (err error) {
	if !s.stalePlan {
		return nil
	}
	s.plan = plan{}
	if s.plan.full, err = s.requests((*port).fullColumns); err != nil {
		return err
	}
	if s.lean() {
		if s.plan.lean, err = s.requests((*port).leanColumns); err != nil {
			return err
		}
	}
	s.stalePlan = false
	return nil
}

// lean reports whether some readings may leave out what only changes rarely.
func (s *Source) lean() bool { return s.cfg.Recheck > 0 && s.hasLastChange }

// requests divides the ports into requests.
func (s *Source) requests(cols func(*port) mask) ([]*pdu, error) {
	var list []*pdu
	var group []int32
	space := 0
	flush := func() {
		if len(group) > 0 {
			list = append(list, s.getPDU(group, cols))
			group = nil
		}
		space = s.limit - 2 // sysUpTime and ifTableLastChange
	}
	flush()
	for i := range s.ports {
		p := &s.ports[i]
		if p.need == 0 {
			continue
		}
		n := cols(p).size()
		if p.alone {
			list = append(list, s.getPDU([]int32{int32(i)}, cols))
			continue
		}
		if n > space {
			flush()
		}
		group = append(group, int32(i))
		space -= n
	}
	flush()
	for _, p := range list {
		if err := s.sess.prepare(p); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// smaller is the size of PDUs to try after one of n bindings: at last those of whole ports,
// then 8, 4, 2 and 1.
func smaller(n int) int {
	if n > rowOIDs {
		return max(n/2, rowOIDs)
	}
	return max(1<<bits.Len(uint(n-1))/2, 1)
}

// shrink makes PDUs smaller than n bindings; tooBig is the agent's own word for
// it, after which larger ones are not tried again.
func (s *Source) shrink(n int, tooBig bool) {
	limit := min(smaller(n), s.limit)
	if tooBig {
		s.ceiling = limit
	} else {
		s.growAfter = min(4*s.growAfter, growAtMost)
	}
	if limit < s.limit {
		s.noSpace = s.noSpace && limit >= rowOIDs
		s.limit = limit
		s.stalePlan = true
	}
	s.clean = 0
}

// shrinkIfRepeated is shrink after a PDU of n bindings failed and the agent answered smaller
// ones. As each part of a port costs a request, that has to come often in a row, which loss
// and a busy agent do not.
func (s *Source) shrinkIfRepeated(n int) {
	s.failedSize = n
	if s.failedInRow++; n > rowOIDs || s.failedInRow >= enoughFailures {
		s.shrink(n, false)
		s.failedInRow = 0
	}
}

// grow tries larger PDUs again, after enough readings without trouble.
func (s *Source) grow() {
	if s.clean++; s.clean >= s.growAfter && s.limit < s.ceiling {
		s.limit = min(2*s.limit, s.ceiling)
		s.stalePlan = true
		s.clean = 0
	}
}
