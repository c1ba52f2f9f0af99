package cover

import (
	"reflect"
	"testing"
)

func TestOrderedIsWhatTheSearchFinds(t *testing.T) {
	if got := Search(); !reflect.DeepEqual(got, normal(Ordered)) {
		t.Fatalf("ordered.go is out of date, run go generate: the search finds\n%v", got)
	}
}

// normal gives the empty list the search's form.
func normal(lists [1 << Bits][]Rule) [1 << Bits][]Rule {
	for s := range lists {
		if len(lists[s]) == 0 {
			lists[s] = nil
		}
	}
	return lists
}

// naive is the test's own reading of a list: the first rule that fits wins.
func naive(list []Rule, v uint8) bool {
	for _, r := range list {
		if v&r.Mask == r.Value {
			return r.Rewrite
		}
	}
	return false
}

func TestOrderedRewritesWhatIsAbove(t *testing.T) {
	sum := 0
	for s, list := range Ordered {
		sum += len(list)
		if len(list) > 3 {
			t.Errorf("s=%d: %d rules, at most 3 are needed", s, len(list))
		}
		for v := range uint8(32) {
			if got := naive(list, v); got != (int(v) > s) {
				t.Errorf("s=%d v=%d: rewritten %t", s, v, got)
			}
		}
		if got := Rewritten(list); got != All&^UpTo(s) {
			t.Errorf("s=%d: Rewritten is %032b", s, got)
		}
		for i := range list {
			for j := range i {
				if Clash(list[j], list[i]) || list[j].Len() < list[i].Len() {
					t.Errorf("s=%d: rules %d and %d: the number of bits cannot be the priority", s, j, i)
				}
			}
		}
	}
	if sum != 67 {
		t.Errorf("%d rules over all buckets, the best known is 67 (mean 2.09)", sum)
	}
}

// TestShorterListsDoNotExist checks the lengths without the search's own
// pruning: every list of one or two rules, in any order.
func TestShorterListsDoNotExist(t *testing.T) {
	var rules []Rule
	for mask := range uint8(32) {
		for v := range uint8(32) {
			if v&^mask == 0 {
				rules = append(rules, Rule{Cube{v, mask}, false}, Rule{Cube{v, mask}, true})
			}
		}
	}
	shortest := map[uint32]int{0: 0}
	for _, a := range rules {
		if f := Rewritten([]Rule{a}); f != 0 {
			shortest[f] = 1
		}
	}
	for _, a := range rules {
		for _, b := range rules {
			f := Rewritten([]Rule{a, b})
			if _, seen := shortest[f]; !seen {
				shortest[f] = 2
			}
		}
	}
	for s, list := range Ordered {
		if n, seen := shortest[All&^UpTo(s)]; seen && n < len(list) || !seen && len(list) < 3 {
			t.Errorf("s=%d: list of %d, shortest %d", s, len(list), n)
		}
	}
}

func TestSequenceKeepsOldOrNew(t *testing.T) {
	for s := range 32 {
		for to := range 32 {
			steps, ok := Sequence(Ordered[s], Ordered[to], s, to)
			if !ok {
				t.Errorf("%d→%d: no safe order", s, to)
			}
			if len(steps) > 6 {
				t.Errorf("%d→%d: %d steps", s, to, len(steps))
			}
			type entry struct {
				Rule
				value int
			}
			var table []entry
			for _, r := range Ordered[s] {
				table = append(table, entry{r, s})
			}
			check := func(after int) {
				for v := range uint8(32) {
					result, bits := int(v), -1
					for _, e := range table {
						if v&e.Mask == e.Value && e.Len() > bits {
							bits = e.Len()
							if result = int(v); e.Rewrite {
								result = e.value
							}
						}
					}
					if result != min(int(v), s) && result != min(int(v), to) {
						t.Fatalf("%d→%d after step %d: S=%d leaves as %d", s, to, after, v, result)
					}
				}
			}
			check(0)
			for i, st := range steps {
				at := -1
				for j := range table {
					if table[j].Cube == st.Rule.Cube {
						at = j
					}
				}
				switch st.Kind {
				case Insert:
					if at >= 0 {
						t.Fatalf("%d→%d step %d adds what is there", s, to, i)
					}
					table = append(table, entry{st.Rule, to})
				case Change:
					table[at] = entry{st.Rule, to}
				case Drop:
					table = append(table[:at:at], table[at+1:]...)
				}
				check(i + 1)
			}
			if len(table) != len(Ordered[to]) {
				t.Fatalf("%d→%d ends with %d rules", s, to, len(table))
			}
		}
	}
}

func TestLargest(t *testing.T) {
	for _, tc := range []struct {
		name   string
		set    uint32
		v      int
		lo, hi int
	}{
		{"all", All, 9, 0, 31},
		{"end of a run of eight", UpTo(7), 7, 0, 7},
		{"single", UpTo(8), 8, 8, 8},
		{"half of it", UpTo(13), 13, 12, 13},
		{"with a hole", UpTo(7) &^ 1, 7, 4, 7},
	} {
		got := Largest(tc.set, tc.v).Set()
		if want := UpTo(tc.hi) &^ UpTo(tc.lo-1); got != want {
			t.Errorf("%s: %032b, want %032b", tc.name, got, want)
		}
	}
}
