package snmp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// system is what the agent says about its device.
type system struct {
	descr  string
	object []byte        // sysObjectID, encoded
	kernel bool          // net-snmp that reports a Linux kernel's own counters
	cache  time.Duration // how long this software is documented to keep its counters
	lag    time.Duration // how old the numbers are that it takes then
}

// row is a row of the interface table.
type row struct {
	index uint32
	name  string
}

// walkRepetitions is how many rows a walk asks for at once, at first.
const walkRepetitions = 64

// inquiry is a survey. It may take longer than a reading: then the next one continues
// it.
type inquiry struct {
	all     bool
	singly  bool // the agent did not answer when it was asked who it is
	began   time.Time
	boot    uint64
	asked   bool // who the agent is
	moved   bool // in this reading
	names   table
	column  column // ifName, or ifDescr
	listed  bool
	located int     // so many of the ports
	read    []int32 // the ports whose columns are to be found out
}

// longestInquiry is how old an unfinished survey may be to be continued.
const longestInquiry = 5 * time.Minute

var errUnlisted = fmt.Errorf("%w yet: it is still being looked up", ErrNoPort)

// survey finds out where the ports are and what the agent has of them. Ports
// whose row did not change keep what is known of them unless all is set.
func (s *Source) survey(ctx context.Context, all bool) error {
	now := time.Now()
	q := s.inquiry
	if q == nil || all && !q.all || q.asked && q.boot != s.boot || now.Sub(q.began) > longestInquiry || now.Before(q.began) {
		q = &inquiry{all: all, began: now}
	}
	s.inquiry = nil
	answers := s.answers
	err := s.inquire(ctx, q)
	q.moved = s.answers > answers
	if err != nil && (ctx.Err() != nil || q.all && errors.Is(err, ErrNoAnswer)) {
		s.inquiry = q
	}
	return err
}

func (s *Source) inquire(ctx context.Context, q *inquiry) error {
	if q.all && !q.asked {
		if err := s.identify(ctx, q); err != nil {
			return err
		}
	}
	if !q.asked {
		s.surveyed, s.lastChangeSurveyed = q.began, s.lastChange
		q.asked, q.boot = true, s.boot
	}
	if err := s.list(ctx, q); err != nil {
		return fmt.Errorf("list the interfaces (%d so far): %w", len(q.names.rows), err)
	}
	if err := s.locate(ctx, q); err != nil {
		return fmt.Errorf("look up the interfaces: %w", err)
	}
	if err := s.columnsOf(ctx, q); err != nil {
		return fmt.Errorf("read the columns of %d more interfaces: %w", len(q.read), err)
	}
	s.stalePlan = true
	return nil
}

// list finds out which rows there are.
func (s *Source) list(ctx context.Context, q *inquiry) error {
	for !q.listed {
		if err := s.walkNames(ctx, q.column, &q.names); err != nil {
			return err
		}
		switch {
		case len(q.names.rows) > 0:
			q.listed = true
		case q.column == ifName:
			// An agent from before ifXTable.
			q.column, q.names = ifDescr, table{}
		default:
			return fmt.Errorf("the interface table (1.3.6.1.2.1.2.2) is %w", ErrMissing)
		}
	}
	return nil
}

// identity asks for the system group's scalars that matter.
func identity() *pdu {
	p := &pdu{kind: gosnmp.GetRequest}
	for _, o := range []oid{sysDescr, sysObjectID, sysUpTime, ifTableLastChange} {
		p.ask(o.at(0), noPort, nColumns)
	}
	return p
}

// identify finds out who the agent is, in single bindings where it does not answer more. Of
// short readings the next one tries that.
func (s *Source) identify(ctx context.Context, q *inquiry) error {
	p := identity()
	if q.singly {
		p.divide(1)
	}
	err := s.ask(ctx, p)
	silent := errors.Is(err, ErrNoAnswer)
	if err != nil && !q.singly && ctx.Err() == nil && aboutSize(err) && (!silent || s.alive(ctx, 0)) {
		p = identity()
		p.divide(1)
		if s.ask(ctx, p) == nil {
			err = nil
		}
	}
	if err != nil {
		q.singly = silent && !q.singly
		return err
	}
	s.identified(p)
	return nil
}

