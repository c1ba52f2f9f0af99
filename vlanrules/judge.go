package vlanrules

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/quantize"
)

// Form is how a table is laid out (docs/rules.md shows each).
type Form uint8

// The forms of table.
const (
	FormRange        Form = iota // one range
	FormOrdered                  // fewest ternary entries, priorities and no-ops
	FormLazy                     // no-op runs of S over one catch-all rewrite
	FormPrefix                   // one ternary entry for each zero bit of the bucket
	FormSharedPrefix             // runs of S that share one value
	FormExact                    // an entry for each VID
	FormSharedExact              // the same, sharing one value
	FormSharedRange              // ranges that share one value
)

var formNames = [...]string{"range", "ordered", "lazy", "prefix", "shared-prefix", "exact", "shared-exact", "shared-range"}

// String is the form's name, e.g. "lazy".
func (f Form) String() string { return nameOf("Form", f, formNames[:]) }

// Choice is the form of table a compiler chose for a set of signals.
type Choice struct {
	Form     Form
	Entries  int // that one port needs for all its signals, whatever their buckets, while nothing changes; for one tag position
	Headroom int // that it needs beyond Entries at some moment of a change, where the device counts after every operation
	Why      string
}

// defaultBudget is the entries a signal may take in a ternary table: the
// number from which more save little.
const defaultBudget = 7

// Judge returns how well the device can carry out want, and in which form of
// table, without a table at hand. Reasons name the signals and no port. The
// choice is nil where no signal is updated or the verdict is refused.
func (c *Compiler) Judge(want []Intent) (Verdict, *Choice) {
	set := 0
	for i := range want {
		in := &want[i]
		for j := range i {
			if want[j].Signal == in.Signal {
				return Verdict{Refused, names(in.Signal) + ": two intents for one signal of one port"}, nil
			}
		}
		if reason := c.refuseIntent(in); reason != "" {
			return Verdict{Refused, reason}, nil
		}
		if in.Action != Update {
			continue
		}
		set |= 1 << in.Signal
	}
	switch {
	case set == 0:
		return Verdict{}, nil
	case !c.caps.MatchPCP && len(want) > 1:
		return Verdict{Refused, "the device cannot match the PCP, which carries the signal type: it cannot distinguish two signals"}, nil
	}
	j := &c.judged[set]
	if j.choice == nil {
		j.choice, j.verdict = c.choose(set)
	}
	if j.verdict.Level == Refused {
		return j.verdict, nil
	}
	return j.verdict, j.choice
}

// names is how a sentence calls the signals.
func names(sigs ...quantize.Signal) string {
	list := make([]string, len(sigs))
	for i, sig := range sigs {
		list[i] = sig.String()
	}
	return strings.Join(list, "+")
}

// refuseIntent returns why in cannot be carried out at all, or "".
func (c *Compiler) refuseIntent(in *Intent) string {
	switch {
	case !in.Signal.Known():
		return fmt.Sprintf("%s: no such signal: tags of unknown types pass through untouched, and nothing else can be asked for them", names(in.Signal))
	case in.Action > Strip:
		return fmt.Sprintf("%s: %s: want passthrough, update or strip", names(in.Signal), in.Action)
	case in.Action != Update:
		return ""
	case in.S >= quantize.NumBuckets:
		return fmt.Sprintf("%s: bucket %d does not fit 5 bits", names(in.Signal), in.S)
	case in.LM > c.layout.LMAllOnes():
		return fmt.Sprintf("%s: locator %d does not fit the %d bits of %s", names(in.Signal), in.LM, c.layout.LMBits(), c.layout)
	case in.S == in.Signal.InitialBucket():
		return "" // nothing is better than the best bucket: nothing is written
	}
	vid := c.layout.VID(in.S, in.LM)
	switch {
	case vid == 0 || vid == 4095:
		return fmt.Sprintf("%s: bucket %d with locator %d is VID %d, which VLAN hardware refuses: choose another locator", names(in.Signal), in.S, in.LM, vid)
	case !c.caps.writable(vid):
		return fmt.Sprintf("%s: bucket %d with locator %d is VID %d, which the device keeps for itself or does not accept (%s)", names(in.Signal), in.S, in.LM, vid, c.caps.vids())
	}
	return ""
}

// vids returns which VIDs entries may name.
func (c *Caps) vids() string {
	last := c.VIDMax
	if last == 0 {
		last = 4095
	}
	var b strings.Builder
	fmt.Fprintf(&b, "VIDs %d-%d", c.VIDMin, last)
	for i, r := range c.Reserved {
		b.WriteString([]string{" without ", ", "}[min(i, 1)])
		fmt.Fprintf(&b, "%d-%d", r.First, r.Last)
	}
	return b.String()
}

