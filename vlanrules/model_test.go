package vlanrules_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// The tests' own understanding of tables, apart from the package's: sets of
// tags as bits over the whole tag space, and a device that is as strict as
// hardware can be. Each belongs to one goroutine, and most of the tests' time is
// spent here: the race detector watches the compiler, and not these (go:norace).

// thinned is how many times fewer cases the tests look at: all of them are for TestLongEveryCase.
var thinned = 48

// chosen reports whether a test looks at its nth case of a kind: at others for each kind.
func chosen(kind, n int) bool {
	return thinned == 1 || (uint32(n)*2654435769>>16+uint32(kind))%uint32(thinned) == 0
}

// TestLongEveryCase has the tests look at every case.
func TestLongEveryCase(t *testing.T) {
	defer func(n int) { thinned = n }(thinned)
	thinned = 1
	for name, test := range map[string]func(*testing.T){
		"pairs": TestEveryPair, "walks": TestWalks, "exact pairs": TestExactPairs, "interrupted": TestInterrupted, "shared table": TestSharedTable,
		"appended classifier": TestAppendedClassifier, "shared behavior": TestSharedBehavior, "prefixes": TestPrefixes, "random": TestRandom,
		"crowded band": TestCrowdedBand, "reachable tables": TestEveryReachableTable, "costs": TestCosts, "budget": TestBudgetHolds, "choice": TestChoiceIsCheapest, "limits": TestVIDLimits, "signals": TestSignalsComeAndGo,
	} {
		t.Run(name, test)
	}
}

// tags is a set of the 65,536 TCIs. Nothing outside words lo…hi-1 is in it,
// which makes a set of tags of one T cheap.
type tags struct {
	bits   [1024]uint64
	lo, hi int
}

//go:norace
func (s *tags) reach(lo, hi int) {
	if s.lo == s.hi {
		s.lo, s.hi = lo, hi
	} else if lo < hi {
		s.lo, s.hi = min(s.lo, lo), max(s.hi, hi)
	}
}

//go:norace
func (s *tags) union(o *tags) {
	for i := o.lo; i < o.hi; i++ {
		s.bits[i] |= o.bits[i]
	}
	s.reach(o.lo, o.hi)
}

// firstOutside is a member of s that is in none of the others, or -1.
func (s *tags) firstOutside(others ...*tags) int { return s.outsideIn(s.lo, s.hi, others...) }

// outsideIn is firstOutside, looking at words lo…hi-1.
//
//go:norace
func (s *tags) outsideIn(lo, hi int, others ...*tags) int {
	for i := lo; i < hi; i++ {
		x := s.bits[i]
		for _, o := range others {
			if o != nil {
				x &^= o.bits[i]
			}
		}
		if x != 0 {
			return i<<6 | bits.TrailingZeros64(x)
		}
	}
	return -1
}

// holds is the test's own reading of a condition.
//
//go:norace
func holds(f vlanrules.Field, v int) bool {
	switch f.Kind {
	case vlanrules.Ternary:
		return v&int(f.Mask) == int(f.Value)
	case vlanrules.Range:
		return v >= int(f.First) && v <= int(f.Last)
	}
	return true
}

// matcher remembers the tags of each match, as tests see the same ones often.
type matcher struct {
	absent *tags // that no frame of the domain has, so that their result is free; nil: none
	seen   map[vlanrules.Match]*tags
	ideals map[idealKey]*outcome
	sets   []*tags    // empty ones, to be used again
	states []*outcome // of an empty table
}

// empty is a set without a member.
func (m *matcher) empty() *tags {
	if n := len(m.sets); n > 0 {
		s := m.sets[n-1]
		m.sets = m.sets[:n-1]
		return s
	}
	return new(tags)
}

// release takes back sets that nobody looks at any more.
//
//go:norace
func (m *matcher) release(sets ...*tags) {
	for _, s := range sets {
		for w := s.lo; w < s.hi; w++ {
			s.bits[w] = 0
		}
		s.lo, s.hi = 0, 0
		m.sets = append(m.sets, s)
	}
}

