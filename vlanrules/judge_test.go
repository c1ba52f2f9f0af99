package vlanrules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

func update(sig quantize.Signal, s uint8, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: lm}
}

// locatorsTo lists the locators 1…n.
func locatorsTo(n uint16) (lms []uint16) {
	for lm := range n {
		lms = append(lms, lm+1)
	}
	return lms
}

// TestVerdicts is what a network engineer reads when a device cannot do what
// is wanted, or not quite.
func TestVerdicts(t *testing.T) {
	ranges := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true}
	exact := vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	ternary := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
	abw, abwc := quantize.MinABW, quantize.MinABWC
	with := func(c vlanrules.Caps, f func(*vlanrules.Caps)) vlanrules.Caps { f(&c); return c }
	for _, tc := range []struct {
		name   string
		caps   vlanrules.Caps
		layout quantize.Layout
		opts   []vlanrules.Option
		want   []vlanrules.Intent
		level  vlanrules.Level
		reason string // must be in the verdict
	}{
		{"nothing to do", ranges, quantize.Draft00, nil, nil, vlanrules.Full, ""},
		{"passthrough needs no table", exact, quantize.Draft00, nil, []vlanrules.Intent{{Signal: abw}}, vlanrules.Full, ""},
		{"range", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"range cannot see D", ranges, quantize.UEC, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Degraded, "tags of trimmed packets (D=1) are updated too"},
		{"range, D seen to", with(ranges, func(c *vlanrules.Caps) { c.MatchD = true }), quantize.UEC, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"ternary sees D", ternary, quantize.UEC, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"no PCP", with(ranges, func(c *vlanrules.Caps) { c.MatchPCP = false }), quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5)},
			vlanrules.Degraded, "every CSIG tag is treated as abw"},
		{"no PCP, two signals", with(ranges, func(c *vlanrules.Caps) { c.MatchPCP = false }), quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5), update(abwc, 3, 5)},
			vlanrules.Refused, "it cannot distinguish two signals"},
		{"no PCP, one to be left alone", with(ranges, func(c *vlanrules.Caps) { c.MatchPCP = false }), quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5), {Signal: abwc}},
			vlanrules.Refused, "it cannot distinguish two signals"},
		{"one signal twice", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5), update(abw, 4, 5)}, vlanrules.Refused, "abw: two intents"},
		{"unknown signal", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(5, 3, 5)}, vlanrules.Refused, "t5: no such signal: tags of unknown types pass through untouched"},
		{"unknown signal, to be left alone", ranges, quantize.Draft00, nil, []vlanrules.Intent{{Signal: 7}}, vlanrules.Refused, "t7: no such signal"},
		{"unknown signal, to be stripped", ternary, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5), {Signal: 7, Action: vlanrules.Strip}}, vlanrules.Refused, "t7: no such signal"},
		{"unknown action", ranges, quantize.Draft00, nil, []vlanrules.Intent{{Signal: abw, Action: 9, S: 3, LM: 5}}, vlanrules.Refused, "abw: Action(9): want passthrough, update or strip"},
		{"unknown kind of table", vlanrules.Caps{Match: 9, MatchPCP: true}, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "MatchKind(9)"},
		{"unknown transactions", vlanrules.Caps{Txn: 9, MatchPCP: true}, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "Txn(9)"},
		{"bucket out of range", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 32, 5)}, vlanrules.Refused, "bucket 32 does not fit 5 bits"},
		{"locator out of range", ranges, quantize.UEC, nil, []vlanrules.Intent{update(abw, 3, 64)}, vlanrules.Refused, "locator 64 does not fit the 6 bits of uec"},
		{"VID 0", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 0, 0)}, vlanrules.Refused, "bucket 0 with locator 0 is VID 0"},
		{"VID 4095", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(quantize.MaxPD, 31, 127)}, vlanrules.Refused, "is VID 4095"},
		{"best bucket writes nothing", ranges, quantize.Draft00, nil, []vlanrules.Intent{update(abw, 31, 127), update(quantize.MaxPD, 0, 0)}, vlanrules.Full, ""},
		{"reserved VIDs are not matched", with(ranges, func(c *vlanrules.Caps) { c.Reserved = []vlanrules.VIDRange{{First: 3968, Last: 4095}} }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "tags with S=31 have VIDs that entries cannot match (VIDs 0-4095 without 3968-4095), and would pass with a signal that is too good: let senders start at 30"},
		{"reserved VIDs are matched", with(ranges, func(c *vlanrules.Caps) {
			c.Reserved, c.MatchReserved = []vlanrules.VIDRange{{First: 3968, Last: 4095}}, true
		}), quantize.Draft00, nil, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"reserved VIDs are not used", with(ranges, func(c *vlanrules.Caps) { c.Reserved = []vlanrules.VIDRange{{First: 3968, Last: 4095}} }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithBuckets(abw, 0x7fffffff)}, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"reserved VIDs are not written", with(ranges, func(c *vlanrules.Caps) {
			c.Reserved, c.MatchReserved = []vlanrules.VIDRange{{First: 3968, Last: 4095}}, true
		}), quantize.Draft00, nil, []vlanrules.Intent{update(quantize.MaxPD, 31, 5)}, vlanrules.Refused, "is VID 3973, which the device keeps for itself"},
		{"reserved in the middle", with(ternary, func(c *vlanrules.Caps) { c.Reserved = []vlanrules.VIDRange{{First: 1006, Last: 1200}} }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "tags with S=7,8,9 have VIDs that entries cannot match"},
		{"one reserved locator of one bucket", with(ternary, func(c *vlanrules.Caps) { c.Reserved = []vlanrules.VIDRange{{First: 2561, Last: 2561}} }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "tags with S=20 have VIDs that entries cannot match"},
		{"a locator that is not allocated", with(ternary, func(c *vlanrules.Caps) { c.Reserved = []vlanrules.VIDRange{{First: 2560, Last: 2560}} }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"VID limits spare only reserved locators", with(exact, func(c *vlanrules.Caps) { c.VIDMin, c.VIDMax = 1, 4094 }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5), update(quantize.MaxPD, 3, 5)}, vlanrules.Degraded, "abw: a tag with S=31 and the reserved locator 127 has VID 4095, which entries cannot match (VIDs 1-4094)"},
		{"no tag starts at the ends", with(exact, func(c *vlanrules.Caps) { c.VIDMin, c.VIDMax = 1, 4094 }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithInitial(abw, 30), vlanrules.WithInitial(quantize.MaxPD, 1)},
			[]vlanrules.Intent{update(abw, 3, 5), update(quantize.MaxPD, 3, 5)}, vlanrules.Full, ""},
		{"exact entries shared by all ports", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 64 }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "needs 3,968 exact entries for abw, 4,096 in the table are shared by 64 ports, 64 for each"},
		{"coarser buckets are costed", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 4 }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "it would fit with at most 33 locators in use, none and stale among them; 8 coarser buckets would need 896 entries for each signal"},
		{"locators in use make it fit", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 16 }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithLocators(abw, []uint16{5, 6, 7})}, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"33 locators do fit", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 4 }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithLocators(abw, locatorsTo(31))}, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"34 do not", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 4 }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithLocators(abw, locatorsTo(32))}, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "needs 1,054 exact entries"},
		{"8 buckets do fit", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 4 }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithBuckets(abw, 0x88888888)}, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"16 buckets and 4 locators do fit", with(exact, func(c *vlanrules.Caps) { c.Entries, c.Shared, c.Ports = 4096, true, 64 }), quantize.Draft00,
			[]vlanrules.Option{vlanrules.WithBuckets(abw, 0xaaaaaaaa), vlanrules.WithLocators(abw, []uint16{5, 6})}, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"two signals share the capacity", with(exact, func(c *vlanrules.Caps) { c.Entries = 4096 }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5), update(abwc, 3, 5)}, vlanrules.Refused, "needs 7,936 exact entries for abw+abwc, 4,096 in the table"},
		{"two tag positions", with(ternary, func(c *vlanrules.Caps) { c.Entries, c.Positions = 10, 2 }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "needs 6 entries in the smallest ternary table for abw (3 of them during changes), 10 in the table are shared by 2 tag positions, 5 for each"},
		{"patterns without priorities that never change", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry}, quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "the device needs a transaction, entries that change in place or shared values"},
		{"patterns without priorities in a transaction", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnBatch}, quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"exact entries that never change", with(exact, func(c *vlanrules.Caps) { c.Modify = false }), quantize.Draft00, nil,
			[]vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused, "the device needs a transaction, entries that change in place or shared values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var res vlanrules.Result
			have := vlanrules.Table{{ID: 77, Match: vlanrules.Match{PCP: vlanrules.Field{Kind: vlanrules.Ternary, Value: 6, Mask: 7}}, Type: vlanrules.NoOp}}
			vlanrules.NewCompiler(tc.caps, tc.layout, tc.opts...).Compile(&res, have, tc.want)
			if res.Verdict.Level != tc.level || !strings.Contains(res.Verdict.Reason, tc.reason) {
				t.Fatalf("%s: %s\nwant %s: …%s…", res.Verdict.Level, res.Verdict.Reason, tc.level, tc.reason)
			}
			if (res.Verdict.Level == vlanrules.Full) != (res.Verdict.Reason == "") {
				t.Errorf("level %s with reason %q", res.Verdict.Level, res.Verdict.Reason)
			}
			if tc.level == vlanrules.Refused && (len(res.Ops) > 0 || len(res.Table) != 1 || res.Table[0] != have[0]) {
				t.Errorf("refused, but operations %v and table %v", res.Ops, res.Table)
			}
		})
	}
}

