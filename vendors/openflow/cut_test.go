package openflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// decides checks that one flow alone has the highest priority of those of the live table
// that take a tag for a port: OpenFlow leaves open which of several a switch takes. It
// returns what the tag becomes.
func decides(t testing.TB, s *state, port uint32, tci uint16) uint16 {
	t.Helper()
	var best []int
	for i := range s.own {
		f := &s.own[i]
		m := &f.Match
		if f.Table != s.base+tableLive || portOf(f) != port || m.MatchPCP && uint16(m.PCP) != tci>>13 || (tci&0xfff|0x1000)&m.VIDMask != m.VID&m.VIDMask {
			continue
		}
		switch {
		case len(best) == 0 || f.Priority > s.own[best[0]].Priority:
			best = []int{i}
		case f.Priority == s.own[best[0]].Priority:
			best = append(best, i)
		}
	}
	if len(best) != 1 {
		t.Fatalf("%d flows of one priority take the tag %04x", len(best), tci)
	}
	if vid, sets := setsVID(s.own[best[0]].Actions); sets {
		return tci&^0x1fff | vid
	}
	return tci &^ 0x1000
}

// TestCutUpdate ends the connection after each message of an Update in turn, and has a
// new process take over: with Apply and Update, with Update alone, and with Remove
// before. Every S of both signals then has what the draft says.
func TestCutUpdate(t *testing.T) {
	rounds := fewer(t, 12, 1)
	setup := setupFor(ports(vlanrules.Update, "p2")...)
	again := map[string]func(context.Context, *Driver) error{
		"Update": func(context.Context, *Driver) error { return nil },
		"Apply":  func(ctx context.Context, d *Driver) error { return d.Apply(ctx, setup) },
		"Remove and Apply": func(ctx context.Context, d *Driver) error {
			if err := d.Remove(ctx); err != nil {
				return err
			}
			return d.Apply(ctx, setup)
		},
	}
	var tags []uint16
	for s := range uint16(quantize.NumBuckets) {
		for _, lm := range []uint16{0, 10, 17, 63} {
			tags = append(tags, 0<<13|s<<7|lm<<1, 2<<13|s<<7|lm<<1, 0<<13|s<<7|lm, 2<<13|s<<7|lm)
		}
	}
	for name, first := range again {
		run(t, name, func(t *testing.T) {
			l := newLab(t, 2, oftest.Faults{})
			c := &crasher{proxy: l.proxy}
			open := func() *Driver { return l.open(t, Config{OrdinaryVLANs: NotHandedOver}) }
			rng := rand.New(rand.NewPCG(1, 2))
			value := func() []vlanrules.Intent {
				return []vlanrules.Intent{intent(quantize.MinABW, uint8(rng.IntN(32)), uint16(1+rng.IntN(50))), intent(quantize.MaxPD, uint8(rng.IntN(32)), uint16(1+rng.IntN(50)))}
			}
			cuts := 0
			for range rounds {
				from, to := value(), value()
				for n := 1; ; n++ {
					d := open()
					if err := d.Apply(t.Context(), setup); err != nil {
						t.Fatal(err)
					}
					if _, err := d.Update(t.Context(), []vendors.PortUpdate{given("p2", from...)}, time.Minute); err != nil {
						t.Fatal(err)
					}
					c.after(n)
					_, err := d.Update(t.Context(), []vendors.PortUpdate{given("p2", to...)}, time.Minute)
					cut := c.stop()
					if !cut && err != nil {
						t.Fatal(err)
					}
					next, last := open(), value()
					if err := first(t.Context(), next); err != nil {
						t.Fatal(err)
					}
					if _, err := next.Update(t.Context(), []vendors.PortUpdate{given("p2", last...)}, time.Minute); err != nil {
						t.Fatal(err)
					}
					at := fmt.Sprintf("%+v to %+v, cut after %d messages, then %+v", from, to, n, last)
					s, err := next.read(t.Context(), false)
					if err != nil {
						t.Fatal(err)
					}
					l.Settled()
					for i, got := range l.exchange(t, 2, tags) {
						want := model(quantize.Draft00, last, tags[i])
						if table := decides(t, s, 2, tags[i]); table != want || got != want && tags[i] != 0 {
							t.Fatalf("%s: %04x leaves as %04x, and as %04x by the table; want %04x\n%s", at, tags[i], got, table, want, l.flows())
						}
					}
					if !cut {
						break
					}
					cuts++
				}
			}
			if cuts < 3*rounds {
				t.Errorf("%d cuts", cuts)
			}
		})
	}
}
