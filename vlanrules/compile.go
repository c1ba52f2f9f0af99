package vlanrules

import (
	"cmp"
	"slices"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules/internal/cover"
)

// Compiler compiles intents for one device. It keeps scratch space and is not
// safe for concurrent use.
type Compiler struct {
	caps     Caps
	layout   quantize.Layout
	budget   int
	locators [len(quantize.Signals)][]bool // locators in use; nil: any
	buckets  [len(quantize.Signals)]uint32 // S in use; 0: any
	starts   [len(quantize.Signals)]bool   // senders start with another S than the best

	judged [1 << len(quantize.Signals)]judgement // by the set of signals updated
	exact  [len(quantize.Signals)]*keyList
	steps  [quantize.NumBuckets][quantize.NumBuckets][]cover.Step

	// One compile's work: the table as the operations so far leave it.
	ops   []Op
	cur   Table
	seen  Table    // observed rows of cur as they were, where one had another form
	gone  []bool   // cur[i] was deleted
	group [8][]int // rows of cur that match one T alone
	mixed bool     // some row matches several T
	all   []int    // every row of cur, where they are mixed
	want  Table    // entries to be, highest priority first
	at    []int    // want[i] is cur[at[i]], or missing or spared
	runs  runs
	held  int    // entries of the table that were observed
	used  int    // and that it takes now
	peak  int    // and took at most
	stuck bool   // an entry has to go before its successor can come
	odd   []int  // rows of an exact table that are no exact keys
	keys  []bool // exact keys that are wanted and not there yet
	ids   idSet  // those of cur, where it is long
}

// NewCompiler returns a compiler for a device with these capabilities.
func NewCompiler(caps Caps, layout quantize.Layout, opts ...Option) *Compiler {
	c := &Compiler{caps: caps, layout: layout, budget: defaultBudget}
	for _, opt := range opts {
		opt(c)
	}
	return c
}

// judgement is what choose found.
type judgement struct {
	choice  *Choice
	verdict Verdict
}

// Result is what Compile found: the table wanted, the operations that lead
// there from the observed one in a safe order, how faithful it is, and the
// form of table chosen with the reason. A refused result has no operations,
// and its Table is the observed one.
type Result struct {
	Table   Table
	Ops     []Op
	Verdict Verdict
	Choice  *Choice // nil where no signal is updated or the verdict is refused
	Gap     bool    // on the way tags pass unchanged: see the verdict

	memo *memo // nil before the first compile that was not refused
}

// Compile finds the table that carries out want, the intents of one egress
// port (at most one for each signal), and the operations that turn have, the
// table observed on that port, into it. After every single operation each tag
// leaves as have would send it or as the wanted table does (docs/rules.md).
//
// Entries of have are recognised by content, so one read back without IDs
// (all 0) will do: its entries get theirs from Compile, the same each time. IDs
// that are there must be unique, because operations name entries by them;
// where a device has none or repeats them, leave them 0. What no intent wants is
// deleted.
//
// dst's slices are reused, and have may be dst.Table. It pays to keep one dst
// for each port: a table and intents that are those of its last compile are
// settled by comparing them, row by row but without a thought.
func (c *Compiler) Compile(dst *Result, have Table, want []Intent) {
	dst.Gap = false
	if m := dst.memo; m.holds(c, have, want) {
		dst.Verdict, dst.Choice = m.verdict, m.choice
		dst.Ops, dst.Table = dst.Ops[:0], keepTable(dst.Table, have)
		return
	}
	c.ops = dst.Ops[:0]
	dst.Verdict, dst.Choice = c.Judge(want)
	if dst.Verdict.Level == Refused {
		dst.Ops, dst.Table = c.ops, keepTable(dst.Table, have)
		return
	}
	v := dst.Verdict
	c.load(have)
	c.change(dst.Choice, want)
	if c.stuck || c.overflows() {
		dst.Verdict, dst.Gap = c.gapVerdict(dst.Verdict), true
		c.ops = c.ops[:0]
		c.load(have)
		c.changeWithGap(dst.Choice, want)
	}
	dst.Ops = c.ops
	dst.Table = c.finish(dst.Table[:0])
	dst.memo = dst.memo.keep(c, dst.Table, want, v, dst.Choice)
}