// TestJudgeNamesThePort reads the verdicts on a port with a name.
func TestJudgeNamesThePort(t *testing.T) {
	exact := vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Modify: true, Entries: 4096, Shared: true, Ports: 64}
	ranges := vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true}
	abw := quantize.MinABW
	for _, tc := range []struct {
		name   string
		caps   vlanrules.Caps
		layout quantize.Layout
		want   []vlanrules.Intent
		level  vlanrules.Level
		reason string
	}{
		{"full", ranges, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"too many entries", exact, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused,
			"needs 3,968 exact entries for abw, 4,096 in the table are shared by 64 ports, 64 for each; it would fit with 16 coarser buckets and at most 4 locators in use, none and stale among them"},
		{"an entry for each port", vlanrules.Caps{MatchPCP: true, Entries: 64, Shared: true, Ports: 64}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"a port too many", vlanrules.Caps{MatchPCP: true, Entries: 64, Shared: true, Ports: 65}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused,
			"needs 1 range entry for abw, 64 in the table are shared by 65 ports, 0 for each"},
		{"others beside", vlanrules.Caps{MatchPCP: true, Entries: 96, Taken: 32, Shared: true, Ports: 64}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Full, ""},
		{"one of others too many", vlanrules.Caps{MatchPCP: true, Entries: 1096, Taken: 1033, Shared: true, Ports: 64}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused,
			"needs 1 range entry for abw, 63 in the table (of its 1,096, others hold 1,033) are shared by 64 ports, 0 for each"},
		{"others have it all", vlanrules.Caps{MatchPCP: true, Entries: 64, Taken: 65}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused,
			"needs 1 range entry for abw, 0 in the table (of its 64, others hold 65)"},
		{"twice the ports", vlanrules.Caps{MatchPCP: true, Entries: 64, Shared: true, Ports: 128}, quantize.Draft00, []vlanrules.Intent{update(abw, 31, 5)}, vlanrules.Refused, "128 ports, 0 for each"},
		{"a position too many", vlanrules.Caps{MatchPCP: true, Entries: 1, Positions: 2}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused,
			"1 in the table are shared by 2 tag positions, 0 for each"},
		{"no capacity, and no entries needed", vlanrules.Caps{MatchPCP: true, Entries: 64, Shared: true, Ports: 65}, quantize.Draft00, []vlanrules.Intent{{Signal: abw}}, vlanrules.Full, ""},
		{"no capacity for an exact table", vlanrules.Caps{Match: vlanrules.MatchExact, MatchPCP: true, Modify: true, Entries: 64, Shared: true, Ports: 128}, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Refused,
			"needs 3,968 exact entries for abw, 64 in the table are shared by 128 ports, 0 for each"},
		{"two signals", exact, quantize.Draft00, []vlanrules.Intent{update(abw, 3, 5), update(quantize.MaxPD, 3, 5)}, vlanrules.Refused, "for abw+pd, 4,096"},
		{"one intent", ranges, quantize.Draft00, []vlanrules.Intent{update(abw, 0, 0)}, vlanrules.Refused, "abw: bucket 0 with locator 0 is VID 0"},
		{"degraded", ranges, quantize.UEC, []vlanrules.Intent{update(abw, 3, 5)}, vlanrules.Degraded, "a VID range cannot test D"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := vlanrules.NewCompiler(tc.caps, tc.layout)
			for range 2 { // the second verdict is the one kept
				v, choice := c.Judge(tc.want)
				if v.Level != tc.level || !strings.Contains(v.Reason, tc.reason) || (v.Reason == "") != (tc.level == vlanrules.Full) {
					t.Errorf("%s: %s\nwant %s: %s", v.Level, v.Reason, tc.level, tc.reason)
				}
				if (choice == nil) != (tc.level == vlanrules.Refused || tc.want[0].Action != vlanrules.Update) {
					t.Errorf("%s, choice %v", v.Level, choice)
				}
				var res vlanrules.Result
				if c.Compile(&res, nil, tc.want); res.Verdict.Level != tc.level {
					t.Errorf("Compile: %s: %s", res.Verdict.Level, res.Verdict.Reason)
				}
			}
		})
	}
}