// choose finds the form for a set of signals: of those that the capabilities
// allow and that fit the port's share of the table, the one with the fewest
// operations for a step of one bucket. Where none fits, the verdict is Refused
// with the numbers.
func (c *Compiler) choose(set int) (*Choice, Verdict) {
	var sigs []quantize.Signal
	for _, sig := range quantize.Signals {
		if set>>sig&1 == 1 {
			sigs = append(sigs, sig)
		}
	}
	if c.caps.Match > MatchExact || c.caps.Txn > TxnEntry {
		return &Choice{}, Verdict{Refused, fmt.Sprintf("the device's capabilities are unknown: %s, %s", c.caps.Match, c.caps.Txn)}
	}
	for _, sig := range sigs {
		if reason := c.unmatchable(sig); reason != "" {
			return &Choice{}, Verdict{Refused, reason}
		}
	}
	var misfits []string
	for _, cand := range c.candidates(sigs) {
		share, need := c.caps.share(), cand.Entries+cand.Headroom
		if cand.Entries < 0 {
			misfits = append(misfits, cand.Why)
			continue
		}
		if need > share {
			misfits = append(misfits, c.misfit(&cand, sigs))
			continue
		}
		if len(misfits) > 0 {
			cand.Why += "; not chosen: " + strings.Join(misfits, "; ")
		}
		return &cand, c.faithful(sigs)
	}
	return &Choice{}, Verdict{Refused, strings.Join(misfits, "; ")}
}

// faithful returns where the device deviates from the draft.
func (c *Compiler) faithful(sigs []quantize.Signal) Verdict {
	var why []string
	if !c.caps.MatchPCP {
		why = append(why, fmt.Sprintf("the device cannot match the PCP: every CSIG tag is treated as %s, whatever signal it asks for", sigs[0]))
	}
	if c.caps.Match == MatchRange && c.layout == quantize.UEC && !c.caps.MatchD {
		why = append(why, "a VID range cannot test D, the lowest bit of the VID in the uec layout: tags of trimmed packets (D=1) are updated too and lose their D")
	}
	for _, sig := range sigs {
		if reason := c.missed(sig); reason != "" {
			why = append(why, reason)
		}
	}
	if why == nil {
		return Verdict{}
	}
	return Verdict{Degraded, strings.Join(why, "; ")}
}

// missed is which tags of a signal pass unchanged, because entries may not match their VIDs
// at the ends of all, 0 and 4095, or "". No port writes their locator, which is reserved: a
// sender that ignores the profile may.
func (c *Compiler) missed(sig quantize.Signal) string {
	s, lm, start := uint8(quantize.NumBuckets-1), c.layout.LMAllOnes(), 30
	if sig.Max() {
		s, lm, start = 0, 0, 1
	}
	vid := c.layout.VID(s, lm)
	if c.caps.matchable(vid) || c.starts[sig] || !c.inUse(sig, s) || !c.carried(sig, lm) {
		return ""
	}
	return fmt.Sprintf("%s: a tag with S=%d and the reserved locator %d has VID %d, which entries cannot match (%s): it passes with a signal that is too good. Senders that start at %d (initial_s) send none", names(sig), s, lm, vid, c.caps.vids(), start)
}

// candidates lists the forms the capabilities allow, those with the fewest
// operations for a step of one bucket first (TestChoiceIsCheapest holds the
// order against Costs).
func (c *Compiler) candidates(sigs []quantize.Signal) []Choice {
	k, caps := len(sigs), &c.caps
	singly := caps.Txn == TxnEntry
	// Capacity for what is added before what it replaces is deleted; signals
	// change one after the other.
	headroom := func(n int) int {
		if singly {
			return n
		}
		return 0
	}
	lazy := Choice{FormLazy, k * c.budget, 0, fmt.Sprintf("no-op runs over one catch-all rewrite: at most %d entries for each signal, and about 2 operations for a step of one bucket", c.budget)}
	ordered := Choice{FormOrdered, 3 * k, headroom(3), "the smallest ternary table: at most 3 entries for each signal, and about 3 operations for a step of one bucket"}
	shared := Choice{FormSharedPrefix, k * c.budget, 0, fmt.Sprintf("runs of S that share one value: at most %d entries for each signal with the value's own, and about 2 operations for a step of one bucket", c.budget)}
	prefix := Choice{FormPrefix, 5 * k, headroom(5), "one entry for each zero bit of the bucket: at most 5 for each signal, all of which change with the bucket"}
	if !caps.Modify {
		ordered.Why = "the smallest ternary table: at most 3 entries for each signal; all are replaced at each change, as the device changes none in place"
	}
	switch caps.Match {
	case MatchRange:
		return []Choice{c.rangeCandidate(sigs)}
	case MatchTernary:
		switch {
		case c.runLimit(FormLazy) < minRuns:
			ordered.Why += fmt.Sprintf(" (a budget of %d entries is too small for shorter changes)", c.budget)
			return []Choice{ordered}
		case caps.Values && !caps.Modify:
			return []Choice{shared, lazy, ordered}
		}
		return []Choice{lazy, ordered}
	case MatchTernaryUnordered:
		if singly && !caps.Modify {
			prefix.Entries, prefix.Why = -1, "a pattern"+inPlace
		}
		if caps.Values && c.runLimit(FormSharedPrefix) >= minRuns {
			return []Choice{shared, prefix}
		}
		return []Choice{prefix}
	}
	return c.exactCandidates(sigs)
}

