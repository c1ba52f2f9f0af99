package comware

import (
	"context"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestAfterABreak ends the session at lines of an update, before it is carried out and
// after: frames have what they had or the new value. While the next update, to a third value,
// replaces what was left, they have what they had then, or the third value.
func TestAfterABreak(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		l := newLab(t, qos.Inner, &plane.Memory{})
		c := &cut{left: -1}
		l.driver.Dial = func(context.Context) (qos.Session, error) { return &direct{Shell: l.Shell(), cut: c}, nil }
		l.driver.HangUp()
		l.apply(t, setupFor(update(ports[1])...))
		of := func(s uint8) []vlanrules.Intent {
			return []vlanrules.Intent{intent(quantize.MinABW, s, 5), intent(quantize.MaxPD, s, 5)}
		}
		var tags []uint16 // on both sides of each value
		for _, s := range []uint16{0, 4, 5, 6, 7, 8, 9, 19, 20, 21, 29, 30, 31} {
			tags = append(tags, s<<7|126, 2<<13|s<<7|126)
		}
		var old, now []uint16 // what each tag may leave as; nil: no matter
		looked := 0
		look := func(when string) {
			if old == nil {
				return
			}
			looked++
			for i, got := range l.exchange(t, 2, tags) {
				if got != old[i] && got != now[i] {
					t.Errorf("%s: %04x leaves as %04x, want %04x or %04x", when, tags[i], got, old[i], now[i])
				}
			}
		}
		want := func(s uint8) (out []uint16) {
			for _, tci := range tags {
				out = append(out, model(of(s), tci))
			}
			return out
		}
		when := ""
		l.Changed = func(list []comwaretest.Port) []int {
			held := l.program(t, list)
			look(when)
			return held
		}
		steps := [][3]uint8{{5, 20, 30}, {20, 5, 8}, {5, 20, 8}, {20, 5, 30}}
		for _, step := range steps {
			for line, half := 0, false; ; {
				old = nil
				l.give(t, ports[1], of(step[0])...)
				old, now, when = want(step[0]), want(step[1]), "in the update that breaks off"
				c.left, c.after = line, half
				_, err := l.driver.Update(t.Context(), []vendors.PortUpdate{{Port: ports[1], Intents: of(step[1])}}, time.Minute)
				done := c.left >= 0
				if c.left = -1; done != (err == nil) {
					t.Fatalf("%v, line %d: %v", step, line, err)
				}
				look("after the break")
				old, now, when = l.exchange(t, 2, tags), want(step[2]), "in the next update"
				l.give(t, ports[1], of(step[2])...)
				old = now
				look("after the next update")
				if t.Failed() {
					t.Fatalf("%v, line %d, carried out: %v", step, line, half)
				}
				if half = !half; !half {
					line += vendorstest.Every(t, 5)
				}
				if done {
					if line < changeLines-10 { // objects of before are there
						t.Errorf("it was ended at %d lines only", line)
					}
					break
				}
			}
		}
		if looked < 100*len(steps)/vendorstest.Every(t, 5) {
			t.Errorf("looked %d times", looked)
		}
	})
}

// TestLongAfterABreak is TestAfterABreak at every line.
func TestLongAfterABreak(t *testing.T) { TestAfterABreak(t) }
