package vrp

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
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestEveryTag sends all 65,536 values of a tag through a port with an agent and without,
// against the draft's text.
func TestEveryTag(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	tags := make([]uint16, 1<<16)
	for i := range tags {
		tags[i] = uint16(i)
	}
	both(t, func(t *testing.T, platform string) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := newLab(t, platform, &plane.Memory{})
		setup := setupFor(update(l.ports[1])...)
		l.apply(t, setup)
		check := func(what string, tags []uint16, intents []vlanrules.Intent) {
			t.Helper()
			vendorstest.Tags(t, fmt.Sprintf("%s, %s, %+v", platform, what, intents), tags, l.exchange(t, 2, tags), func(i int) uint16 { return model(intents, tags[i]) })
		}
		some := tags[len(tags)-2000:]
		check("no agent", some, setup.Fallback())
		for _, tags := range [][]uint16{tags, some} {
			intents := []vlanrules.Intent{intent(quantize.MinABW, uint8(rng.IntN(32)), uint16(1+rng.IntN(100))), intent(quantize.MaxPD, uint8(rng.IntN(32)), uint16(1+rng.IntN(100)))}
			l.give(t, l.ports[1], intents...)
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

// TestBetweenLines looks at frames after every single change of the configuration while the
// bucket changes: each has the old or the new value. In the gap of an S series, which its
// text admits, they leave untouched; a CloudEngine has none.
func TestBetweenLines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		platform string
		backward bool
	}{"in order": {SSeries, false}, "in hardware's own order": {SSeries, true}, "CloudEngine": {CloudEngine, false}} {
		clitest.Run(t, name, func(t *testing.T) {
			l := newLab(t, tc.platform, &plane.Memory{})
			l.Backward = tc.backward // hardware's own order, whatever is configured
			l.apply(t, setupFor(update(l.ports[1])...))
			var tags []uint16 // one of each T of the setup, and S
			for s := range uint16(32) {
				tags = append(tags, s<<7|126, 2<<13|s<<7|126)
			}
			old := []vlanrules.Intent{intent(quantize.MinABW, 20, 5), intent(quantize.MaxPD, 20, 5)}
			l.give(t, l.ports[1], old...)
			var now []vlanrules.Intent
			var mu sync.Mutex // guards what follows
			looked, gaps, seen := 0, 0, ""
			l.InGap = func() {
				mu.Lock()
				defer mu.Unlock()
				gaps++
				for i, got := range l.exchange(t, 2, tags) {
					if got != tags[i] {
						t.Errorf("%s, in the gap: %04x leaves as %04x", tc.platform, tags[i], got)
					}
				}
			}
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
					if was, will := model(old, tags[i]), model(now, tags[i]); got != was && got != will {
						t.Errorf("%s, %+v to %+v, after %q: %04x leaves as %04x, want %04x or %04x", tc.platform, old, now, line, tags[i], got, was, will)
					}
				}
			}})
			rng := rand.New(rand.NewPCG(1, 2))
			for _, s := range []uint8{21, 19, 31, 0, 30, 1, 1, 12} {
				next := []vlanrules.Intent{intent(quantize.MinABW, s, uint16(1+rng.IntN(2))), intent(quantize.MaxPD, uint8(rng.IntN(32)), 6)}
				mu.Lock()
				now = next
				mu.Unlock()
				l.give(t, l.ports[1], next...)
				mu.Lock()
				old = next
				mu.Unlock()
			}
			mu.Lock()
			n, ineffective := looked, gaps
			mu.Unlock()
			if least := map[string]int{SSeries: 40, CloudEngine: 14}[tc.platform]; n < least {
				t.Fatalf("%s: looked %d times", tc.platform, n)
			}
			if (ineffective > 0) != (tc.platform == SSeries) {
				t.Errorf("%s: %d gaps", tc.platform, ineffective)
			}
		})
	}
}

// TestAfterABreak looks at frames while an update replaces what one that broke off has left,
// which is entries of two values: each frame has what it had, or the new value.
func TestAfterABreak(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t, CloudEngine, &plane.Memory{})
		l.apply(t, setupFor(update(l.ports[1])...))
		of := func(s uint8) []vlanrules.Intent {
			return []vlanrules.Intent{intent(quantize.MinABW, s, 5), intent(quantize.MaxPD, s, 5)}
		}
		var tags []uint16
		for s := range uint16(32) {
			tags = append(tags, s<<7|126, 2<<13|s<<7|126)
		}
		for _, step := range [][2]uint8{{5, 20}, {20, 5}} { // a third value above both, and below
			l.give(t, l.ports[1], of(step[0])...)
			l.server.Set(clitest.Faults{Drop: func(line string) bool { return strings.HasPrefix(line, "display traffic-policy") }})
			if _, err := l.driver.Update(t.Context(), []vendors.PortUpdate{{Port: l.ports[1], Intents: of(step[1])}}, time.Minute); err == nil {
				t.Fatal("the session did not end")
			}
			before := l.exchange(t, 2, tags)
			third := 2*step[1] - step[1]/2 // 30 and 8
			var mu sync.Mutex              // guards what follows
			looked, seen := 0, ""
			l.server.Set(clitest.Faults{After: func(line string) {
				mu.Lock()
				defer mu.Unlock()
				if running := l.Running(); running != seen {
					seen = running
					looked++
					for i, got := range l.exchange(t, 2, tags) {
						if now := model(of(third), tags[i]); got != before[i] && got != now {
							t.Errorf("%v, after %q: %04x leaves as %04x, want %04x or %04x", step, line, tags[i], got, before[i], now)
						}
					}
				}
			}})
			l.give(t, l.ports[1], of(third)...)
			l.server.Set(clitest.Faults{})
			mu.Lock()
			if looked < 3 {
				t.Errorf("looked %d times", looked)
			}
			mu.Unlock()
		}
	})
}

// TestSetupsInAnyOrder brings a switch from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, platform := range []string{SSeries, CloudEngine} {
		ports := portsOf[platform]
		with := func(action vlanrules.Action, change func(*vendors.Setup)) vendors.Setup {
			s := setupFor(vendors.PortSetup{Port: ports[1], Action: action}, vendors.PortSetup{Port: ports[2], Action: vlanrules.Update})
			if change != nil {
				change(&s)
			}
			return s
		}
		// What becomes of the best abw and pd, with an agent, and of the best abw without one.
		const updated, old, worst, best = "0385 4286", "0ffe 407e", "; without an agent 007d", "; without an agent 0ffe"
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
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
			}, 5, func(t *testing.T) vendorstest.Lab {
				l := newLab(t, platform, &plane.Memory{})
				return vendorstest.Lab{Driver: l.driver, Frames: l.frames, State: l.state, Writes: func(testing.TB) int { return l.Changes() }}
			})
		})
	}
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
