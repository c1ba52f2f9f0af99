package cover

import "slices"

// Step is one operation on a list of rules.
type Step struct {
	Kind StepKind
	Rule Rule // the new one; with Drop the old one
}

// StepKind is what a Step does.
type StepKind uint8

// The kinds of step.
const (
	Drop   StepKind = iota // delete a rule of the old list
	Insert                 // add a rule of the new list
	Change                 // give the rule of this cube its new action and value
)

// Sequence finds the shortest order of steps that turns the table for local
// bucket s into the one for t (min signals; both from Ordered),
// such that after each of them every value has its old or its new result. The
// rule that tests more bits wins. It returns nil, false where rules that
// change in place cannot be ordered safely.
func Sequence(from, to []Rule, s, t int) ([]Step, bool) {
	var steps []Step
	var kept []Rule
	for _, o := range from {
		i := find(to, o.Cube)
		switch {
		case i < 0:
			steps = append(steps, Step{Drop, o})
		case o.Rewrite || to[i].Rewrite:
			steps = append(steps, Step{Change, to[i]})
		default:
			kept = append(kept, o)
		}
	}
	for _, n := range to {
		if find(from, n.Cube) < 0 {
			steps = append(steps, Step{Insert, n})
		}
	}
	// reached[done] is whether the set of steps done can be reached safely;
	// a set is safe whatever the order that led to it.
	full := 1<<len(steps) - 1
	last := make([]int, full+1)
	reached := make([]bool, full+1)
	reached[0] = true
	for done := 1; done <= full; done++ {
		for i := range steps {
			if done>>i&1 == 1 && reached[done&^(1<<i)] {
				reached[done], last[done] = safe(from, kept, steps, done, s, t), i
				break
			}
		}
	}
	if !reached[full] {
		return nil, false
	}
	order := make([]Step, len(steps))
	for i, done := len(steps)-1, full; i >= 0; i-- {
		order[i] = steps[last[done]]
		done &^= 1 << last[done]
	}
	return order, true
}

func find(list []Rule, c Cube) int {
	return slices.IndexFunc(list, func(r Rule) bool { return r.Cube == c })
}

// safe reports whether, with these steps done, each value gives s where the
// old table did or t where the new one does, or is left alone where either
// does that.
func safe(from, kept []Rule, steps []Step, done, s, t int) bool {
	for v := range 1 << Bits {
		const alone = -1
		was, will, is, strength, tie := alone, alone, alone, -1, false
		if v > s {
			was = s
		}
		if v > t {
			will = t
		}
		take := func(r Rule, value int) {
			if !r.Rewrite {
				value = alone
			}
			switch {
			case r.Set()>>v&1 == 0 || r.Len() < strength:
			case r.Len() > strength:
				strength, is, tie = r.Len(), value, false
			case value != is:
				tie = true
			}
		}
		for _, r := range kept {
			take(r, alone)
		}
		for i, st := range steps {
			switch doneYet := done>>i&1 == 1; {
			case doneYet && st.Kind != Drop:
				take(st.Rule, t)
			case !doneYet && st.Kind == Drop:
				take(st.Rule, s)
			case !doneYet && st.Kind == Change:
				take(from[find(from, st.Rule.Cube)], s)
			}
		}
		if tie || is != was && is != will {
			return false
		}
	}
	return true
}
