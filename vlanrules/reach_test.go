package vlanrules_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestEveryReachableTable starts from an empty table, goes to every bucket,
// from each table found there to every bucket again, and so on until no new
// table turns up: these are all tables that csig itself can ever produce for
// one signal. It counts the operations of every change between them, and
// holds each state on the way against the old and the new result of every S.
func TestEveryReachableTable(t *testing.T) {
	abw, pd := quantize.MinABW, quantize.MaxPD
	for _, tc := range []struct {
		name string
		caps vlanrules.Caps
		opts []vlanrules.Option
		sig  quantize.Signal
		ops  int // at most, for any change
		step int // at most, for a step of one bucket
	}{
		{"range, one write", vlanrules.Caps{Match: vlanrules.MatchRange, ModifyEntry: true}, nil, abw, 1, 1},
		{"range, match and value apart", vlanrules.Caps{Match: vlanrules.MatchRange, Modify: true, ModifyMatch: true}, nil, pd, 2, 2},
		{"range, add and delete only", vlanrules.Caps{Match: vlanrules.MatchRange}, nil, abw, 2, 2},
		{"ternary, budget 3", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true}, []vlanrules.Option{vlanrules.WithBudget(3)}, pd, 6, 6},
		{"ternary, budget 6", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true}, []vlanrules.Option{vlanrules.WithBudget(6)}, pd, 11, 11},
		{"ternary, budget 7", vlanrules.Caps{Match: vlanrules.MatchTernary, Modify: true}, nil, abw, 11, 11},
		{"ternary, add and delete only", vlanrules.Caps{Match: vlanrules.MatchTernary}, nil, pd, 12, 11},
		{"ternary, shared value", vlanrules.Caps{Match: vlanrules.MatchTernary, Values: true}, nil, abw, 11, 10},
		{"unordered", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Modify: true}, nil, pd, 9, 5},
		{"unordered, shared value", vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, Values: true}, nil, pd, 11, 10},
	} {
		if thinned > 1 && slices.Contains([]string{"ternary, budget 6", "ternary, budget 7", "ternary, shared value", "unordered, shared value"}, tc.name) {
			continue // they have thousands of tables: TestLongEveryCase
		}
		t.Run(tc.name+", "+tc.sig.String(), func(t *testing.T) {
			t.Parallel()
			tc.caps.MatchPCP, tc.caps.Txn = true, vlanrules.TxnEntry
			ops, step, tables := reach(t, tc.caps, tc.opts, tc.sig)
			if ops != tc.ops || step != tc.step {
				t.Errorf("%d operations at most, %d for a step of one bucket: want %d and %d", ops, step, tc.ops, tc.step)
			}
			t.Logf("%d tables, %d operations at most, %d for a step of one bucket", tables, ops, step)
		})
	}
}

// reached is a table with the bucket it stands for, -1 for none.
type reached struct {
	table  vlanrules.Table
	bucket int
}

func reach(t *testing.T, caps vlanrules.Caps, opts []vlanrules.Option, sig quantize.Signal) (most, mostStep, tables int) {
	c := vlanrules.NewCompiler(caps, quantize.Draft00, opts...)
	seen := map[string]bool{}
	queue := []reached{{bucket: -1}}
	var res vlanrules.Result
	var key []byte
	for len(queue) > 0 {
		from := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for to := range 32 {
			c.Compile(&res, from.table, []vlanrules.Intent{update(sig, uint8(to), 5)})
			if most = max(most, len(res.Ops)); from.bucket == to+1 || from.bucket == to-1 {
				mostStep = max(mostStep, len(res.Ops))
			}
			if !chosen(len(seen), to) {
				// looked at for its length alone
			} else if why := everyS(sig, from, to, &res); why != "" {
				t.Fatalf("%d→%d: %s\n%s", from.bucket, to, why, describe(from.table, &res))
			}
			// The same rows in another order may be changed in another order.
			key = append(key[:0], byte(to))
			for i := range res.Table {
				e := &res.Table[i]
				for _, n := range [...]uint16{uint16(e.Type), uint16(e.Match.VID.Kind), e.Match.VID.Value, e.Match.VID.Mask, e.Match.VID.First, e.Match.VID.Last, e.Priority, e.VID} {
					key = binary.LittleEndian.AppendUint16(key, n)
				}
			}
			if !seen[string(key)] {
				seen[string(key)] = true
				queue = append(queue, reached{slices.Clone(res.Table), to})
			}
		}
	}
	return most, mostStep, len(seen)
}

// everyS runs the operations and returns which S leaves, after which of them,
// neither as the bucket from.bucket would have it nor as to would.
//
//go:norace
func everyS(sig quantize.Signal, from reached, to int, res *vlanrules.Result) string {
	table := append(make(vlanrules.Table, 0, 32), from.table...)
	for n := 0; n <= len(res.Ops); n++ {
		if n > 0 {
			op := res.Ops[n-1]
			at := slices.IndexFunc(table, func(e vlanrules.Entry) bool { return e.ID == op.Entry.ID })
			switch {
			case op.Kind == vlanrules.Add && at < 0:
				table = append(table, op.Entry)
			case op.Kind == vlanrules.Add || at < 0:
				return fmt.Sprintf("%s of %d, which is at %d", op.Kind, op.Entry.ID, at)
			case op.Kind == vlanrules.Modify:
				table[at] = op.Entry
			default:
				table = slices.Delete(table, at, at+1)
			}
		}
		for s := range 32 {
			old, wanted := sAfter(sig, s, from.bucket), sAfter(sig, s, to)
			if n == len(res.Ops) {
				old = wanted
			}
			matched, best := false, -1
			for pass := range 2 { // the highest priority that matches, then all entries that have it
				for i := range table {
					e := &table[i]
					f, vid := &e.Match.VID, uint16(s)<<7|9
					if e.Type == vlanrules.Value || f.Kind == vlanrules.Ternary && vid&f.Mask != f.Value || f.Kind == vlanrules.Range && (vid < f.First || vid > f.Last) {
						continue
					}
					if pass == 0 {
						matched, best = true, max(best, int(e.Priority))
						continue
					}
					if int(e.Priority) < best {
						continue
					}
					out := s
					switch e.Type {
					case vlanrules.RewriteVID:
						out = int(e.VID >> 7)
					case vlanrules.UseValue:
						for j := range table {
							if table[j].ID == e.Ref {
								out = int(table[j].VID >> 7)
							}
						}
					}
					if out != old && out != wanted {
						return fmt.Sprintf("after operation %d S=%d may leave as %d", n, s, out)
					}
				}
			}
			if !matched && s != old && s != wanted {
				return fmt.Sprintf("after operation %d S=%d passes unchanged", n, s)
			}
		}
	}
	return ""
}

// sAfter is what the draft makes of S at a bucket, -1 for no bucket at all.
//
//go:norace
func sAfter(sig quantize.Signal, s, bucket int) int {
	switch {
	case bucket < 0:
		return s
	case sig == quantize.MaxPD:
		return max(s, bucket)
	}
	return min(s, bucket)
}