// change appends the operations of a hitless change.
func (c *Compiler) change(choice *Choice, want []Intent) {
	if c.mixed {
		c.wantAll(choice, want)
		c.all = c.all[:0]
		for i := range c.cur {
			c.all = append(c.all, i)
		}
		c.replace(c.all)
		return
	}
	var updated [8]bool
	for i := range want {
		if want[i].Action == Update {
			updated[c.groupOf(want[i].Signal)] = true
		}
	}
	for t := range c.group {
		if !updated[t] && len(c.group[t]) > 0 {
			c.want = c.want[:0]
			c.replace(c.group[t])
		}
	}
	for i := range want {
		in := &want[i]
		if in.Action != Update {
			continue
		}
		rows := c.group[c.groupOf(in.Signal)]
		switch choice.Form {
		case FormRange, FormSharedRange:
			c.rangeSignal(choice.Form, in, rows)
		case FormOrdered:
			c.orderedSignal(in, rows)
		case FormLazy:
			c.lazySignal(in, rows)
		case FormSharedPrefix:
			c.sharedSignal(in, rows)
		case FormPrefix:
			c.wantSignal(choice.Form, in)
			c.replace(rows)
		default:
			c.exactSignal(choice.Form, in, rows)
		}
	}
}

// wantAll makes c.want the canonical entries of all signals.
func (c *Compiler) wantAll(choice *Choice, want []Intent) {
	c.want = c.want[:0]
	for i := range want {
		if want[i].Action == Update {
			c.appendSignal(choice.Form, &want[i])
		}
	}
	sortTable(c.want)
}

// wantSignal makes c.want the canonical entries of one signal.
func (c *Compiler) wantSignal(form Form, in *Intent) {
	c.want = c.want[:0]
	c.appendSignal(form, in)
}

// appendSignal appends one signal's canonical entries to c.want, in match
// order, a shared value before what uses it.
func (c *Compiler) appendSignal(form Form, in *Intent) {
	switch form {
	case FormRange, FormSharedRange:
		c.appendRange(form, in)
	case FormOrdered:
		c.appendOrdered(in)
	case FormLazy:
		c.appendLazy(in)
	case FormPrefix, FormSharedPrefix:
		c.appendPrefixes(form, in)
	default:
		c.appendExact(form, in)
	}
}

// load makes cur a copy of have, in match order and in the form in which
// Compile itself writes conditions, and sorts its rows by T.
func (c *Compiler) load(have Table) {
	c.cur = append(c.cur[:0], have...)
	c.gone, c.mixed, c.stuck = slices.Grow(c.gone[:0], len(have))[:len(have)], false, false
	clear(c.gone)
	c.held = c.weightOf(have)
	c.used, c.peak = c.held, c.held
	for t := range c.group {
		c.group[t] = c.group[t][:0]
	}
	sortTable(c.cur)
	c.seen = c.seen[:0]
	for i := range c.cur {
		e := &c.cur[i]
		was := e.Match
		normalise(&e.Match.PCP, 7)
		normalise(&e.Match.DEI, 1)
		normalise(&e.Match.VID, 0xfff)
		if e.Match != was {
			if len(c.seen) == 0 {
				c.seen = append(c.seen, c.cur...)
			}
			c.seen[i].Match = was
		}
		if t := c.signalOf(e); t < 0 {
			c.mixed = true
		} else {
			c.group[t] = append(c.group[t], i)
		}
	}
	c.ids.current = false
	for i := range c.cur {
		if e := &c.cur[i]; e.ID == 0 {
			e.ID = c.freeID(e)
			c.ids.insert(e.ID)
		}
	}
}

