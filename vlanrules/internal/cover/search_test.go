package cover

import (
	"cmp"
	"slices"
)

// search finds, for every local bucket s, a shortest list of rules that
// rewrites exactly the values above s, under the condition that a rule that
// tests more bits comes first, so that the number of bits can be the
// priority. Among the shortest lists it takes those between which a step of
// one bucket, up or down, needs the fewest operations in all.
func search() [1 << Bits][]Rule {
	var all [1 << Bits][][]Rule
	for s := range all {
		for n := 0; len(all[s]) == 0; n++ {
			all[s] = lists(All&^UpTo(s), n)
		}
	}
	return cheapest(all)
}

// lists is all lists of n rules that rewrite exactly want.
func lists(want uint32, n int) [][]Rule {
	var found [][]Rule
	var extend func(list []Rule, decided uint32, left int)
	extend = func(list []Rule, decided uint32, left int) {
		switch {
		case want&^decided == 0 && left == 0:
			found = append(found, slices.Clone(list))
			return
		case want&^decided == 0 || left == 0:
			return
		}
		for _, c := range cubesByLen {
			if len(list) > 0 && order(list[len(list)-1].Cube, c) >= 0 || c.Set()&^decided == 0 {
				continue
			}
			for _, rewrite := range [...]bool{false, true} {
				r := Rule{c, rewrite}
				wrong := want
				if rewrite {
					wrong = ^want
				}
				if c.Set()&^decided&wrong != 0 || left == 1 && c.Set()&(want&^decided) != want&^decided ||
					slices.ContainsFunc(list, func(p Rule) bool { return clash(p, r) }) {
					continue
				}
				extend(append(list[:len(list):len(list)], r), decided|c.Set(), left-1)
			}
		}
	}
	extend(nil, 0, n)
	return found
}

// cubesByLen is all cubes in the order in which lists have them.
var cubesByLen = func() (all []Cube) {
	for mask := range uint8(1 << Bits) {
		for v := range uint8(1 << Bits) {
			if v&^mask == 0 {
				all = append(all, Cube{v, mask})
			}
		}
	}
	slices.SortFunc(all, order)
	return all
}()

// order puts cubes that test more bits first.
func order(a, b Cube) int {
	return cmp.Or(cmp.Compare(b.Len(), a.Len()), cmp.Compare(a.Mask, b.Mask), cmp.Compare(a.Value, b.Value))
}

// cheapest chooses one list for each bucket, so that the operations between
// neighbours, both ways, are fewest in all: a shortest path through the
// choices, bucket by bucket.
func cheapest(all [1 << Bits][][]Rule) (best [1 << Bits][]Rule) {
	var cost, from [1 << Bits][]int
	for s := range all {
		cost[s], from[s] = make([]int, len(all[s])), make([]int, len(all[s]))
		if s == 0 {
			continue
		}
		for j, list := range all[s] {
			cost[s][j] = 1 << 30
			for i, prev := range all[s-1] {
				c := cost[s-1][i] + distance(prev, list, s-1, s) + distance(list, prev, s, s-1)
				if c < cost[s][j] {
					cost[s][j], from[s][j] = c, i
				}
			}
		}
	}
	last := len(all) - 1
	pick := slices.Index(cost[last], slices.Min(cost[last]))
	for s := last; s >= 0; s-- {
		best[s] = all[s][pick]
		pick = from[s][pick]
	}
	return best
}

func distance(from, to []Rule, s, t int) int {
	steps, ok := Sequence(from, to, s, t)
	if !ok {
		return 100
	}
	return len(steps)
}

// clash reports whether two rules of a table would contradict each other at
// the same priority.
func clash(a, b Rule) bool {
	return a.Rewrite != b.Rewrite && a.Len() == b.Len() && a.Set()&b.Set() != 0
}