// forget takes back an outcome that nobody looks at any more.
//
//go:norace
func (m *matcher) forget(o *outcome) {
	for _, s := range o.vid {
		m.release(s)
	}
	clear(o.vid)
	for w := o.alone.lo; w < o.alone.hi; w++ {
		o.alone.bits[w] = ^uint64(0)
	}
	o.alone.lo, o.alone.hi, o.sorted = 0, 0, o.sorted[:0]
	m.states = append(m.states, o)
}

//go:norace
func (m *matcher) tagsOf(match vlanrules.Match) *tags {
	if m.seen == nil {
		m.seen = map[vlanrules.Match]*tags{}
	}
	if s := m.seen[match]; s != nil {
		return s
	}
	s := new(tags)
	var vids [64]uint64
	for vid := range 4096 {
		if holds(match.VID, vid) {
			vids[vid>>6] |= 1 << (vid & 63)
		}
	}
	for top := range 16 {
		if holds(match.PCP, top>>1) && holds(match.DEI, top&1) {
			copy(s.bits[top*64:], vids[:])
			s.reach(top*64, top*64+64)
		}
	}
	m.seen[match] = s
	return s
}

// outcome is which tags leave a table with which VID; alone are those that no
// rewrite takes. A tag that several entries of equal priority take is in
// several sets: any of them may win. Outside words lo…hi-1 all tags are alone.
type outcome struct {
	alone  tags
	vid    map[uint16]*tags
	sorted vlanrules.Table
}

// everything is all tags, none taken yet.
var everything = func() (s tags) {
	for w := range s.bits {
		s.bits[w] = ^uint64(0)
	}
	return s
}()

func (o *outcome) at(m *matcher, vid uint16) *tags {
	if o.vid == nil {
		o.vid = map[uint16]*tags{}
	}
	if o.vid[vid] == nil {
		o.vid[vid] = m.empty()
	}
	return o.vid[vid]
}

// read finds the outcome of a table: priorities decide where the device has
// them, else any entry that matches may win.
//
//go:norace
func (m *matcher) read(caps vlanrules.Caps, t vlanrules.Table) *outcome {
	var o *outcome
	if n := len(m.states); n > 0 {
		o, m.states = m.states[n-1], m.states[:n-1]
	} else {
		o = &outcome{alone: everything}
	}
	var values map[uint32]uint16
	for _, e := range t {
		if e.Type != vlanrules.Value {
			o.sorted = append(o.sorted, e)
			continue
		}
		if values == nil {
			values = map[uint32]uint16{}
		}
		values[e.ID] = e.VID
	}
	prioritised := caps.Match == vlanrules.MatchTernary || caps.Match == vlanrules.MatchRange
	if prioritised {
		slices.SortStableFunc(o.sorted, func(a, b vlanrules.Entry) int { return cmp.Compare(b.Priority, a.Priority) })
	}
	decided, level, left := m.empty(), m.empty(), m.empty() // left: by entries that change nothing
	for i := range o.sorted {
		e := &o.sorted[i]
		if i > 0 && prioritised && o.sorted[i-1].Priority != e.Priority {
			decided.union(level)
		}
		into := left
		switch e.Type {
		case vlanrules.RewriteVID:
			into = o.at(m, e.VID)
		case vlanrules.UseValue:
			into = o.at(m, values[e.Ref])
		}
		takes := m.tagsOf(e.Match)
		for w := takes.lo; w < takes.hi; w++ {
			into.bits[w] |= takes.bits[w] &^ decided.bits[w]
		}
		into.reach(takes.lo, takes.hi)
		level.union(takes)
	}
	decided.union(level)
	o.alone.lo, o.alone.hi = decided.lo, decided.hi
	for w := decided.lo; w < decided.hi; w++ {
		o.alone.bits[w] = left.bits[w] | ^decided.bits[w]
	}
	m.release(decided, level, left)
	return o
}