// aboutSize reports whether fewer bindings might not have met err.
func aboutSize(err error) bool {
	var status *StatusError
	return errors.As(err, &status) || errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrMissing)
}

// identified takes the answer to identify. Any of the scalars may be missing.
func (s *Source) identified(p *pdu) {
	s.system, s.repetitions = system{}, walkRepetitions
	s.hasLastChange = false
	for i := range p.wants {
		b := s.answer.bind(i, p)
		switch {
		case b == nil:
		case i == 0 && b.kind == gosnmp.OctetString:
			s.system.descr = untrusted.Text(string(b.text), maxText)
		case i == 1 && b.kind == gosnmp.ObjectIdentifier:
			s.system.object = bytes.Clone(b.text[:min(len(b.text), maxText)])
		case i == 2 && b.kind == gosnmp.TimeTicks:
			s.noteUptime(uint32(b.n))
		case i == 3 && b.kind == gosnmp.TimeTicks:
			s.hasLastChange, s.lastChange = true, uint32(b.n)
		}
	}
	s.system.cache, s.system.lag = documentedCache(s.system.object, s.system.descr)
	s.system.kernel = bytes.Equal(s.system.object, netSNMPOnLinux.encode(nil)) && strings.HasPrefix(s.system.descr, "Linux ")
}

// documentedCache is how often the software of an agent is documented to refresh
// the interface table, and how old the numbers are from which it does; 0 for software
// that csig does not know.
func documentedCache(object []byte, descr string) (cache, lag time.Duration) {
	switch {
	case strings.HasPrefix(descr, "SONiC "):
		// Its agent polls COUNTERS_DB each 5 s, which the switch fills each second.
		return 5 * time.Second, time.Second
	case strings.Contains(descr, "Cisco NX-OS"):
		return 10 * time.Second, 0
	case bytes.HasPrefix(object, netSNMPAgents.encode(nil)):
		return 3 * time.Second, 0 // the interface table's cache
	}
	return 0, 0
}

// locate finds the row of each port.
func (s *Source) locate(ctx context.Context, q *inquiry) error {
	if q.located == len(s.ports) {
		return nil
	}
	byName := make(map[string]uint32, len(q.names.rows))
	twice := make(map[string][]uint32)
	for _, r := range q.names.rows {
		if first, dup := byName[r.name]; dup {
			if len(twice[r.name]) == 0 {
				twice[r.name] = []uint32{first}
			}
			twice[r.name] = append(twice[r.name], r.index)
			continue
		}
		byName[r.name] = r.index
	}
	for ; q.located < len(s.ports); q.located++ {
		p := &s.ports[q.located]
		index, ok := byName[p.name]
		var missing error
		switch rows := twice[p.name]; {
		case !ok:
			missing = fmt.Errorf("%w: none of its %d interfaces has this name", ErrNoPort, len(q.names.rows))
		case len(rows) > maxSameName:
			missing = fmt.Errorf("%d interfaces have this name: rename all but one on the device", len(rows))
		case len(rows) > 0:
			var err error
			if index, missing, err = s.oneOf(ctx, p, rows); err != nil {
				return err
			}
		}
		moved := p.index != index
		p.index, p.missing = index, missing
		switch {
		case missing != nil:
			p.need = 0
		case moved || q.all || p.need == 0 || p.problem == lookUp:
			p.need, p.missing = 0, errUnlisted
			q.read = append(q.read, int32(q.located))
		}
	}
	return nil
}

