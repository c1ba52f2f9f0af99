package openflow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFlatCrash has the connection end after each change of Apply, Update and Remove in
// turn, on both kinds of switches. Frames have what they had, what they are to have, or the
// fallback of one of them; the next process finds that there is something to do, and leads
// to the same flows and groups as without the crash.
func TestFlatCrash(t *testing.T) {
	from := flatWant(inventory.Conservative, "p1", "p2")
	uec := flatWant(inventory.Conservative, "p2")
	uec.Layout, uec.Profile = quantize.UEC, strings.Repeat("ab", 32)
	passes := flatWant(inventory.StalePassthrough, "p2")
	passes.Signals = passes.Signals[:1]
	const (
		had      = 7<<7 | 5
		gets     = 3<<7 | 9
		staleUEC = 61 << 1
	)
	in := []vlanrules.Intent{intent(quantize.MinABW, 7, 5), intent(quantize.MaxPD, 9, 6)}
	next := given("p2", intent(quantize.MinABW, 3, 9), intent(quantize.MaxPD, 20, 6))
	apply := func(s vendors.Setup) func(context.Context, *Flat) error {
		return func(ctx context.Context, d *Flat) error { return d.Apply(ctx, s) }
	}
	for name, tc := range map[string]struct {
		carryOut func(context.Context, *Flat) error
		to       vendors.Setup // that Observe is to find afterwards
		allowed  []int         // tags with which the best one may leave p2
		end      int           // that with which it leaves afterwards
	}{
		"another layout":   {apply(uec), uec, []int{had, stale, best, staleUEC}, staleUEC}, // nothing of one layout has a meaning in the other: see flat.open
		"another fallback": {apply(passes), passes, []int{had, stale, best}, best},
		"removed":          {func(ctx context.Context, d *Flat) error { return d.Remove(ctx) }, vendors.Setup{}, []int{had, stale, best}, best},
		"another value": {func(ctx context.Context, d *Flat) error {
			_, err := d.Update(ctx, []vendors.PortUpdate{next}, time.Minute)
			return err
		}, from, []int{had, gets}, gets},
	} {
		for _, ofdpa := range []bool{true, false} {
			run(t, fmt.Sprintf("%s, OF-DPA %v", name, ofdpa), func(t *testing.T) {
				l := newFlatLab(t, ofdpa, nil)
				c := &crasher{proxy: l.proxy}
				theirs := l.operators()
				constant := func() string { // what updates do not write; when it was removed, all
					if name == "removed" {
						return l.state(t)
					}
					return strings.Join(slices.DeleteFunc(strings.Split(l.state(t), "\n"), func(line string) bool {
						var group uint32
						_, err := fmt.Sscanf(line, "group_id=%d,", &group)
						return strings.Contains(line, "hard_timeout=") || err == nil && group&rowMask != rowStale
					}), "\n")
				}
				begin := func() {
					d := l.open(t, nil)
					if err := d.Apply(t.Context(), from); err != nil {
						t.Fatalf("%v: %q", err, l.proxy.Refused())
					}
					if _, err := d.Update(t.Context(), []vendors.PortUpdate{given("p1", in...), given("p2", in...)}, time.Minute); err != nil {
						t.Fatalf("%v: %q", err, l.proxy.Refused())
					}
				}
				begin()
				if err := tc.carryOut(t.Context(), l.open(t, nil)); err != nil {
					t.Fatal(err)
				}
				want := constant()
				for n := 1; ; n += fewer(t, 1, 9) {
					begin()
					c.after(n)
					err := tc.carryOut(t.Context(), l.open(t, nil))
					if !c.stop() {
						if err != nil || n == 1 {
							t.Fatalf("%d changes: %v", n, err)
						}
						return
					}
					at := fmt.Sprintf("a crash after change %d", n)
					look := func(at string, allowed ...int) {
						t.Helper()
						l.Settled()
						if got := int(l.leave(t, best)[0]); !slices.Contains(allowed, got) {
							t.Errorf("%s: the best tag leaves as %04x, want one of %04x\n%s", at, got, allowed, l.state(t))
						}
					}
					look(at, tc.allowed...)
					other := l.open(t, nil)
					found, err := other.Observe(t.Context())
					if err != nil {
						t.Fatalf("%s: %v", at, err)
					}
					there := constant()
					if name == "removed" {
						if found.Nothing() && there != "" {
							t.Errorf("%s: nothing is found\n%s", at, there)
						}
					} else if changes, err := other.Diff(found, tc.to); err != nil || len(changes) == 0 && there != want {
						t.Errorf("%s: there is nothing to do: %v\n%s\nwant\n%s", at, err, there, want)
					}
					if err := tc.carryOut(t.Context(), other); err != nil {
						t.Fatalf("%s: %v: %q", at, err, l.proxy.Refused())
					}
					if got := constant(); got != want {
						t.Errorf("%s, and carried out again: the flows are\n%s\nwant\n%s", at, got, want)
					}
					look(at+", and carried out again", tc.end)
					if now := l.operators(); now != theirs {
						t.Fatalf("%s: the operator's flows are\n%s\nand were\n%s", at, now, theirs)
					}
				}
			})
		}
	}
}

// operators are the flows that are not csig's.
func (l *flatLab) operators() string {
	var out []string
	for line := range strings.Lines(l.Flow("dump-flows", "--no-stats")) {
		if !strings.Contains(line, "cookie=0x63736f66") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
