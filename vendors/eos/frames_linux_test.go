package eos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestEveryTag sends all 65,536 values of a tag through a port with an agent and without,
// against the draft's text.
func TestEveryTag(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) // a bubble's clock begins at the same time always
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) { everyTag(t, seed) })
}

func everyTag(t *testing.T, seed uint64) {
	tags := make([]uint16, 1<<16)
	for i := range tags {
		tags[i] = uint16(i)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLab(t)
	setup := setupFor(ports[1])
	l.apply(t, setup)
	check := func(what string, tags []uint16, intents []vlanrules.Intent) {
		t.Helper()
		vendorstest.Tags(t, fmt.Sprintf("%s, %+v", what, intents), tags, l.exchange(t, 2, tags), func(i int) uint16 {
			return vendorstest.Model(quantize.Draft00, intents, tags[i])
		})
	}
	some := tags[len(tags)-2000:]
	check("no agent", some, setup.Fallback())
	for _, tags := range [][]uint16{tags, some} {
		intents := []vlanrules.Intent{intent(quantize.MinABW, uint8(rng.IntN(32)), uint16(1+rng.IntN(100))), intent(quantize.MaxPD, uint8(rng.IntN(32)), uint16(1+rng.IntN(100)))}
		l.give(t, ports[1], intents...)
		check("an agent", tags, intents)
	}
	if got := l.exchange(t, 3, some[:1]); got[0] != some[0] {
		t.Errorf("a port in no setup: %04x leaves as %04x", some[0], got[0])
	}
	if l.Saves() > 0 {
		t.Error("the configuration was saved")
	}
}

// TestEveryTagOfUEC is TestEveryTag in the layout uec, where a tag with D=1 is left alone.
func TestEveryTagOfUEC(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t)
		setup := setupFor(ports[1])
		setup.Layout = quantize.UEC
		l.apply(t, setup)
		in := vlanrules.Intent{Signal: quantize.MinABW, Action: vlanrules.Update, S: 11, LM: 33}
		l.give(t, ports[1], in)
		var tags []uint16
		for tci := range uint16(1 << 13) { // T=0, either DEI
			tags = append(tags, tci)
		}
		for i, got := range l.exchange(t, 2, tags) {
			want := tags[i]
			if want>>7&31 > 11 && want&1 == 0 {
				want = want&0xf000 | 11<<7 | 33<<1
			}
			if got != want {
				t.Fatalf("%04x leaves as %04x, want %04x", tags[i], got, want)
			}
		}
	})
}

// TestBetweenLines looks at frames after every command that changes what the switch does,
// of changes of the bucket: each has the old or the new value.
func TestBetweenLines(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t)
		l.apply(t, setupFor(ports[1]))
		var tags []uint16 // one of each T of the setup, and S
		for s := range uint16(32) {
			tags = append(tags, s<<7|126, 2<<13|s<<7|126)
		}
		old := []vlanrules.Intent{intent(quantize.MinABW, 20, 5), intent(quantize.MaxPD, 20, 5)}
		l.give(t, ports[1], old...)
		var now []vlanrules.Intent
		var mu sync.Mutex // guards old, now and looked
		looked, seen := 0, ""
		l.server.Set(clitest.Faults{After: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			running := l.Running()
			if running == seen {
				return
			}
			seen = running
			looked++
			for i, got := range l.exchange(t, 2, tags) {
				if was, will := vendorstest.Model(quantize.Draft00, old, tags[i]), vendorstest.Model(quantize.Draft00, now, tags[i]); got != was && got != will {
					t.Errorf("%+v to %+v, after %q: %04x leaves as %04x, want %04x or %04x", old, now, line, tags[i], got, was, will)
				}
			}
		}})
		rng := rand.New(rand.NewPCG(1, 2))
		steps := []uint8{21, 19, 0, 30, 12, 5}
		for _, s := range steps {
			next := []vlanrules.Intent{intent(quantize.MinABW, s, uint16(1+rng.IntN(2))), intent(quantize.MaxPD, uint8(rng.IntN(32)), 6)}
			mu.Lock()
			now = next
			mu.Unlock()
			l.give(t, ports[1], next...)
			mu.Lock()
			old = next
			mu.Unlock()
		}
		if looked < 2*len(steps) {
			t.Fatalf("looked %d times", looked)
		}
	})
}