// TestStrange observes tables that look almost like ours.
func TestStrange(t *testing.T) {
	t0 := vlanrules.Field{Kind: vlanrules.Ternary, Value: 0, Mask: 7}
	s := func(value, mask uint16) vlanrules.Field {
		return vlanrules.Field{Kind: vlanrules.Ternary, Value: value << 7, Mask: mask << 7}
	}
	noop := func(prio uint16, vid vlanrules.Field) vlanrules.Entry {
		return vlanrules.Entry{Priority: prio, Match: vlanrules.Match{PCP: t0, VID: vid}, Type: vlanrules.NoOp}
	}
	rewrite := func(prio, vid uint16, f vlanrules.Field) vlanrules.Entry {
		return vlanrules.Entry{Priority: prio, Match: vlanrules.Match{PCP: t0, VID: f}, VID: vid}
	}
	all := vlanrules.Field{}
	for _, tc := range []struct {
		name string
		have vlanrules.Table
		ops  int
	}{
		{"ours", vlanrules.Table{noop(60, s(0, 31)), rewrite(10, 5, all)}, 0},
		{"ours with a mask of nothing", vlanrules.Table{noop(60, s(0, 31)), rewrite(10, 5, s(0, 0))}, 0},
		{"a wildcard for R written out", vlanrules.Table{noop(60, s(0, 31)), {Priority: 10, Match: vlanrules.Match{PCP: t0, DEI: vlanrules.Field{Kind: vlanrules.Ternary}}, VID: 5}}, 0},
		{"the no-op under the catch-all", vlanrules.Table{rewrite(10, 5, all), noop(5, s(0, 31))}, 2},
		{"two catch-alls", vlanrules.Table{noop(60, s(0, 31)), rewrite(12, 5, all), rewrite(10, 9, all)}, 1},
		{"a no-op too many", vlanrules.Table{noop(60, s(0, 31)), noop(60, s(9, 31)), rewrite(10, 5, all)}, 1},
		{"the catch-all above", vlanrules.Table{rewrite(90, 5, all), noop(60, s(0, 31))}, 2},
		{"a no-op for everything", vlanrules.Table{noop(60, s(0, 31)), noop(15, all), rewrite(10, 5, all)}, 1},
		{"only R=1", vlanrules.Table{noop(60, s(0, 31)), {Priority: 10, Match: vlanrules.Match{PCP: t0, DEI: vlanrules.Field{Kind: vlanrules.Ternary, Value: 1, Mask: 1}}, VID: 5}}, 2},
		{"only some locators", vlanrules.Table{noop(60, s(0, 31)), rewrite(10, 5, vlanrules.Field{Kind: vlanrules.Ternary, Mask: 64})}, 2},
		{"a match that takes nothing", vlanrules.Table{noop(60, s(0, 31)), rewrite(10, 5, all), rewrite(10, 6, vlanrules.Field{Kind: vlanrules.Ternary, Value: 1})}, 1},
		{"a catch-all that takes nothing", vlanrules.Table{noop(60, s(0, 31)), rewrite(10, 5, s(31, 0))}, 2},
		{"a catch-all that takes nothing, with the wrong value", vlanrules.Table{rewrite(10, 9, s(31, 0))}, 3},
		{"all signals", vlanrules.Table{noop(60, s(0, 31)), {Priority: 10, VID: 5}}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caps := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
			want := []vlanrules.Intent{update(quantize.MinABW, 0, 5)}
			var res vlanrules.Result
			vlanrules.NewCompiler(caps, quantize.Draft00).Compile(&res, tc.have, want)
			check(t, &matcher{}, caps, quantize.Draft00, tc.have, want, &res)
			if len(res.Ops) != tc.ops {
				t.Errorf("%d operations, want %d\n%s", len(res.Ops), tc.ops, describe(tc.have, &res))
			}
		})
	}
}

