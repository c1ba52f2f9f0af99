package comware

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestCrash ends csig at lines of what leads from a setup to another: what it leaves,
// another process can finish, or remove without a trace.
func TestCrash(t *testing.T) {
	t.Parallel()
	stale := plain(xge1, xge2)
	stale.OnStale, stale.Signals = "passthrough", stale.Signals[:1]
	other := plain(xge1, xge2)
	other.TPID = 0x9901
	setups := []vendors.Setup{plain(xge1), stale, plain(xge2), other, plain()}
	for way := range 2 * (len(setups) + 1) {
		way, isOuter := way/2, way%2 == 1
		clitest.Run(t, fmt.Sprint(way, isOuter), func(t *testing.T) {
			b, cut := nearAt(t, map[bool]qos.Position{false: qos.Inner, true: qos.Outer}[isOuter])
			before := b.Running()
			for line, half := 0, false; ; {
				if way > 0 {
					b.apply(t, setups[way-1])
				}
				cut.left, cut.after = line, half
				d := Open(b.driver.cfg)
				var err error
				if way < len(setups) {
					err = d.Apply(t.Context(), setups[way])
				} else {
					err = d.Remove(t.Context())
				}
				done := cut.left >= 0
				if cut.left = -1; done != (err == nil) {
					t.Fatalf("line %d: %v", line, err)
				}
				// What it leaves is the new setup, or is seen not to be.
				if way < len(setups) && half {
					changes, err := Diff(b.view(t).Setup(b.driver.At), setups[way])
					before := b.Running()
					b.apply(t, setups[way])
					if err != nil || len(changes) == 0 && b.Running() != before {
						t.Fatalf("line %d: nothing is to do, %v, in\n%s\nand then it is\n%s", line, err, before, b.Running())
					}
				}
				if way < len(setups) && half {
					b.apply(t, setups[way])
					if have, err := b.driver.Observe(t.Context()); err != nil || have.Damaged != "" || len(have.Ports) != len(setups[way].Ports) || len(b.view(t).Records()) != 1 {
						t.Fatalf("line %d, finished: %+v, %v", line, have, err)
					}
				}
				if err := Open(b.driver.cfg).Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("line %d: %v, left:\n%s", line, err, b.Running())
				}
				if half = !half; !half {
					line += vendorstest.Every(t, 5)
				}
				if done {
					if line < 4 {
						t.Errorf("it was ended at %d lines only", line)
					}
					break
				}
			}
		})
	}
}

// TestLongCrash is TestCrash at every line.
func TestLongCrash(t *testing.T) { TestCrash(t) }

// TestCardGone: what was at an interface that is not there any more is removed, too.
func TestCardGone(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		before := b.Running()
		b.apply(t, plain(xge1))
		b.Type("qos policy csig-Ten-GigabitEthernet9/0/1", "classifier csig-i0-128-4094a behavior csig-i125a", "quit", "qos policy csig-their-own", "classifier theirs behavior theirs")
		if err := b.driver.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Type("undo qos policy csig-their-own", "undo traffic classifier theirs", "undo traffic behavior theirs")
		if b.Running() != before {
			t.Errorf("left:\n%s", b.Running())
		}
		// In the middle of a change: it is that port's error.
		b.apply(t, plain(xge1))
		if _, err := b.driver.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone := plain(xge1, "Ten-GigabitEthernet9/0/1")
		b.driver.Start(&gone)
		if err := b.driver.Program(t.Context()); err == nil || !strings.Contains(err.Error(), "no such interface any more") {
			t.Error(err)
		}
	})
}

// TestFrozen: a series that does not let applied policies change says so, and the signal is
// not taken for written.
func TestFrozen(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		b.apply(t, plain(xge1))
		b.Frozen = true
		var refused *cli.RefusedError
		var port *vendors.PortError
		for range 2 {
			if res, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); !errors.As(err, &refused) || !errors.As(err, &port) || !strings.Contains(refused.Answer, "cannot be modified") || res.Ops > 0 {
				t.Errorf("%+v, %v", res, err)
			}
		}
	})
}