// within returns which tag has a result that it has in neither a nor b, or "".
// The result of those in absent is free.
//
//go:norace
func (o *outcome) within(a, b *outcome, absent *tags) string {
	lo := min(o.alone.lo, a.alone.lo, b.alone.lo)
	hi := max(o.alone.hi, a.alone.hi, b.alone.hi)
	if tci := o.alone.outsideIn(lo, hi, &a.alone, &b.alone, absent); tci >= 0 {
		return fmt.Sprintf("tag %#04x (T=%d S=%d low bits %#02x) passes unchanged", tci, tci>>13, tci>>7&31, tci&127)
	}
	for vid, set := range o.vid {
		if tci := set.firstOutside(a.vid[vid], b.vid[vid], absent); tci >= 0 {
			return fmt.Sprintf("tag %#04x (T=%d S=%d low bits %#02x) leaves with VID %#03x (S=%d)", tci, tci>>13, tci>>7&31, tci&127, vid, vid>>7)
		}
	}
	return ""
}

// ideal is what the draft wants of a port with these intents (draft-00
// §4.4.2, §5.3.3, §5.4.2.3 with its erratum), bent by what the device is
// known to be unable to do.
func (m *matcher) ideal(caps vlanrules.Caps, l quantize.Layout, want []vlanrules.Intent) *outcome {
	key := idealKey{caps.MatchPCP, caps.MatchD, caps.Match, l, len(want), [8]vlanrules.Intent{}}
	copy(key.want[:], want)
	if m.ideals == nil {
		m.ideals = map[idealKey]*outcome{}
	}
	o := m.ideals[key]
	if o == nil {
		o = ideal(m, caps, l, want)
		m.ideals[key] = o
	}
	return o
}

// idealKey is what an ideal outcome depends on.
type idealKey struct {
	pcp, d bool
	match  vlanrules.MatchKind
	layout quantize.Layout
	n      int
	want   [8]vlanrules.Intent
}

//go:norace
func ideal(m *matcher, caps vlanrules.Caps, l quantize.Layout, want []vlanrules.Intent) *outcome {
	o := &outcome{alone: everything}
	dBlind := caps.MatchD || caps.Match == vlanrules.MatchRange
	for _, in := range want {
		if in.Action != vlanrules.Update {
			continue
		}
		vid := uint16(in.S)*128 + in.LM
		if l == quantize.UEC {
			vid = uint16(in.S)*128 + 2*in.LM
		}
		updated := ^uint64(0)
		if l == quantize.UEC && !dBlind {
			updated = 0x5555555555555555 // D is the lowest bit of the TCI
		}
		for top := range 16 {
			if caps.MatchPCP && top>>1 != int(in.Signal) {
				continue
			}
			for s := range 32 {
				worse := s > int(in.S)
				if in.Signal == quantize.MaxPD || in.Signal == quantize.MaxNQD {
					worse = s < int(in.S)
				}
				if !worse {
					continue
				}
				// The tags of one T, R and S are two words.
				for w := top*64 + s*2; w < top*64+s*2+2; w++ {
					o.at(m, vid).bits[w] |= updated
					o.at(m, vid).reach(w, w+1)
					o.alone.bits[w] &^= updated
					o.alone.reach(w, w+1)
				}
			}
		}
	}
	return o
}

// TestIdeal holds the words above against the draft's words, tag by tag.
func TestIdeal(t *testing.T) {
	for _, layout := range layouts {
		want := []vlanrules.Intent{
			{Signal: quantize.MinABW, Action: vlanrules.Update, S: 9, LM: 5},
			{Signal: quantize.MaxPD, Action: vlanrules.Update, S: 30, LM: 6},
			{Signal: quantize.MinABWC, Action: vlanrules.Passthrough, S: 3, LM: 6},
		}
		o := ideal(new(matcher), vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true}, layout, want)
		for tci := range 1 << 16 {
			f := layout.Unpack(quantize.TCI(tci))
			vid, updated := uint16(0), false
			switch {
			case f.D:
			case f.T == quantize.MinABW && f.S > 9:
				vid, updated = layout.VID(9, 5), true
			case f.T == quantize.MaxPD && f.S < 30:
				vid, updated = layout.VID(30, 6), true
			}
			has := func(s *tags) bool { return s.bits[tci>>6]>>(tci&63)&1 == 1 }
			if has(&o.alone) == updated || updated && !has(o.vid[vid]) {
				t.Fatalf("%s: tag %#04x", layout, tci)
			}
		}
	}
}