// TestCrowdedBand observes tables in which one match fills its band of ten
// priorities, or more, at every bucket: what is wanted has to find a place
// among them, or make one, without leaving the band.
func TestCrowdedBand(t *testing.T) {
	t0 := vlanrules.Field{Kind: vlanrules.Ternary, Value: 0, Mask: 7}
	r1 := vlanrules.Field{Kind: vlanrules.Ternary, Value: 1, Mask: 1}
	for _, crowd := range []struct {
		name  string
		first uint16
		vid   vlanrules.Field
	}{
		{"catch-all", 10, vlanrules.Field{}},
		{"one bit of S", 20, vlanrules.Field{Kind: vlanrules.Ternary, Value: 16 << 7, Mask: 16 << 7}},
		{"one bucket", 60, vlanrules.Field{Kind: vlanrules.Ternary, Value: 7 << 7, Mask: 31 << 7}},
	} {
		for _, n := range []uint16{1, 9, 10, 11, 12, 25} {
			for _, kind := range []vlanrules.ActionType{vlanrules.RewriteVID, vlanrules.NoOp} {
				t.Run(fmt.Sprintf("%d of a %s, %s", n, crowd.name, kind), func(t *testing.T) {
					var have vlanrules.Table
					for i := range n {
						e := vlanrules.Entry{ID: uint32(i) + 1, Priority: crowd.first + n - 1 - i, Match: vlanrules.Match{PCP: t0, VID: crowd.vid}, Type: kind}
						if kind == vlanrules.RewriteVID {
							e.VID = 300 + i
						}
						have = append(have, e)
					}
					// What no table of ours has, so that all is replaced.
					have = append(have, vlanrules.Entry{ID: 999, Priority: 5, Match: vlanrules.Match{PCP: t0, DEI: r1}, Type: vlanrules.NoOp})
					m := new(matcher)
					for s := range uint8(32) {
						if chosen(int(n)+int(kind), int(s)) {
							crowded(t, m, have, s, 3)
							crowded(t, m, have, s, 7)
						}
					}
				})
			}
		}
	}
}

