package vlanrules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Tables as QoS policies of command lines are: ranges of the VIDs 1 to 4094, changed one
// step after the other, in an order of their own.

// policy is a switch that has no priorities: a classifier that is added stands behind all
// others, and the first that matches wins, or the last does.
type policy struct {
	lastWins bool
	rows     vlanrules.Table // in the order in which they were added
}

// read is the table as a driver reads it back: priorities by place.
func (p *policy) read() vlanrules.Table {
	t := slices.Clone(p.rows)
	for i := range t {
		if t[i].Priority = uint16(len(t) - i); p.lastWins {
			t[i].Priority = uint16(i + 1)
		}
	}
	return sorted(t)
}

func (p *policy) do(op vlanrules.Op) {
	if op.Kind == vlanrules.Add {
		p.rows = append(p.rows, op.Entry)
		return
	}
	at := slices.IndexFunc(p.rows, func(e vlanrules.Entry) bool { return e.ID == op.Entry.ID })
	if p.rows[at] = op.Entry; op.Kind == vlanrules.Delete {
		p.rows = slices.Delete(p.rows, at, at+1)
	}
}

// TestAppendedClassifier replaces a range by adding a second one and deleting the first,
// where the second takes precedence over the first and where it does not: both are safe,
// between every two buckets, after every operation, and when a change is cut short and
// continued to the same bucket, back or to another.
func TestAppendedClassifier(t *testing.T) {
	for i, caps := range []vlanrules.Caps{
		{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry},
		{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true},
		{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Values: true, Ranges: 10, Reserved: []vlanrules.VIDRange{{First: 127, Last: 127}}},
	} {
		for _, lastWins := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, last wins %t", i, lastWins), func(t *testing.T) {
				t.Parallel()
				sig := []quantize.Signal{quantize.MinABW, quantize.MaxPD}[i%2]
				c := vlanrules.NewCompiler(caps, quantize.Draft00)
				m := &matcher{absent: absentFrom(false, quantize.Draft00)}
				for pair := range 1024 {
					if !chosen(i, pair) {
						continue
					}
					was, will := []vlanrules.Intent{update(sig, uint8(pair/32), 5)}, []vlanrules.Intent{update(sig, uint8(pair%32), 5+uint16(pair)%2)}
					third := []vlanrules.Intent{update(sig, uint8(pair*7)%32, 7)}
					for cut := 0; ; cut++ {
						p := &policy{lastWins: lastWins}
						p.follow(t, m, c, caps, was, -1)
						if done := p.follow(t, m, c, caps, will, cut); done {
							break
						}
						p.follow(t, m, c, caps, [][]vlanrules.Intent{will, was, third}[(pair+cut)%3], -1)
					}
				}
			})
		}
	}
}

// follow compiles from what the policy has and carries out the operations, or so many of
// them, and holds each state against the old and the new. It reports that all were done.
func (p *policy) follow(t *testing.T, m *matcher, c *vlanrules.Compiler, caps vlanrules.Caps, want []vlanrules.Intent, cut int) bool {
	t.Helper()
	var res vlanrules.Result
	have := p.read()
	c.Compile(&res, have, want)
	if res.Verdict.Level == vlanrules.Refused || res.Gap {
		t.Fatalf("%s: %s", res.Verdict.Level, res.Verdict.Reason)
	}
	old, wanted := m.read(caps, have), m.ideal(caps, quantize.Draft00, want)
	for n, op := range res.Ops {
		if n == cut {
			return false
		}
		p.do(op)
		now := m.read(caps, p.read())
		if why := now.within(old, wanted, m.absent); why != "" {
			t.Fatalf("after operation %d: %s\n%s", n+1, why, describe(have, &res))
		}
		m.forget(now)
	}
	end := m.read(caps, p.read())
	if why := end.same(wanted, m.absent); why != "" {
		t.Fatalf("at the end: %s\n%s", why, describe(have, &res))
	}
	m.forget(end)
	m.forget(old)
	return true
}

// TestSharedBehavior has classifiers for two positions of the tag use one behavior: matches
// change one classifier after the other, the value for both at once. Tags of either position
// see the old or the new result after every write.
func TestSharedBehavior(t *testing.T) {
	caps := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, ModifyMatch: true, Positions: 2}
	for _, sig := range []quantize.Signal{quantize.MinABWC, quantize.MaxNQD} {
		c, m := vlanrules.NewCompiler(caps, quantize.Draft00), new(matcher)
		for pair := range 1024 {
			if !chosen(int(sig), pair) {
				continue
			}
			was, will := []vlanrules.Intent{update(sig, uint8(pair/32), 5)}, []vlanrules.Intent{update(sig, uint8(pair%32), 6)}
			var from, res vlanrules.Result
			c.Compile(&from, nil, was)
			c.Compile(&res, from.Table, will)
			var at [2]device
			for i := range at {
				at[i] = device{caps: caps, table: slices.Clone(from.Table)}
			}
			old, wanted := m.read(caps, from.Table), m.ideal(caps, quantize.Draft00, will)
			seen := func() {
				for i := range at {
					now := m.read(caps, at[i].table)
					if why := now.within(old, wanted, nil); why != "" {
						t.Fatalf("position %d: %s\n%s", i, why, describe(from.Table, &res))
					}
					m.forget(now)
				}
			}
			for _, op := range res.Ops {
				value := op.Kind == vlanrules.Modify && at[0].table[0].Match == op.Entry.Match
				for i := range at {
					if err := at[i].do(op); err != nil {
						t.Fatal(err)
					}
					if !value {
						seen()
					}
				}
				seen()
			}
			for i := range at {
				if why := m.read(caps, at[i].table).same(wanted, nil); why != "" {
					t.Fatalf("at the end, position %d: %s", i, why)
				}
			}
		}
	}
}

