package comware

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestEveryTag sends all 65,536 values of a tag, qos.Inner and qos.Outer, through a port with an
// agent and without, against the draft's text.
func TestEveryTag(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) // a bubble's clock begins at the same time always
	t.Logf("seed %d", seed)
	tags := make([]uint16, 1<<16)
	for i := range tags {
		tags[i] = uint16(i)
	}
	for _, at := range []qos.Position{qos.Inner, qos.Outer} {
		clitest.Run(t, at.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			l := newLab(t, at, &plane.Memory{})
			setup := setupFor(update(ports[1])...)
			l.apply(t, setup)
			check := func(what string, tags []uint16, intents []vlanrules.Intent) {
				t.Helper()
				vendorstest.Tags(t, fmt.Sprintf("%s tag, %s, %+v", at, what, intents), tags, l.exchange(t, 2, tags), func(i int) uint16 { return model(intents, tags[i]) })
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
		})
	}
}

// TestBetweenLines looks at frames after every single line of changes of the bucket: each
// has the old or the new value.
func TestBetweenLines(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t, qos.Inner, &plane.Memory{})
		l.apply(t, setupFor(update(ports[1])...))
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
			if running := l.Running(); running == seen {
				return
			} else {
				seen = running
			}
			looked++
			for i, got := range l.exchange(t, 2, tags) {
				if was, will := model(old, tags[i]), model(now, tags[i]); got != was && got != will {
					t.Errorf("%+v to %+v, after %q: %04x leaves as %04x, want %04x or %04x", old, now, line, tags[i], got, was, will)
				}
			}
		}})
		rng := rand.New(rand.NewPCG(1, 2))
		for _, s := range []uint8{21, 19, 31, 0, 30, 1, 1, 12} {
			next := []vlanrules.Intent{intent(quantize.MinABW, s, uint16(1+rng.IntN(2))), intent(quantize.MaxPD, uint8(rng.IntN(32)), 6)}
			mu.Lock()
			now = next
			mu.Unlock()
			l.give(t, ports[1], next...)
			mu.Lock()
			old = next
			mu.Unlock()
		}
		if looked < 40 {
			t.Fatalf("looked %d times", looked)
		}
	})
}

// TestFramesOfFullTable looks at frames after every line where the hardware has no room for
// another entry: each has the old value, until there is room.
func TestFramesOfFullTable(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t, qos.Inner, &plane.Memory{})
		l.apply(t, setupFor(update(ports[1])...))
		old := []vlanrules.Intent{intent(quantize.MinABW, 20, 5), intent(quantize.MaxPD, 9, 5)}
		l.give(t, ports[1], old...)
		var tags []uint16
		for s := range uint16(32) {
			tags = append(tags, s<<7|126, 2<<13|s<<7|126)
		}
		looked := 0
		look := func(line string) {
			looked++
			for i, got := range l.exchange(t, 2, tags) {
				if want := model(old, tags[i]); got != want {
					t.Fatalf("after %q: %04x leaves as %04x, want %04x", line, tags[i], got, want)
				}
			}
		}
		l.plane.Set(plane.Faults{Entries: 12 + 11}) // of a TCAM, for 2688-4094 and 1-1151
		l.server.Set(clitest.Faults{After: func(line string) {
			if strings.Contains(line, "classifier") || strings.HasPrefix(line, "display qos") {
				look(line)
			}
		}})
		next := []vlanrules.Intent{intent(quantize.MinABW, 7, 5), intent(quantize.MaxPD, 25, 5)}
		for range 3 {
			if _, err := l.driver.Update(t.Context(), []vendors.PortUpdate{{Port: ports[1], Intents: next}}, time.Minute); err == nil || !strings.Contains(err.Error(), "not in hardware") {
				t.Fatal(err)
			}
		}
		if looked < 5 {
			t.Fatalf("looked %d times", looked)
		}
		l.server.Set(clitest.Faults{})
		l.plane.Set(plane.Faults{})
		l.Settle()
		l.give(t, ports[1], next...)
		old = next
		look("there is room")
		if _, err := l.driver.ArmDeadMan(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		alive := true
		probe := func(string) bool { return alive }
		l.Pass(10*time.Minute, probe)
		look("csig is alive")
		alive = false
		l.Pass(time.Minute, probe)
		setup := setupFor()
		old = setup.Fallback()
		look("csig is gone")
	})
}

// TestSetupsInAnyOrder brings a switch from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	with := func(action vlanrules.Action, change func(*vendors.Setup)) vendors.Setup {
		s := setupFor(vendors.PortSetup{Port: ports[1], Action: action}, vendors.PortSetup{Port: ports[2], Action: vlanrules.Update})
		if change != nil {
			change(&s)
		}
		return s
	}
	// What becomes of the best abw and pd, with an agent, and of the best abw without one.
	const updated, old, worst, best = "0385 4286", "0ffe 407e", "; without an agent 007d", "; without an agent 0ffe"
	vendorstest.AnyOrderInMemory(t, []vendorstest.Row{
		{Name: "nothing", Want: old + best},
		{Name: "no port", Setup: with(0, func(s *vendors.Setup) { s.Ports = nil }), Want: old + best},
		{Name: "update", Setup: with(vlanrules.Update, nil), Want: updated + worst},
		{Name: "passthrough", Setup: with(vlanrules.Passthrough, nil), Want: old + best},
		{Name: "the other port", Setup: with(0, func(s *vendors.Setup) { s.Ports = s.Ports[1:] }), Want: old + best},
		{Name: "one signal", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.Signals = s.Signals[:1] }), Want: "0385 407e" + worst},
		{Name: "passthrough when stale", Setup: with(vlanrules.Update, func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }), Want: updated + best},
		{Name: "wide tags and another TPID", Setup: with(vlanrules.Update, func(s *vendors.Setup) {
			s.WideTPID, s.Others = 0x9901, []vendors.OtherTPID{{TPID: 0x9902, Wide: true}}
		}), Want: updated + worst},
	}, 10, func(t *testing.T) vendorstest.Lab {
		l := newLab(t, qos.Inner, &plane.Memory{})
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
