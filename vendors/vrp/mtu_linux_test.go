package vrp

import (
	"errors"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// TestFullSizeFrames: frames of full size with their tags pass where csig has set the MTU that they
// need, and not before; afterwards each port has what it had.
func TestFullSizeFrames(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		l := newLab(t, platform, &plane.Memory{})
		in, out, other := l.ports[0], l.ports[1], l.ports[2]
		l.Type("interface "+in, "jumboframe enable 1540", "quit", "interface "+out, "jumboframe enable 1550", "quit")
		before := l.Running()
		const mtu, longest = 1554, 1554 + 18
		sent := 1550 // what the port takes that frames leave by
		if platform == CloudEngine {
			sent = longest // no matter there
		}
		look := func(when string, most int) {
			t.Helper()
			for length, want := range map[int]bool{most: true, most + 1: false} {
				if got := l.plane.Passes(t, 2, []plane.Tag{{TPID: csigTPID, TCI: 0x2385}}, length); got != want {
					t.Errorf("%s: a frame of %d bytes passes: %v", when, length, got)
				}
			}
		}
		look("before", 1540)
		got, err := l.driver.MTUs(t.Context())
		if err != nil || got[in] != 1522 || got[out] != 1532 || got[other] != 9198 {
			t.Fatalf("%v, %v", got, err)
		}
		set := func(port string, mtu int) {
			t.Helper()
			if err := l.driver.SetMTU(t.Context(), port, mtu); err != nil {
				t.Fatal(err)
			}
		}
		set(in, mtu)
		look("at the port that they come in by", sent)
		set(out, mtu)
		look("at both", longest)
		l.apply(t, setupFor(update(out)...))
		look("with a setup", longest)
		if have, err := l.driver.MTUs(t.Context()); err != nil || have[in] != mtu || have[out] != mtu || have[other] != got[other] {
			t.Errorf("%v, %v", have, err)
		}
		set(in, got[in]) // as a rollback does
		look("one is as it was", 1540)
		set(other, mtu) // it had the default
		if err := l.driver.Remove(t.Context()); err != nil || l.Running() != before {
			t.Errorf("%v, left:\n%s\nbefore:\n%s", err, l.Running(), before)
		}
		if l.Saves() > 0 {
			t.Error("the configuration was saved")
		}
	})
}

// TestMTU: what csig cannot set, what another user has set since, and a session that ends.
func TestMTU(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		before := b.Running()
		for want, try := range map[string]struct {
			port string
			mtu  int
		}{
			"no such interface": {"100GE1/0/9", 1600},
			"1536 at least":     {b.p1, 1500},
			"Wrong parameter":   {b.p1, 15000},
		} {
			if err := b.driver.SetMTU(t.Context(), try.port, try.mtu); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if b.Running() != before {
			t.Errorf("left:\n%s", b.Running())
		}
		b.Type("interface "+b.p2, "eth-trunk 7", "quit")
		if err := b.driver.SetMTU(t.Context(), b.p2, 9300); err == nil || !strings.Contains(err.Error(), "a member of Eth-Trunk7") {
			t.Error(err)
		}
		b.Type("interface "+b.p2, "undo eth-trunk 7", "quit")
		if err := b.driver.SetMTU(t.Context(), b.p1, 9300); err != nil {
			t.Fatal(err)
		}
		if s, err := b.driver.Observe(t.Context()); err != nil || !s.Nothing() {
			t.Errorf("an MTU is a setup: %+v, %v", s, err)
		}
		// Another user's stays.
		b.Type("interface "+b.p1, "jumboframe enable 9400", "quit")
		if err := b.driver.SetMTU(t.Context(), b.p1, 9216-18); !errors.As(err, new(*vendors.ForeignError)) {
			t.Error(err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || !strings.Contains(b.Running(), " jumboframe enable 9400\n") || strings.Contains(b.Running(), qos.Prefix) {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
		b.Type("interface "+b.p1, "undo jumboframe enable", "quit")
		// The session ends at a line, before it is carried out and after.
		for _, half := range []bool{false, true} {
			for _, head := range []string{"traffic behavior csig-mtu", "interface ", "jumboframe enable 90", "undo traffic behavior csig-mtu", "undo jumboframe enable", "display interface"} {
				b.server.Set(clitest.Faults{Half: half, Drop: func(line string) bool { return strings.HasPrefix(line, head) }})
				failed := b.driver.SetMTU(t.Context(), b.p1, 9000)
				if failed == nil {
					failed = b.driver.Remove(t.Context())
				}
				if failed == nil {
					t.Errorf("%s: the session ended, and nothing was reported", head)
				}
				b.server.Set(clitest.Faults{})
				if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("%s, half %v: %v, left:\n%s", head, half, err, b.Running())
				}
			}
		}
	})
}