// oneOf chooses between rows of the same name: the one that is up. Agents keep
// listing interfaces that were removed, and those are not up.
func (s *Source) oneOf(ctx context.Context, p *port, rows []uint32) (index uint32, missing, err error) {
	var up []uint32
	for _, r := range rows {
		req := &pdu{kind: gosnmp.GetRequest}
		req.ask(ifOperStatus.oid().at(r), noPort, ifOperStatus)
		if err := s.ask(ctx, req); err != nil {
			return 0, nil, err
		}
		if b := s.answer.bind(0, req); b != nil && b.kind == gosnmp.Integer && b.n == operUp {
			up = append(up, r)
		}
	}
	switch len(up) {
	case 1:
		return up[0], nil, nil
	case 0:
		// None carries frames: it only matters not to change one's mind.
		for _, r := range rows {
			if r == p.index {
				return r, nil, nil
			}
		}
		return rows[len(rows)-1], nil, nil
	}
	return 0, fmt.Errorf("ifIndex %d and %d are both up and both have this name: rename one on the device", up[0], up[1]), nil
}

// columnsOf finds out which columns the rows of the given ports have.
func (s *Source) columnsOf(ctx context.Context, q *inquiry) error {
	perPort := len(columns) - 2
	for len(q.read) > 0 {
		n := min(len(q.read), max(1, (s.limit-2)/perPort))
		group := q.read[:n]
		for _, i := range group {
			p := &s.ports[i]
			p.narrow, p.stood = false, 0
			p.begin(1<<nColumns - 1)
		}
		req := s.getPDU(group, func(*port) mask { return surveyColumns })
		if n == 1 && s.limit < 2+perPort {
			// Those of a reading are fewer: whether they fit remains to be seen.
			req = s.inParts(group[0], surveyColumns, min(s.limit, halfRow))
		}
		size := req.size()
		err := s.columnsOfGroup(ctx, req)
		if size > 1 && err != nil {
			if n > 1 || isTooBig(err) || errors.Is(err, ErrNoAnswer) {
				if s.halve(ctx, err, size) {
					continue
				}
			} else if aboutSize(err) {
				if err = s.columnsOfGroup(ctx, s.inParts(group[0], surveyColumns, 1)); err == nil {
					s.shrinkIfRepeated(size)
				}
			}
		}
		var status *StatusError
		switch {
		case err == nil:
		case errors.As(err, &status), errors.Is(err, ErrMalformed), errors.Is(err, ErrMissing):
			s.ports[group[0]].missing = err
			q.read = q.read[1:]
			continue
		default:
			return err
		}
		for _, i := range group {
			p := &s.ports[i]
			p.choose(q.column, p.got, &p.val, s.discards(), s.system.kernel)
			s.setWitness(p)
		}
		q.read = q.read[n:]
	}
	return nil
}

// columnsOfGroup asks for columns of ports. An answer that is cut short is ErrMissing; a
// column without an instance is none.
func (s *Source) columnsOfGroup(ctx context.Context, req *pdu) error {
	if err := s.ask(ctx, req); err != nil {
		return err
	}
	if len(s.answer.binds) < len(req.wants)-1 { // the last one is no column
		return fmt.Errorf("answer ends after %d of %d bindings: %w", len(s.answer.binds), len(req.wants), ErrMissing)
	}
	for k := range req.wants {
		w := &req.wants[k]
		if w.port < 0 {
			continue
		}
		if b := s.answer.bind(k, req); b != nil && b.kind == columns[w.col].kind {
			s.ports[w.port].val[w.col] = b.n
			s.ports[w.port].got |= 1 << w.col
		}
	}
	return nil
}

// halve reports whether err calls for smaller PDUs than one of n bindings, and
// makes them so.
func (s *Source) halve(ctx context.Context, err error, n int) bool {
	var status *StatusError
	switch {
	case errors.Is(err, ErrNoAnswer):
		if !s.alive(ctx, s.cfg.Retries) {
			return false
		}
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrMissing), errors.As(err, &status):
	default:
		return false
	}
	if errors.Is(err, ErrNoAnswer) {
		s.shrinkIfRepeated(n)
	} else {
		s.shrink(n, isTooBig(err))
	}
	return true
}