// rangeCandidate is candidates for a table of ranges.
func (c *Compiler) rangeCandidate(sigs []quantize.Signal) Choice {
	caps := &c.caps
	one := Choice{FormRange, 0, 0, "one VID range for each signal"}
	apart := caps.Modify && caps.ModifyMatch
	lists := caps.Ranges > 1 && len(caps.Reserved) > 0 && !caps.MatchReserved
	inPlace := caps.ModifyEntry || apart
	switch {
	case lists && caps.Values:
		one.Form, one.Why, inPlace = FormSharedRange, "VID ranges around the VIDs that entries may not name, sharing one value", caps.ModifyMatch
	case lists:
		one.Why, inPlace = "VID ranges for each signal, around the VIDs that entries may not name", false
	case caps.Values && caps.ModifyMatch && !inPlace:
		one.Form, one.Why, inPlace = FormSharedRange, "one VID range for each signal; its match and the value that it uses change in place", true
	}
	for _, sig := range sigs {
		n := c.rangeEntries(one.Form, Intent{Signal: sig, Action: Update, LM: 1})
		if one.Entries += n; caps.Txn == TxnEntry && !inPlace {
			one.Headroom = max(one.Headroom, n)
		}
	}
	if caps.Prefixes {
		one.Why += fmt.Sprintf(", held as prefixes: at most %d entries for %s", one.Entries, names(sigs...))
	}
	return one
}

// inPlace is why a table without priorities needs entries that change in place.
const inPlace = " that cannot change in place would have to be deleted before its successor is added, and tags in between would miss it: the device needs a transaction, entries that change in place or shared values"

// exactCandidates is candidates for a table of exact matches.
func (c *Compiler) exactCandidates(sigs []quantize.Signal) []Choice {
	vids := 0
	for _, sig := range sigs {
		n := 0
		for s := range uint8(quantize.NumBuckets) {
			n = max(n, len(c.keysOf(sig, s)))
		}
		vids += n
	}
	exact := Choice{FormExact, vids, 0, "an entry for each VID: all of them change with the bucket"}
	if c.caps.Txn == TxnEntry && !c.caps.Modify {
		exact.Entries, exact.Why = -1, "an exact entry"+inPlace
	}
	if !c.caps.Values {
		return []Choice{exact}
	}
	shared := Choice{FormSharedExact, vids + len(sigs), 0, "an entry for each VID, sharing one value: the entries of one S and the value change with a step of one bucket"}
	return []Choice{shared, exact}
}

// formEntries is how a sentence calls the entries of a form.
var formEntries = [...]string{"range entries", "entries in the smallest ternary table", "ternary entries with no-op runs", "prefix entries",
	"prefix entries with a shared value", "exact entries", "exact entries with a shared value", "range entries with a shared value"}

// misfit returns by how much a form does not fit.
func (c *Compiler) misfit(cand *Choice, sigs []quantize.Signal) string {
	var b strings.Builder
	what := formEntries[cand.Form]
	if cand.Entries+cand.Headroom == 1 {
		what = strings.Replace(what, "entries", "entry", 1)
	}
	fmt.Fprintf(&b, "needs %s %s for %s", quantize.FormatCount(cand.Entries+cand.Headroom), what, names(sigs...))
	if cand.Headroom > 0 {
		fmt.Fprintf(&b, " (%s of them during changes)", quantize.FormatCount(cand.Headroom))
	}
	b.WriteString(c.capacity())
	if cand.Form == FormExact || cand.Form == FormSharedExact {
		b.WriteString(c.alternatives(sigs))
	}
	return b.String()
}

