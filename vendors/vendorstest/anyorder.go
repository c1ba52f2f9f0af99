// Package vendorstest has the test that every driver runs, its setups in any order, and what
// other tests of drivers share.
package vendorstest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// Row is one setup, and what frames look like on a device that has it.
type Row struct {
	Name  string
	Setup vendors.Setup // one with nothing of ours stands for Remove
	Want  string        // what Lab.Frames returns
}

// Lab is a device, real or as strict as one, with its driver.
type Lab struct {
	Driver vendors.Driver

	// State is all that the device has of ours, as text.
	State func(t testing.TB) string

	// Writes is how often the driver wrote to the device so far; nil: not counted.
	Writes func(t testing.TB) int

	// Frames gives the ports that update a signal, sends frames and says what
	// became of them.
	Frames func(t testing.TB, s vendors.Setup) string
}

// AnyOrder brings a fresh device to each row, and then one device from every row to
// every row, itself included, in random order: what was there before must not show.
// Apply changes nothing where Diff has found nothing to do, and leaves nothing to do.
// It takes so many of those ways, and all of them in a test named TestLong….
func AnyOrder(t *testing.T, rows []Row, steps int, fresh func(t *testing.T) Lab) {
	anyOrder(t, rows, steps, fresh, func(t *testing.T, test func(*testing.T)) { test(t) })
}

// AnyOrderInMemory is AnyOrder with devices in memory, in bubbles of testing/synctest.
func AnyOrderInMemory(t *testing.T, rows []Row, steps int, fresh func(t *testing.T) Lab) {
	anyOrder(t, rows, steps, fresh, synctest.Test)
}

func anyOrder(t *testing.T, rows []Row, steps int, fresh func(t *testing.T) Lab, in func(*testing.T, func(*testing.T))) {
	want := make([]string, len(rows))
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { in(t, test) })
	}
	for i := range rows {
		run(rows[i].Name, func(t *testing.T) {
			lab := fresh(t)
			want[i] = step(t, lab, lab.State(t), &rows[i])
		})
	}
	if t.Failed() {
		return
	}
	seed := uint64(time.Now().UnixNano()) // a bubble's clock begins at the same time always
	run("in any order", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		order, ways := rng.Perm(len(rows)), everyPair(len(rows))
		if !Long(t) && steps < len(ways) {
			from := rng.IntN(len(ways) - steps)
			ways = ways[from : from+steps]
		}
		lab, from := fresh(t), "a fresh device"
		state := lab.State(t)
		for _, at := range ways {
			i := order[at]
			if state = step(t, lab, state, &rows[i]); state != want[i] {
				t.Errorf("against a fresh device:\n%s", changed(want[i], state))
			}
			if t.Failed() {
				t.Fatalf("%q after %q (seed %d)", rows[i].Name, from, seed)
			}
			from = rows[i].Name
		}
	})
}

// step brings the device from a state to a row, checks it and returns its state.
func step(t *testing.T, lab Lab, before string, row *Row) string {
	t.Helper()
	have, err := lab.Driver.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writes := lab.writes(t)
	todo := setUp(t, lab.Driver, have, row.Setup)
	state := lab.State(t)
	if todo == 0 && (state != before || lab.writes(t) != writes) {
		t.Errorf("Diff found nothing to do, and Apply wrote %d times and changed:\n%s", lab.writes(t)-writes, changed(before, state))
	}
	if have, err = lab.Driver.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := setUp(t, lab.Driver, have, row.Setup); left > 0 {
		t.Errorf("%d changes are left to do; observed %+v", left, have)
	}
	if again := lab.State(t); again != state {
		t.Errorf("a second Apply changed:\n%s", changed(state, again))
	}
	if got := lab.Frames(t, row.Setup); got != row.Want {
		t.Errorf("frames: %s; want %s", got, row.Want)
	}
	return lab.State(t)
}

func (l *Lab) writes(t testing.TB) int {
	if l.Writes == nil {
		return 0
	}
	return l.Writes(t)
}

// setUp applies a setup and returns how many changes Diff had announced.
func setUp(t *testing.T, d vendors.Driver, have, want vendors.Setup) int {
	t.Helper()
	if want.Nothing() {
		if err := d.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if have.Nothing() {
			return 0
		}
		return 1
	}
	changes, err := d.Diff(have, want)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	return len(changes)
}

// changed is the lines of which one text has more than the other.
func changed(from, to string) (text string) {
	n := map[string]int{}
	for _, line := range strings.Split(from, "\n") {
		n[line]--
	}
	for _, line := range strings.Split(to, "\n") {
		n[line]++
	}
	for _, line := range slices.Sorted(maps.Keys(n)) {
		if n[line] != 0 {
			text += fmt.Sprintf("%+d %s\n", n[line], line)
		}
	}
	return text
}

// everyPair is the numbers below n in an order in which each follows each, itself
// included, once (the De Bruijn sequence of order 2).
func everyPair(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
		for j := i + 1; j < n; j++ {
			out = append(out, i, j)
		}
	}
	return append(out, 0)
}
