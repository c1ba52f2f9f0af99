package openflow

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// crasher ends a driver's connection after so many of its changes.
type crasher struct {
	proxy *oftest.Proxy
	left  atomic.Int64
}

// after has the connection end after n changes from now on.
func (c *crasher) after(n int) {
	c.left.Store(int64(n))
	c.proxy.Set(func(f *oftest.Faults) {
		f.After = func(oftest.Message) {
			if c.left.Add(-1) == 0 {
				c.proxy.Set(func(f *oftest.Faults) { f.Silent = true }) // what is under way does not arrive
				c.proxy.Cut()
			}
		}
	})
}

// stop reports whether the connection has ended, and lets everything pass from now on.
func (c *crasher) stop() bool {
	c.proxy.Set(func(f *oftest.Faults) { f.After, f.Silent = nil, false })
	return c.left.Load() <= 0
}

// TestCrash has the connection end after each change of Apply and Remove in turn. Frames
// have what they had, what they are to have, or the fallback of one of them; the next
// process finds that there is something to do, and Apply and Remove lead to the same flows as
// without the crash.
func TestCrash(t *testing.T) {
	from := setupFor(append(ports(vlanrules.Update, "p2", "p3"), ports(vlanrules.Strip, "p4")...)...)
	other := setupFor(append(ports(vlanrules.Update, "p2", "p4"), ports(vlanrules.Passthrough, "p3")...)...)
	other.Layout, other.Profile = quantize.UEC, strings.Repeat("ab", 32)
	strip := setupFor(ports(vlanrules.Update, "p2")...)
	strip.OnStale, strip.Signals = inventory.StaleStrip, strip.Signals[:1]
	const staleUEC = 61 << 1
	for name, tc := range map[string]struct {
		to      vendors.Setup
		remove  bool
		allowed []int // tags with which the best one may leave p2
		end     int   // that with which it leaves after Apply, before any update
	}{
		"another layout":   {to: other, allowed: []int{7<<7 | 5, stale, staleUEC}, end: staleUEC},
		"another fallback": {to: strip, allowed: []int{7<<7 | 5, stale, noTag}, end: noTag},
		"removed":          {remove: true, allowed: []int{7<<7 | 5, stale, best}, end: best},
	} {
		run(t, name, func(t *testing.T) {
			l := newLab(t, 4, oftest.Faults{})
			c := &crasher{proxy: l.proxy}
			operators := func() string {
				return l.Flow("dump-flows", "--no-stats", "table=0") + l.Flow("dump-flows", "--no-stats", "table=13")
			}
			l.Flow("add-flow", "cookie=0xbeef,table=13,priority=1000,metadata=0xfff/0xfff,actions=drop")
			theirs := operators()
			carryOut := func(d *Driver) error {
				if tc.remove {
					return d.Remove(t.Context())
				}
				return d.Apply(t.Context(), tc.to)
			}
			open := func() *Driver { return l.open(t, Config{OrdinaryVLANs: NotHandedOver}) }
			begin := func() {
				d := open()
				if err := d.Apply(t.Context(), from); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Update(t.Context(), []vendors.PortUpdate{seven("p2"), nine("p3")}, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			begin()
			if err := carryOut(l.driver); err != nil {
				t.Fatal(err)
			}
			want := constantOf(l.flows())
			for n := 1; ; n += fewer(t, 1, 7) {
				begin()
				c.after(n)
				err := carryOut(open())
				if !c.stop() {
					if err != nil || n == 1 {
						t.Fatalf("%d changes: %v", n, err)
					}
					return
				}
				at := fmt.Sprintf("a crash after change %d", n)
				l.Settled()
				if got := l.leaves(t, 2, best); !slices.Contains(tc.allowed, got) {
					t.Errorf("%s: the best tag leaves as %04x\n%s", at, got, l.flows())
				}
				done := constantOf(l.flows()) == want
				next := open()
				found, err := next.Observe(t.Context())
				if err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				if tc.remove {
					if left := strings.Contains(l.flows(), "goto_table"); left && found.Nothing() {
						t.Errorf("%s: nothing is found\n%s", at, l.flows())
					}
					moved, err := l.open(t, Config{OrdinaryVLANs: NotHandedOver, Table: 20}).Observe(t.Context())
					if left := strings.Contains(l.flows(), "table=12,"); err != nil || left && moved.Nothing() {
						t.Errorf("%s: with other tables nothing is found: %v\n%s", at, err, l.flows())
					}
				} else if changes, err := next.Diff(found, tc.to); err != nil || len(changes) == 0 && !done {
					t.Errorf("%s: there is nothing to do: %v\n%s", at, err, l.flows())
				}
				if err := carryOut(next); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				if got := constantOf(l.flows()); got != want {
					t.Errorf("%s, and carried out again: the flows are\n%s\nwant\n%s", at, got, want)
				}
				l.is(t, at+", and carried out again", 2, tc.end)
				if now := operators(); now != theirs {
					t.Fatalf("%s: the operator's flows are\n%s\nand were\n%s", at, now, theirs)
				}
			}
		})
	}
}