// capacity returns how many entries there are, as the second half of a sentence.
func (c *Compiler) capacity() string {
	var b strings.Builder
	fmt.Fprintf(&b, ", %s in the table", quantize.FormatCount(max(0, c.caps.Entries-c.caps.Taken)))
	if c.caps.Taken > 0 {
		fmt.Fprintf(&b, " (of its %s, others hold %s)", quantize.FormatCount(c.caps.Entries), quantize.FormatCount(c.caps.Taken))
	}
	shared := c.caps.Shared && c.caps.Ports > 1
	switch {
	case shared && c.caps.Positions > 1:
		fmt.Fprintf(&b, " are shared by %d ports and %d tag positions", c.caps.Ports, c.caps.Positions)
	case shared:
		fmt.Fprintf(&b, " are shared by %d ports", c.caps.Ports)
	case c.caps.Positions > 1:
		fmt.Fprintf(&b, " are shared by %d tag positions", c.caps.Positions)
	default:
		return b.String()
	}
	fmt.Fprintf(&b, ", %s for each", quantize.FormatCount(c.caps.share()))
	return b.String()
}

// fewestLocators is none, stale and one port's own.
const fewestLocators = 3

// alternatives costs what would make an exact table shorter: an assurance of
// which locators are in use, and fewer buckets.
func (c *Compiler) alternatives(sigs []quantize.Signal) string {
	share := c.caps.share() / len(sigs)
	lms := 0
	for _, sig := range sigs {
		lms = max(lms, len(c.keysOf(sig, sig.WorstBucket()))/max(1, c.bucketsAbove(sig)))
	}
	var b strings.Builder
	if fits := share / (quantize.NumBuckets - 1); fits >= fewestLocators && fits < lms {
		fmt.Fprintf(&b, "; it would fit with at most %d locators in use, none and stale among them", fits)
	}
	for n := quantize.NumBuckets / 2; n >= 2; n /= 2 {
		if (n-1)*lms <= share {
			fmt.Fprintf(&b, "; %d coarser buckets would need %s entries for each signal", n, quantize.FormatCount((n-1)*lms))
			break
		}
	}
	for n := quantize.NumBuckets / 2; n >= 2 && b.Len() == 0; n /= 2 {
		if fits := share / (n - 1); fits >= fewestLocators {
			fmt.Fprintf(&b, "; it would fit with %d coarser buckets and at most %d locators in use, none and stale among them", n, fits)
		}
	}
	return b.String()
}

// unmatchable returns which tags of a signal the device could never update,
// because entries may not match their VIDs, or "".
func (c *Compiler) unmatchable(sig quantize.Signal) string {
	var buckets []string
	for s := range uint8(quantize.NumBuckets) {
		if s == sig.WorstBucket() || !c.inUse(sig, s) {
			continue
		}
		for lm := range c.layout.LMAllOnes() {
			if lm != 0 && c.carried(sig, lm) && !c.caps.matchable(c.layout.VID(s, lm)) {
				buckets = append(buckets, fmt.Sprint(s))
				break
			}
		}
	}
	if len(buckets) == 0 {
		return ""
	}
	hint := "choose a bucket table that leaves them empty"
	if sig.InitialBucket() == quantize.NumBuckets-1 && len(buckets) == 1 && buckets[0] == "31" {
		hint = "let senders start at 30 (initial_s) and leave bucket 31 empty"
	}
	return fmt.Sprintf("%s: tags with S=%s have VIDs that entries cannot match (%s), and would pass with a signal that is too good: %s",
		names(sig), strings.Join(buckets, ","), c.caps.vids(), hint)
}

// inUse reports whether tags of the domain can carry S=s.
func (c *Compiler) inUse(sig quantize.Signal, s uint8) bool {
	return c.buckets[sig] == 0 || c.buckets[sig]>>s&1 == 1
}

// carried reports whether tags of the domain can carry the locator lm.
func (c *Compiler) carried(sig quantize.Signal, lm uint16) bool {
	return c.locators[sig] == nil || c.locators[sig][lm]
}

// gapVerdict adds to a verdict that the change cannot be made without a gap.
func (c *Compiler) gapVerdict(v Verdict) Verdict {
	reason := "an entry found in the table has the match of a wanted one and cannot change in place: tags pass unchanged until the change is complete"
	if !c.stuck {
		reason = fmt.Sprintf("a change without a gap needs more entries at once than the port has (%s of its %s hold what was found there): tags pass unchanged until the change is complete",
			quantize.FormatCount(c.held), quantize.FormatCount(c.caps.share()))
	}
	if v.Level == Degraded {
		reason = v.Reason + "; " + reason
	}
	return Verdict{Degraded, reason}
}