// same returns how two outcomes differ, or "".
func (o *outcome) same(b *outcome, absent *tags) string {
	if why := o.within(b, b, absent); why != "" {
		return why
	}
	if why := b.within(o, o, absent); why != "" {
		return "wanted, but not so: " + why
	}
	return ""
}

// device takes operations as the strictest hardware of its kind does.
type device struct {
	caps  vlanrules.Caps
	table vlanrules.Table
	peak  int
}

// entries is how many entries of the hardware a table takes.
//
//go:norace
func entries(caps *vlanrules.Caps, t vlanrules.Table) (n int) {
	if !caps.Prefixes {
		return len(t)
	}
	for _, e := range t {
		switch {
		case e.Type == vlanrules.Value:
		case e.Match.VID.Kind == vlanrules.Range:
			n += blocks(0, 4095, int(e.Match.VID.First), int(e.Match.VID.Last))
		default:
			n++
		}
	}
	return n
}

// blocks is how many prefixes of lo to hi make up first to last: all of it, or what either
// half needs.
//
//go:norace
func blocks(lo, hi, first, last int) int {
	mid := (lo + hi) / 2
	switch {
	case last < lo || hi < first || last < first:
		return 0
	case first <= lo && hi <= last:
		return 1
	}
	return blocks(lo, mid, first, last) + blocks(mid+1, hi, first, last)
}

type matchKey struct {
	match    vlanrules.Match
	priority uint16
	value    bool
}

// key is what may exist only once in the table.
//
//go:norace
func (d *device) key(e *vlanrules.Entry) matchKey {
	k := matchKey{match: e.Match, value: e.Type == vlanrules.Value}
	if d.caps.Match == vlanrules.MatchTernary || d.caps.Match == vlanrules.MatchRange && d.caps.Txn == vlanrules.TxnEntry {
		k.priority = e.Priority
	}
	if k.value {
		k.match.PCP, k.priority = vlanrules.Field{}, uint16(e.ID)
	}
	return k
}

//go:norace
func (d *device) do(op vlanrules.Op) error {
	at := slices.IndexFunc(d.table, func(e vlanrules.Entry) bool { return e.ID == op.Entry.ID })
	if op.Kind == vlanrules.Add {
		if at >= 0 {
			return fmt.Errorf("add: ID %d exists", op.Entry.ID)
		}
		for i := range d.table {
			if d.key(&d.table[i]) == d.key(&op.Entry) {
				return fmt.Errorf("add %+v: an entry with this match and priority exists", op.Entry)
			}
		}
		if op.Entry.Type == vlanrules.UseValue && !slices.ContainsFunc(d.table, func(e vlanrules.Entry) bool { return e.ID == op.Entry.Ref && e.Type == vlanrules.Value }) {
			return fmt.Errorf("add %+v: no such value", op.Entry)
		}
		d.table = append(d.table, op.Entry)
		d.peak = max(d.peak, entries(&d.caps, d.table))
		return nil
	}
	if at < 0 {
		return fmt.Errorf("%s: no entry with ID %d", op.Kind, op.Entry.ID)
	}
	is := d.table[at]
	if op.Kind == vlanrules.Delete {
		if is != op.Entry {
			return fmt.Errorf("delete of %+v, but the table has %+v", op.Entry, is)
		}
		if is.Type == vlanrules.Value && slices.ContainsFunc(d.table, func(e vlanrules.Entry) bool { return e.Type == vlanrules.UseValue && e.Ref == is.ID }) {
			return fmt.Errorf("delete of value %d, which is in use", is.ID)
		}
		d.table = slices.Delete(d.table, at, at+1)
		return nil
	}
	match := is.Match != op.Entry.Match
	action := is.Type != op.Entry.Type || is.VID != op.Entry.VID || is.Ref != op.Entry.Ref
	switch {
	case !match && !action:
		return fmt.Errorf("modify of %+v changes nothing", is)
	case is.Priority != op.Entry.Priority:
		return fmt.Errorf("modify of %+v changes its priority", is)
	case d.caps.ModifyEntry:
	case is.Type == vlanrules.Value && op.Entry.Type == vlanrules.Value && !match:
	case match && action, match && !d.caps.ModifyMatch, action && !d.caps.Modify:
		return fmt.Errorf("modify of %+v to %+v: not in place", is, op.Entry)
	}
	d.table[at] = op.Entry
	d.peak = max(d.peak, entries(&d.caps, d.table))
	return nil
}

