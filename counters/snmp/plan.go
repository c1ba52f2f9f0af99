package snmp

import (
	"fmt"
	"time"
)

// shape is a way to read: by Get or GetBulk, with at most so many bindings a PDU.
type shape struct {
	bulk bool
	oids int
}

func (s shape) String() string {
	if s.bulk {
		return fmt.Sprintf("GetBulk, up to %d bindings a PDU", s.oids)
	}
	return fmt.Sprintf("Get, up to %d bindings a PDU", s.oids)
}

const (
	firstOIDs   = 128 // what most agents take; the fastest for net-snmp
	fewestOIDs  = 8
	trialRounds = 3 // readings that each shape gets before the fastest is kept

	// Readings without trouble before larger PDUs are tried again: at first, and
	// at most, for on a path that drops fragments every attempt costs a
	// timeout.
	growAtFirst = 256
	growAtMost  = 1 << 20
)

// trial is what is known of one shape.
type trial struct {
	shape  shape
	rounds int
	best   time.Duration // a binding
	failed bool
}

// plan is the set of requests that reads all ports.
type plan struct {
	full, lean []*pdu
	shape      shape
	bindings   int // of full
}

// shapes lists what to try, given the limits known so far.
func (s *Source) shapes() []trial {
	first := min(firstOIDs, s.limit)
	list := []trial{{shape: shape{oids: first}}}
	if s.limit > first {
		list = append(list, trial{shape: shape{oids: s.limit}})
	}
	if first > firstOIDs/2 {
		list = append(list, trial{shape: shape{oids: firstOIDs / 2}})
	}
	return append(list, trial{shape: shape{bulk: true, oids: first}})
}

// build builds the plan again where it is out of date.
func (s *Source) build() error {
	if s.retrial {
		s.trials, s.trying, s.settled = s.shapes(), 0, false
		s.retrial, s.stalePlan = false, true
	}
	for s.stalePlan {
		t := &s.trials[s.trying]
		pl := plan{shape: t.shape}
		var err error
		if pl.full, err = s.requests(t.shape, (*port).fullColumns); err != nil {
			return err
		}
		if pl.full == nil { // GetBulk does not suit these ports
			t.failed = true
			s.nextTrial()
			continue
		}
		if s.lean() {
			if pl.lean, err = s.requests(t.shape, (*port).leanColumns); err != nil {
				return err
			}
		}
		for _, p := range pl.full {
			pl.bindings += len(p.wants)
		}
		s.plan, s.stalePlan = pl, false
	}
	return nil
}

// lean says whether some readings may leave out what only changes rarely.
func (s *Source) lean() bool { return s.cfg.Recheck > 0 && s.hasLastChange }

// requests divides the ports into requests, or returns nil where GetBulk does not fit.
func (s *Source) requests(sh shape, cols func(*port) mask) ([]*pdu, error) {
	var list []*pdu
	if sh.bulk {
		list = s.bulkRequests(sh.oids, cols)
	} else {
		list = s.getRequests(sh.oids, cols)
	}
	for _, p := range list {
		if err := s.sess.prepare(p); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *Source) getRequests(oids int, cols func(*port) mask) []*pdu {
	list := []*pdu{}
	var group []int32
	space := 0
	flush := func() {
		if len(group) > 0 {
			list = append(list, s.getPDU(group, cols))
			group = nil
		}
		space = oids - 2 // sysUpTime and ifTableLastChange
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
	return list
}

// bulkRequests reads runs of rows. That is worth it only where most rows of the
// table are wanted, and possible only where all have the same columns.
func (s *Source) bulkRequests(oids int, cols func(*port) mask) []*pdu {
	var same mask
	at := make(map[uint32]int32, len(s.ports))
	for i := range s.ports {
		p := &s.ports[i]
		if p.need == 0 {
			continue
		}
		if p.alone || same != 0 && cols(p) != same || p.index == 0 {
			return nil
		}
		same = cols(p)
		at[p.index] = int32(i)
	}
	if len(at) < 2 {
		return nil
	}
	most := max(1, (oids-2)/same.size())
	var list []*pdu
	asked := 0
	for from := 0; from < len(s.rows); {
		if _, wanted := at[s.rows[from].index]; !wanted {
			from++
			continue
		}
		var rows []uint32
		var ports []int32
		end := 0 // after the last wanted row
		for ; len(rows) < most && from < len(s.rows); from++ {
			index := s.rows[from].index
			i, wanted := at[index]
			if !wanted {
				i = another
			}
			rows, ports = append(rows, index), append(ports, i)
			if wanted {
				end = len(rows)
			}
		}
		asked += end
		list = append(list, s.bulkPDU(rows[:end], ports[:end], same))
	}
	if asked > 2*len(at) {
		return nil
	}
	return list
}

func (m mask) size() int {
	n := 0
	for ; m != 0; m &= m - 1 {
		n++
	}
	return n
}

// judge takes the time that a full reading took and moves on to the next shape.
func (s *Source) judge(took time.Duration, clean bool) {
	t := &s.trials[s.trying]
	if s.settled {
		if s.plan.shape.bulk && !clean {
			// The rows are no longer those that the plan was made for.
			t.failed = true
			s.nextTrial()
		}
		return
	}
	if s.plan.bindings == 0 {
		return
	}
	if per := took / time.Duration(s.plan.bindings); t.rounds == 0 || per < t.best {
		t.best = per
	}
	t.rounds++
	t.failed = t.failed || !clean
	if t.rounds >= trialRounds || t.failed {
		s.nextTrial()
	}
}

// nextTrial turns to the next shape; after the last one, and whenever the one
// that was kept fails, to the fastest. The first one is a Get, which
// always applies.
func (s *Source) nextTrial() {
	s.stalePlan = true
	if !s.settled && s.trying+1 < len(s.trials) {
		s.trying++
		return
	}
	s.settled, s.trying = true, 0
	for i := range s.trials {
		t, best := &s.trials[i], &s.trials[s.trying]
		if !t.failed && t.rounds > 0 && (best.failed || t.best < best.best) {
			s.trying = i
		}
	}
}

// shrink makes PDUs smaller than n bindings; tooBig is the agent's own word for
// it, after which larger ones are not tried again.
func (s *Source) shrink(n int, tooBig bool) {
	limit := max(min(n/2, s.limit), fewestOIDs)
	if tooBig {
		s.ceiling = limit
	} else {
		s.growAfter = min(4*s.growAfter, growAtMost)
	}
	if limit < s.limit {
		s.limit = limit
		s.retrial = true
	}
	s.clean = 0
}

// grow tries larger PDUs again, after enough readings without trouble.
func (s *Source) grow() {
	if s.clean++; s.clean >= s.growAfter && s.limit < s.ceiling {
		s.limit = min(2*s.limit, s.ceiling)
		s.retrial = true
		s.clean = 0
	}
}
