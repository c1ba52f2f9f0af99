package openflow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestEveryTag sends values of a tag through a port, with an agent and without, against the draft's text.
func TestEveryTag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tags := eachOf(fewer(t, 1, 32))
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		t.Logf("seed %d", seed)
		l := newLab(t, 2, oftest.Faults{})
		for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
			setup := setupFor(ports(vlanrules.Update, "p2")...)
			setup.Layout = layout
			l.apply(t, setup)
			check := func(what string, tags []uint16, intents []vlanrules.Intent) {
				t.Helper()
				l.Settled()
				got := l.exchange(t, 2, tags)
				for i := range got {
					got[i] &^= 0x1000 // R stays where the tag is not rewritten
				}
				vendorstest.Tags(t, fmt.Sprintf("%s, %s, %+v", layout, what, intents), tags, got, func(i int) uint16 { return model(layout, intents, tags[i]) })
			}
			some := slices.Clone(tags) // 2,000 of them
			rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			some = some[:2000]
			check("no lease", some, setup.Fallback())
			for round, tags := range [][]uint16{tags, some, some} {
				intents := []vlanrules.Intent{intent(quantize.MinABW, uint8(rng.IntN(32)), uint16(1+rng.IntN(50))), intent(quantize.MaxPD, uint8(rng.IntN(32)), uint16(1+rng.IntN(50)))}
				l.update(t, time.Minute, given("p2", intents...))
				if round == 0 && layout == quantize.UEC {
					tags = slices.DeleteFunc(slices.Clone(tags), func(uint16) bool { return rng.IntN(fewer(t, 16, 2)) > 0 }) // the draft's layout has had them all
				}
				check("a lease", tags, intents)
			}
		}
	})
}

// TestBetweenChanges looks at frames after every single message of every change: each
// has the old or the new value.
func TestBetweenChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
		var tags []uint16 // one of each T of the setup, and S
		for s := range uint16(32) {
			tags = append(tags, s<<7|126, 2<<13|s<<7|126)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		old := []vlanrules.Intent{intent(quantize.MinABW, 20, 5), intent(quantize.MaxPD, 20, 5)}
		l.update(t, time.Minute, given("p2", old...))
		looked := 0
		var mu sync.Mutex // guards old, now and looked
		var now []vlanrules.Intent
		look := func(oftest.Message) {
			mu.Lock()
			defer mu.Unlock()
			l.Settled()
			looked++
			for i, got := range l.exchange(t, 2, tags) {
				was, will := model(quantize.Draft00, old, tags[i]), model(quantize.Draft00, now, tags[i])
				if got != was && got != will {
					t.Errorf("%+v to %+v, after %d messages: %04x leaves as %04x, want %04x or %04x", old, now, looked, tags[i], got, was, will)
				}
			}
		}
		for _, faults := range []oftest.Faults{{After: look}, late(look)} {
			l.driver = l.open(t, Config{OrdinaryVLANs: NotHandedOver, AckDelay: faults.AckToWire})
			l.update(t, time.Minute, given("p2", old...)) // it takes over what the other has written
			l.proxy.Set(func(f *oftest.Faults) { *f = faults })
			for range 4 {
				next := []vlanrules.Intent{intent(quantize.MinABW, uint8(rng.IntN(32)), 6), intent(quantize.MaxPD, uint8(rng.IntN(32)), uint16(1+rng.IntN(50)))}
				mu.Lock()
				now = next
				mu.Unlock()
				l.update(t, time.Minute, given("p2", next...))
				carriedOut(t, l.driver)
				mu.Lock()
				old = next
				mu.Unlock()
			}
		}
		if l.proxy.Close(); looked < 30 { // what is under way is over
			t.Fatalf("looked %d times", looked)
		}
	})
}

// carriedOut waits until the switch has carried out what a driver has waited for: a
// question is answered after that, however slowly the proxy looks at single changes.
func carriedOut(t testing.TB, d vendors.Driver) {
	t.Helper()
	if _, err := d.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// late is a switch that answers barriers before anything has taken effect, which then
// does so in any order.
func late(look func(oftest.Message)) oftest.Faults {
	return oftest.Faults{After: look, Reorder: 7, AckToWire: 10 * time.Millisecond}
}