// TestEndsOfVIDs compiles every bucket for entries that take the VIDs 1 to 4094. The verdict
// names the one tag of the signal that is not as the draft wants it, and that it is so for no
// other is looked up in the whole tag space.
func TestEndsOfVIDs(t *testing.T) {
	for _, tc := range []struct {
		sig         quantize.Signal
		vid         int
		start, best uint8
	}{{quantize.MinABW, 4095, 30, 31}, {quantize.MaxPD, 0, 1, 0}} {
		caps := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, VIDMin: 1, VIDMax: 4094}
		all, some := vlanrules.NewCompiler(caps, quantize.Draft00), vlanrules.NewCompiler(caps, quantize.Draft00, vlanrules.WithInitial(tc.sig, tc.start))
		m := new(matcher)
		for s := range uint8(32) {
			var res vlanrules.Result
			want := []vlanrules.Intent{update(tc.sig, s, 5)}
			all.Compile(&res, nil, want)
			if reason := fmt.Sprintf("has VID %d, which entries cannot match", tc.vid); res.Verdict.Level != vlanrules.Degraded || !strings.Contains(res.Verdict.Reason, reason) {
				t.Fatalf("%s: %s", res.Verdict.Level, res.Verdict.Reason)
			}
			got, ideal := m.read(caps, res.Table), m.ideal(caps, quantize.Draft00, want)
			expected := ideal.alone.bits
			for dei := 0; dei < 2 && s != tc.best; dei++ {
				missed := int(tc.sig)<<13 | dei<<12 | tc.vid
				expected[missed>>6] |= 1 << (missed & 63)
			}
			if got.alone.bits != expected {
				t.Fatalf("bucket %d: other tags are updated than all but that one", s)
			}
			if some.Compile(&res, nil, want); res.Verdict.Level != vlanrules.Full {
				t.Fatalf("no tag starts there, and it is %s: %s", res.Verdict.Level, res.Verdict.Reason)
			}
		}
	}
}

// TestPrefixes holds the count of prefixes of a range against one by halves.
func TestPrefixes(t *testing.T) {
	for first := range 4096 {
		for last := first; last < 4096; last += 1 + first%29*thinned {
			if got, want := vlanrules.Prefixes(uint16(first), uint16(last)), blocks(0, 4095, first, last); got != want {
				t.Fatalf("%d-%d: %d, want %d", first, last, got, want)
			}
		}
	}
}

// TestPrefixesFit has ranges in tables that hold them as prefixes: up to 15 for one that ends
// at 4094, and twice as many while a second one is added.
func TestPrefixesFit(t *testing.T) {
	for _, tc := range []struct {
		vidMax   uint16
		entries  int
		inPlace  bool
		capacity int
		level    vlanrules.Level
	}{
		{0, 5, true, 5, vlanrules.Full},
		{0, 5, true, 4, vlanrules.Refused},
		{4094, 15, true, 15, vlanrules.Degraded},
		{4094, 15, true, 14, vlanrules.Refused},
		{4094, 15, false, 30, vlanrules.Degraded},
		{4094, 15, false, 29, vlanrules.Refused},
	} {
		caps := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, ModifyMatch: tc.inPlace, Prefixes: true, VIDMax: tc.vidMax, Entries: tc.capacity}
		c := vlanrules.NewCompiler(caps, quantize.Draft00)
		v, choice := c.Judge([]vlanrules.Intent{update(quantize.MinABW, 9, 5)})
		if v.Level != tc.level {
			t.Errorf("%+v: %s: %s", tc, v.Level, v.Reason)
		}
		if choice != nil && choice.Entries != tc.entries {
			t.Errorf("%+v: %d entries", tc, choice.Entries)
		}
		if need := fmt.Sprintf("needs %d range entries", tc.entries*map[bool]int{true: 1, false: 2}[tc.inPlace]); choice == nil && !strings.Contains(v.Reason, need) {
			t.Errorf("%+v: %s", tc, v.Reason)
		}
	}
}
