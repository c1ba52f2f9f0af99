package qualify

import (
	"context"
	"slices"
)

// repeats is how often a frame is sent again before what became of it counts as the
// switch's doing. A control goes with so many of them.
const (
	repeats      = 3
	controlEvery = 8
)

// chance is what happens to frames without a pattern: the code of its fault, and its words.
var chance = []struct{ kind, code, text string }{
	{"lost", "random-loss", "frames are lost at random"},
	{"altered", "random-alteration", "frames are altered at random"},
	{"duplicated", "random-duplicates", "frames arrive more than once at random"},
	{"late", "late", "frames arrive late"},
}

// isChance reports whether a fault says nothing of the tag.
func isChance(f Fault) bool {
	for _, c := range chance {
		if c.code == f.Code {
			return true
		}
	}
	return false
}

// Repeated is Exchange for frames that are to arrive once and untouched: those that do not
// are sent again a few times, with controls beside them. What does not happen again is a
// fault of its own, and no property of the frame.
func (t *Trial) Repeated(ctx context.Context, from int, frames []Frame) ([]Seen, error) {
	l := t.Listen()
	defer l.Close()
	seen, err := t.Exchange(ctx, from, frames)
	if err != nil {
		return nil, err
	}
	type copied struct {
		of    int // in seen
		bytes []byte
	}
	sent := map[uint64]copied{}  // those that were lost, by their numbers
	controls := map[string]int{} // by what became of them
	defer func() {
		if controls[""] > 0 { // else it is what always happens to them
			delete(controls, "")
			for kind, n := range controls {
				t.happened(kind, n)
			}
		}
	}()
	for range repeats {
		var again []Frame
		var index []int // in seen; -1: a control
		for i := range seen {
			if seen[i].Fate() == "" {
				continue
			}
			if len(index)%controlEvery == 0 {
				again, index = append(again, Frame{To: seen[i].To}), append(index, -1)
			}
			again, index = append(again, frames[i]), append(index, i)
		}
		if len(again) == 0 {
			return seen, nil
		}
		round, err := t.Exchange(ctx, from, again)
		if err != nil {
			return nil, err
		}
		for k, i := range index {
			now := round[k].Fate()
			switch {
			case i < 0 && now == "":
				controls[""]++
			case i < 0:
				controls[kindOf(now)]++
			default:
				before := seen[i].Fate()
				if before == lost {
					sent[seen[i].Seq] = copied{i, seen[i].Sent}
				}
				if now == lost {
					sent[round[k].Seq] = copied{i, round[k].Sent}
				}
				if now == "" || before == lost && now != lost {
					if before == lost {
						t.returned++
					}
					t.happened(kindOf(before), 1)
					seen[i] = round[k]
				}
			}
		}
	}
	for _, a := range l.Take() {
		late, ok := sent[a.Seq]
		if i := late.of; ok && a.Port == seen[i].To && seen[i].Fate() == lost {
			t.happened("late", 1)
			seen[i].Where, seen[i].Sent = []Arrival{a}, late.bytes
		}
	}
	return seen, nil
}

// happened counts what does not happen again.
func (t *Trial) happened(kind string, n int) {
	if t.chances == nil {
		t.chances = map[string]int{}
	}
	t.chances[kind] += n
}

// byChance makes faults of what did not happen again.
func (t *Trial) byChance() {
	for _, c := range chance {
		if n := t.chances[c.kind]; n > 0 {
			t.Fault(c.code, "%s: %d of %d, with the tag or without", c.text, n, t.Frames.Sent)
		}
	}
}

// lasting is a result without what happened by chance.
func (r *Result) lasting() *Result {
	out := *r
	out.Faults = slices.DeleteFunc(slices.Clone(r.Faults), isChance)
	return &out
}