// shareOf is how many entries one port may have, for one tag position, and
// whether there is a limit at all.
func shareOf(caps *vlanrules.Caps) (n int, limited bool) {
	n = caps.Entries
	if caps.Shared {
		n /= max(1, caps.Ports)
	}
	return n / max(1, caps.Positions), caps.Entries > 0
}

// namesVIDs returns which forbidden VID an operation newly writes or matches,
// compared with the entry that was there, or "".
//
//go:norace
func namesVIDs(caps *vlanrules.Caps, op *vlanrules.Op, was vlanrules.Entry) string {
	e := &op.Entry
	allowed := func(vid uint16) bool {
		in := func(r vlanrules.VIDRange) bool { return r.First <= vid && vid <= r.Last }
		return vid >= caps.VIDMin && (caps.VIDMax == 0 || vid <= caps.VIDMax) && !slices.ContainsFunc(caps.Reserved, in)
	}
	if op.Kind == vlanrules.Delete {
		return ""
	}
	if (e.Type == vlanrules.RewriteVID || e.Type == vlanrules.Value) && e.VID != was.VID && (e.VID == 0 || e.VID == 4095 || !allowed(e.VID)) {
		return fmt.Sprintf("writes VID %d", e.VID)
	}
	var ends []uint16
	switch f := &e.Match.VID; {
	case caps.MatchReserved || e.Match == was.Match:
	case f.Kind == vlanrules.Range && caps.Ranges > 1:
		for vid := f.First; vid <= f.Last; vid++ {
			ends = append(ends, vid)
		}
	case f.Kind == vlanrules.Range:
		ends = []uint16{f.First, f.Last}
	case f.Kind == vlanrules.Ternary && f.Mask == 0xfff:
		ends = []uint16{f.Value}
	}
	for _, vid := range ends {
		if !allowed(vid) {
			return fmt.Sprintf("matches VID %d", vid)
		}
	}
	return ""
}