// TestAfterABreak looks at frames while an update replaces what one that broke off has left,
// which is flows of two values: each frame has what it had, or the new value.
func TestAfterABreak(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t)
		l.apply(t, setupFor(ports[1]))
		give := func(s uint8) error {
			_, err := l.driver.Update(t.Context(), to(ports[1], s), time.Minute)
			return err
		}
		var tags []uint16
		for s := range uint16(32) {
			tags = append(tags, s<<7|126, 2<<13|s<<7|126)
		}
		if err := give(5); err != nil {
			t.Fatal(err)
		}
		l.server.Set(clitest.Faults{Drop: func(line string) bool { return strings.HasPrefix(line, "show directflow") }})
		if err := give(20); err == nil {
			t.Fatal("the session did not end")
		}
		before := l.exchange(t, 2, tags)
		looked, seen := 0, ""
		l.server.Set(clitest.Faults{After: func(line string) {
			if running := l.Running(); running != seen {
				seen = running
				looked++
				for i, got := range l.exchange(t, 2, tags) {
					if now := vendorstest.Model(quantize.Draft00, to(ports[1], 25)[0].Intents, tags[i]); got != before[i] && got != now {
						t.Errorf("after %q: %04x leaves as %04x, want %04x or %04x", line, tags[i], got, before[i], now)
					}
				}
			}
		}})
		if err := give(25); err != nil {
			t.Fatal(err)
		}
		if looked < 3 {
			t.Errorf("looked %d times", looked)
		}
	})
}

// TestSetupsInAnyOrder brings a switch from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	with := func(action vlanrules.Action, change func(*vendors.Setup)) vendors.Setup {
		s := setupFor(ports[1], ports[2])
		s.Ports[0].Action = action
		if change != nil {
			change(&s)
		}
		return s
	}
	// What becomes of the best abw and pd, with an agent, and of the best abw without one.
	const updated, old, worst, best = "0385 4286", "0ffe 407e", "; without an agent 007d", "; without an agent 0ffe"
	rows := []vendorstest.Row{
		{Name: "nothing", Want: old + best},
		{Name: "update", Setup: with(vlanrules.Update, nil), Want: updated + worst},
		{Name: "no port", Setup: with(0, func(s *vendors.Setup) { s.Ports = nil }), Want: old + best},
		{Name: "passthrough", Setup: with(vlanrules.Passthrough, nil), Want: old + best},
		{Name: "the other port", Setup: with(0, func(s *vendors.Setup) { s.Ports = s.Ports[1:] }), Want: old + best},
		{Name: "one signal", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Signals = s.Signals[:1] }), Want: "0385 407e" + worst},
		{Name: "passthrough when stale", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }), Want: updated + best},
		{Name: "wide tags and another TPID", Setup: with(vlanrules.Update, func(s *vendors.Setup) {
			s.WideTPID, s.Others = 0x9901, []vendors.OtherTPID{{TPID: 0x9902, Wide: true}}
		}), Want: updated + worst},
		{Name: "another TPID", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.TPID = 0x9800 }), Want: old + best},
	}
	vendorstest.AnyOrderInMemory(t, rows, 5, func(t *testing.T) vendorstest.Lab {
		l := newLab(t)
		return vendorstest.Lab{Driver: l.driver, Frames: l.frames, State: l.state, Writes: func(testing.TB) int { return l.Changes() }}
	})
}

// TestLongSetupsInAnyOrder is TestSetupsInAnyOrder from every setup to every setup.
func TestLongSetupsInAnyOrder(t *testing.T) { TestSetupsInAnyOrder(t) }

// frames sends some through the second port, with an agent's signal and without.
func (l *lab) frames(t testing.TB, setup vendors.Setup) string {
	t.Helper()
	updates := vendorstest.Updates(&setup, func(i int, sig quantize.Signal) vlanrules.Intent { return intent(sig, 7-uint8(2*i), 5+uint16(i)) })
	if !setup.Nothing() {
		if _, err := l.driver.Update(t.Context(), updates, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	out := strings.Trim(fmt.Sprintf("%04x", l.exchange(t, 2, []uint16{31<<7 | 126, 2<<13 | 126})), "[]")
	if !setup.Nothing() {
		if err := l.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return out + fmt.Sprintf("; without an agent %04x", l.exchange(t, 2, []uint16{31<<7 | 126})[0])
}