func crowded(t *testing.T, m *matcher, have vlanrules.Table, s uint8, budget int) {
	t.Helper()
	for _, modify := range []bool{false, true} {
		for _, txn := range []vlanrules.Txn{vlanrules.TxnEntry, vlanrules.TxnTable} {
			caps := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: txn, Modify: modify}
			want := []vlanrules.Intent{update(quantize.MinABW, s, 5)}
			var res vlanrules.Result
			vlanrules.NewCompiler(caps, quantize.Draft00, vlanrules.WithBudget(budget)).Compile(&res, have, want)
			check(t, m, caps, quantize.Draft00, have, want, &res)
			if res.Verdict.Level != vlanrules.Full || res.Gap {
				t.Errorf("bucket %d: %s: %s", s, res.Verdict.Level, res.Verdict.Reason)
			}
		}
	}
}

// TestNames prints values that have a name and values that have none.
func TestNames(t *testing.T) {
	for want, is := range map[string]fmt.Stringer{
		"strip": vlanrules.Strip, "Action(3)": vlanrules.Action(3),
		"refused": vlanrules.Refused, "Level(9)": vlanrules.Level(9),
		"delete": vlanrules.Delete, "OpKind(255)": vlanrules.OpKind(255),
		"value": vlanrules.Value, "ActionType(4)": vlanrules.ActionType(4),
		"entry": vlanrules.TxnEntry, "Txn(3)": vlanrules.Txn(3),
		"exact": vlanrules.MatchExact, "MatchKind(4)": vlanrules.MatchKind(4),
		"shared-exact": vlanrules.FormSharedExact, "shared-range": vlanrules.FormSharedRange, "Form(8)": vlanrules.Form(8),
	} {
		if is.String() != want {
			t.Errorf("%s, want %s", is, want)
		}
	}
}