// check runs a compile's operations on a strict device and holds every state
// against the invariant.
func check(t failer, m *matcher, caps vlanrules.Caps, layout quantize.Layout, have vlanrules.Table, want []vlanrules.Intent, res *vlanrules.Result) {
	t.Helper()
	old, wanted := m.read(caps, have), m.ideal(caps, layout, want)
	if res.Verdict.Level == vlanrules.Refused {
		if res.Verdict.Reason == "" || len(res.Ops) != 0 {
			t.Fatalf("refused for %q with %d operations", res.Verdict.Reason, len(res.Ops))
		}
		return
	}
	before := old
	if res.Gap {
		if res.Verdict.Level != vlanrules.Degraded {
			t.Fatalf("a gap, but the verdict is %s", res.Verdict.Level)
		}
		before = &outcome{alone: everything, vid: old.vid}
		before.alone.lo, before.alone.hi = old.alone.lo, old.alone.hi
	}
	d := &device{caps: caps, table: slices.Clone(have), peak: entries(&caps, have)}
	for i := range d.table {
		if d.table[i].ID == 0 { // read back without IDs: Compile gave them
			d.table[i].ID = idOf(res, d.table[i], d.table)
		}
	}
	for n, op := range res.Ops {
		var was vlanrules.Entry
		for _, e := range d.table {
			if e.ID == op.Entry.ID {
				was = e
			}
		}
		if err := d.do(op); err != nil {
			t.Fatalf("operation %d of %d: %v\n%s", n+1, len(res.Ops), err, describe(have, res))
		}
		if why := namesVIDs(&caps, &op, was); why != "" {
			t.Fatalf("operation %d of %d: %s\n%s", n+1, len(res.Ops), why, describe(have, res))
		}
		if caps.Txn != vlanrules.TxnEntry {
			continue // the table between is not visible
		}
		now := m.read(caps, d.table)
		if why := now.within(before, wanted, m.absent); why != "" {
			t.Fatalf("after operation %d of %d: %s\n%s", n+1, len(res.Ops), why, describe(have, res))
		}
		m.forget(now)
	}
	end := m.read(caps, d.table)
	if why := end.same(wanted, m.absent); why != "" {
		t.Fatalf("at the end: %s\n%s", why, describe(have, res))
	}
	m.forget(end)
	m.forget(old)
	peak := d.peak
	if caps.Txn != vlanrules.TxnEntry {
		peak = entries(&caps, d.table)
	}
	if n, limited := shareOf(&caps); limited && peak > max(n, entries(&caps, have)) {
		t.Fatalf("%d entries at once, %d are the port's\n%s", peak, n, describe(have, res))
	}
	byID := func(a, b vlanrules.Entry) int { return cmp.Compare(a.ID, b.ID) }
	is, claimed := slices.SortedFunc(slices.Values(d.table), byID), slices.SortedFunc(slices.Values(res.Table), byID)
	if !slices.Equal(is, claimed) {
		t.Fatalf("the operations lead to\n%v\nthe result claims\n%v\n%s", is, claimed, describe(have, res))
	}
	for i := range is {
		if i > 0 && is[i].ID == is[i-1].ID || is[i].ID == 0 {
			t.Fatalf("ID %d is not unique\n%s", is[i].ID, describe(have, res))
		}
	}
	if !slices.IsSortedFunc(res.Table, func(a, b vlanrules.Entry) int { return cmp.Compare(b.Priority, a.Priority) }) {
		t.Fatalf("the result is not in match order\n%s", describe(have, res))
	}
}

// idOf is the ID that Compile gave an entry read back without one.
func idOf(res *vlanrules.Result, e vlanrules.Entry, taken vlanrules.Table) uint32 {
	free := func(id uint32) bool {
		return !slices.ContainsFunc(taken, func(x vlanrules.Entry) bool { return x.ID == id })
	}
	same := func(x vlanrules.Entry) bool {
		id := x.ID
		x.ID = 0
		return x == e && free(id)
	}
	for _, op := range res.Ops {
		if op.Kind == vlanrules.Delete && same(op.Entry) {
			return op.Entry.ID
		}
		x := op.Entry
		if x.Type, x.VID, x.Ref = e.Type, e.VID, e.Ref; op.Kind == vlanrules.Modify && same(x) {
			return op.Entry.ID
		}
	}
	for _, x := range res.Table {
		if same(x) {
			return x.ID
		}
	}
	return 0
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)

func describe(have vlanrules.Table, res *vlanrules.Result) string {
	s := fmt.Sprintf("verdict %s %s\nobserved:\n", res.Verdict.Level, res.Verdict.Reason)
	if res.Choice != nil {
		s = fmt.Sprintf("form %s, ", res.Choice.Form) + s
	}
	for _, e := range have {
		s += "  " + entryString(e) + "\n"
	}
	s += "operations:\n"
	for i, op := range res.Ops {
		if i == 40 {
			s += "  …\n"
			break
		}
		s += fmt.Sprintf("  %-6s %s\n", op.Kind, entryString(op.Entry))
	}
	return s
}

func entryString(e vlanrules.Entry) string {
	return fmt.Sprintf("%d prio %d pcp %v dei %v vid %v %s vid %#03x (S=%d) ref %d", e.ID, e.Priority, e.Match.PCP, e.Match.DEI, e.Match.VID, e.Type, e.VID, e.VID>>7, e.Ref)
}