// table is the rows of a table up to where a walk has come.
type table struct {
	rows []row
	walked
}

// walked is how far a walk has come: n instances, all before next.
type walked struct {
	n    int
	next int64
}

// walkNames adds the rows that have the given column.
func (s *Source) walkNames(ctx context.Context, c column, list *table) error {
	return s.walk(ctx, c.oid(), &list.walked, func(index uint32, b *binding) error {
		if b.kind != gosnmp.OctetString {
			return fmt.Errorf("%s.%d: %w: %v", columns[c].name, index, ErrType, b.kind)
		}
		list.rows = append(list.rows, row{index, nameOf(b.text)})
		return nil
	})
}

// walk calls visit for each instance of a column that is indexed by one
// number. A column that the agent does not have is no error. After an error it can be
// continued.
func (s *Source) walk(ctx context.Context, base oid, w *walked, visit func(index uint32, b *binding) error) error {
	prefix := base.encode(nil)
	for {
		after := base
		if w.next > 0 {
			after = base.at(uint32(w.next - 1))
		}
		if err := s.bulk(ctx, after); err != nil {
			return err
		}
		for i := range s.answer.binds {
			b := &s.answer.binds[i]
			index, ok := suffix(prefix, b.oid)
			if !ok || b.kind == gosnmp.EndOfMibView {
				return nil
			}
			if int64(index) < w.next {
				return fmt.Errorf("%w: instance %d of %s follows %d", ErrMalformed, index, base.dotted()[1:], w.next-1)
			}
			if w.n++; w.n > maxRows {
				return fmt.Errorf("%w: %s has more than %d instances", ErrMalformed, base.dotted()[1:], maxRows)
			}
			w.next = int64(index) + 1
			if err := visit(index, b); err != nil {
				return err
			}
		}
	}
}

// nameOf is an interface's name as it can be shown.
func nameOf(text []byte) string { return untrusted.Text(string(text), maxText) }

// bind returns binding i of the answer if it is what p wants there.
func (a *answer) bind(i int, p *pdu) *binding {
	if i >= len(a.binds) || !bytes.Equal(a.binds[i].oid, p.name(&p.wants[i])) {
		return nil
	}
	return &a.binds[i]
}

// What is looked for again after this long, where nothing else shows that it is
// time.
const (
	lookAgain     = 10 * time.Second // a port that was not found
	lookAgainDown = time.Minute      // a port that is down, without ifTableLastChange
)

// dueSurvey reports whether a survey may find more than the last one.
func (s *Source) dueSurvey() bool {
	if s.inquiry != nil {
		return true
	}
	since := time.Since(s.surveyed)
	due := false
	for i := range s.ports {
		p := &s.ports[i]
		lost := p.need == 0 || p.problem == lookUp
		down := p.problem == fine && !p.up()
		switch {
		case !lost && !down:
		case !p.wasBad, s.lastChange != s.lastChangeSurveyed && since >= time.Second,
			lost && since >= lookAgain, down && !s.hasLastChange && since >= lookAgainDown:
			due = true
		}
	}
	return due
}

// bulk asks for what follows a name, in so many repetitions as the agent answers. Few of
// them do not mean that as few bindings are all that it takes of a Get.
func (s *Source) bulk(ctx context.Context, after oid) error {
	for {
		n := min(s.repetitions, s.limit)
		err := s.ask(ctx, &pdu{kind: gosnmp.GetBulkRequest, repetitions: n, names: []string{after.dotted()}})
		switch {
		case err == nil && len(s.answer.binds) == 0:
			return fmt.Errorf("%w: no bindings", ErrMalformed)
		case err == nil:
			return nil
		case n <= 1 || !s.halve(ctx, err, max(n, 2*rowOIDs)):
			return err
		}
		s.repetitions = max(n/4, 1)
	}
}