// signalOf is the T that alone the row matches, or -1. On a device that
// cannot match the PCP there is one signal at most, and every row is its.
func (c *Compiler) signalOf(e *Entry) int {
	f := &e.Match.PCP
	switch {
	case f.Kind == Ternary && f.Mask == 7 && f.Value <= 7:
		return int(f.Value)
	case f.Kind == Any && !c.caps.MatchPCP:
		return 0
	}
	return -1
}

// groupOf is the group of a signal's rows.
func (c *Compiler) groupOf(sig quantize.Signal) int {
	if !c.caps.MatchPCP {
		return 0
	}
	return int(sig)
}

// normalise gives conditions that mean the same the same form.
func normalise(f *Field, all uint16) {
	switch f.Kind {
	case Any:
		*f = Field{}
	case Ternary:
		mask := f.Mask & all
		if f.Value&^mask != 0 {
			return // takes nothing
		}
		if *f = (Field{Kind: Ternary, Value: f.Value, Mask: mask}); mask == 0 {
			*f = Field{}
		}
	case Range:
		*f = Field{Kind: Range, First: f.First, Last: f.Last}
		if f.First == 0 && f.Last >= all {
			*f = Field{}
		}
	}
}

// sortTable puts entries in match order, those of equal priority as they were.
func sortTable(t Table) {
	slices.SortStableFunc(t, func(a, b Entry) int { return cmp.Compare(b.Priority, a.Priority) })
}

// add appends an operation that adds e, with an ID of its own, and returns
// its row.
func (c *Compiler) add(e Entry) int {
	e.ID = c.freeID(&e)
	c.ops = append(c.ops, Op{Add, e})
	c.cur = append(c.cur, e)
	c.gone = append(c.gone, false)
	c.used += c.weight(&e)
	c.peak = max(c.peak, c.used)
	c.ids.insert(e.ID)
	return len(c.cur) - 1
}

// modify appends an operation that gives row i the match and action of e.
func (c *Compiler) modify(i int, e Entry) {
	e.ID, e.Priority = c.cur[i].ID, c.cur[i].Priority
	if i < len(c.seen) && e.Match != c.cur[i].Match {
		c.seen[i].Match = e.Match
	}
	c.used += c.weight(&e) - c.weight(&c.cur[i])
	c.peak = max(c.peak, c.used)
	c.cur[i] = e
	c.ops = append(c.ops, Op{Modify, c.row(i)})
}

// drop appends an operation that deletes row i.
func (c *Compiler) drop(i int) {
	c.ops = append(c.ops, Op{Delete, c.row(i)})
	c.gone[i] = true
	c.used -= c.weight(&c.cur[i])
	c.ids.remove(c.cur[i].ID)
}

// row is row i in the form in which it was observed or written.
func (c *Compiler) row(i int) Entry {
	e := c.cur[i]
	if i < len(c.seen) {
		e.Match = c.seen[i].Match
	}
	return e
}

// finish appends the rows that are left to t, in match order.
func (c *Compiler) finish(t Table) Table {
	for i := range c.cur {
		if !c.gone[i] {
			t = append(t, c.row(i))
		}
	}
	if len(c.ops) > 0 {
		sortTable(t)
	}
	return t
}

// overflows reports whether the operations need more entries at once than
// the port has, where the device counts them one operation at a time.
func (c *Compiler) overflows() bool {
	share := c.caps.share()
	return share != unlimited && c.caps.Txn == TxnEntry && c.peak > max(share, c.held)
}

// changeWithGap is the last resort of a table that is too full for a hitless
// change: it empties it from the bottom, so that tags pass unchanged, and
// fills it again.
func (c *Compiler) changeWithGap(choice *Choice, want []Intent) {
	for i := range slices.Backward(c.cur) {
		if c.cur[i].Type != Value {
			c.drop(i)
		}
	}
	for i := range c.cur {
		if c.cur[i].Type == Value {
			c.drop(i)
		}
	}
	c.wantAll(choice, want)
	c.replace(nil)
}
