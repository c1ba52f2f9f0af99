package sonictest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/csig-agent/csig/quantize"
)

// entry is an ACL entry of the fake's ASIC.
type entry struct {
	port         string
	vid, vidMask uint16
	pcp, pcpMask uint16
	priority     uint32
	set          uint16
	oid          string // in ASIC_DB
}

func (e entry) matches(tci quantize.TCI) bool {
	return uint16(tci)&e.vidMask&0xfff == e.vid && uint16(tci>>13)&e.pcpMask == e.pcp
}

// same reports whether two entries match the same frames by the same words.
func (e *entry) same(o *entry) bool {
	return e.port == o.port && e.vid == o.vid && e.vidMask == o.vidMask && e.pcp == o.pcp && e.pcpMask == o.pcpMask
}

// overlaps reports whether some frame matches both.
func (e *entry) overlaps(o *entry) bool {
	return e.port == o.port && (e.vid^o.vid)&e.vidMask&o.vidMask == 0 && (e.pcp^o.pcp)&e.pcpMask&o.pcpMask == 0
}

// asic is the egress pipeline: the entries that SAI was given.
type asic struct {
	mu      sync.Mutex
	tables  map[string]*table
	full    int // entries it has room for, over all tables
	entries int
	changes int // operations that did something
	db      *asicDB
}

type table struct {
	size    int
	action  string            // P4's name of it
	entries map[string]*entry // by canonical key
	oid     string            // in ASIC_DB
}

// EgressAll is the TCIs that frames with these tags leave port with.
func (s *Switch) EgressAll(port string, tags []quantize.TCI) []quantize.TCI {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	out := slices.Clone(tags)
	for _, e := range slices.Backward(s.asic.of(port)) { // the first that matches counts
		e := *e
		for i, tci := range tags {
			if e.matches(tci) {
				out[i] = tci&0xf000 | quantize.TCI(e.set)
			}
		}
	}
	return out
}

// EveryTag is EgressAll for each of the 65,536 tags.
func (s *Switch) EveryTag(port string) []quantize.TCI {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	out := make([]quantize.TCI, 1<<16)
	for i := range out {
		out[i] = quantize.TCI(i)
	}
	for _, e := range slices.Backward(s.asic.of(port)) { // the first that matches counts
		for front := range uint16(1 << 4) { // PCP and R
			if front>>1&e.pcpMask != e.pcp {
				continue
			}
			for vid, open := ^e.vidMask&0xfff, ^e.vidMask&0xfff; ; vid = (vid - 1) & open {
				out[front<<12|vid|e.vid] = quantize.TCI(front<<12 | e.set)
				if vid == 0 {
					break
				}
			}
		}
	}
	return out
}

// of are the entries of a port, the first ones first.
func (a *asic) of(port string) (entries []*entry) {
	for _, t := range a.tables {
		for _, e := range t.entries {
			if e.port == port {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int { return int(b.priority) - int(a.priority) })
	return entries
}

// add takes an entry, or says with a status why not.
func (a *asic) add(t *table, key string, e *entry) (status, why string) {
	if old := t.entries[key]; old != nil {
		if e.oid = old.oid; *old != *e {
			*old = *e
			a.changes++
		}
		return success, ""
	}
	for _, o := range t.entries {
		switch {
		case o.same(e):
			return invalid, "another entry has the same match"
		case o.priority == e.priority && o.overlaps(e):
			return invalid, fmt.Sprintf("an entry of the same priority %d overlaps", e.priority)
		}
	}
	if len(t.entries) >= t.size || a.entries >= a.full {
		return full, sai + "Failed to create ACL rule"
	}
	a.db.entry(t, e)
	t.entries[key] = e
	a.entries++
	a.changes++
	return success, ""
}

// Entries is how many entries the ASIC has, and how many of one port.
func (s *Switch) Entries(port string) (all, ofPort int) {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	for _, t := range s.asic.tables {
		for _, e := range t.entries {
			all++
			if e.port == port {
				ofPort++
			}
		}
	}
	return all, ofPort
}

// Tables is how many ACL tables the ASIC has.
func (s *Switch) Tables() int {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	return len(s.asic.tables)
}

// SetRoom says how many entries the ASIC has room for.
func (s *Switch) SetRoom(entries int) {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	s.asic.full = entries
}
