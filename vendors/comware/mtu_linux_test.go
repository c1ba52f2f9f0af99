package comware

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
	clitest.Virtual(t, func(t *testing.T) {
		for _, at := range []qos.Position{qos.Inner, qos.Outer} {
			l := newLab(t, at, &plane.Memory{})
			l.Type("interface "+ports[0], "undo jumboframe enable", "quit", "interface "+ports[1], "jumboframe enable 1540")
			before := l.Running()
			const mtu = 1554 // of the payload and the CSIG tag
			longest := mtu + 18
			if at == qos.Inner {
				longest += 4
			}
			look := func(when string, most int) {
				t.Helper()
				for length, want := range map[int]bool{most: true, most + 1: false} {
					if got := l.plane.Passes(t, 2, l.stack(0x2385), length); got != want {
						t.Errorf("%s tag, %s: a frame of %d bytes passes: %v", at, when, length, got)
					}
				}
			}
			look("before", 1536)
			got, err := l.driver.MTUs(t.Context())
			if err != nil || got[ports[0]] != 1536-longest+mtu || got[ports[1]] != 1540-longest+mtu || got[ports[2]] != 9216-longest+mtu {
				t.Fatalf("%v, %v", got, err)
			}
			for i, p := range ports[:2] {
				if err := l.driver.SetMTU(t.Context(), p, mtu); err != nil {
					t.Fatal(err)
				}
				look("after "+p, []int{1540, longest}[i])
			}
			l.apply(t, setupFor(update(ports[1])...))
			look("with a setup", longest)
			if have, err := l.driver.MTUs(t.Context()); err != nil || have[ports[0]] != mtu || have[ports[1]] != mtu || have[ports[2]] != got[ports[2]] {
				t.Errorf("%v, %v", have, err)
			}
			if err := l.driver.SetMTU(t.Context(), ports[0], got[ports[0]]); err != nil { // as a rollback does
				t.Fatal(err)
			}
			look("one is as it was", 1536)
			if err := l.driver.Remove(t.Context()); err != nil || l.Running() != before {
				t.Errorf("%v, left:\n%s\nbefore:\n%s", err, l.Running(), before)
			}
			if l.Saves() > 0 {
				t.Error("the configuration was saved")
			}
		}
	})
}

// TestMTU: what csig cannot set, what another user has set since, and a session that ends.
func TestMTU(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Longest = 1600
		before := b.Running()
		refused := func(port string, mtu int, want string) {
			t.Helper()
			if err := b.driver.SetMTU(t.Context(), port, mtu); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d: %v, want %s", port, mtu, err, want)
			}
		}
		refused("Ten-GigabitEthernet1/0/9", 1600, "no such interface")
		refused(xge1, 1500, "1536 at least")
		refused(xge1, 9990, "Wrong parameter")
		if b.Running() != before {
			t.Errorf("left:\n%s", b.Running())
		}
		set := func(mtu int) {
			t.Helper()
			if err := b.driver.SetMTU(t.Context(), xge1, mtu); err != nil {
				t.Fatal(err)
			}
		}
		// A second value keeps what was there first.
		set(9000)
		refused(xge1, 9990, "Wrong parameter")
		set(9100)
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
		set(9000)
		changes := b.Changes()
		if set(9000); b.Changes() != changes {
			t.Error("what it has was written again")
		}
		// Another user's stays.
		b.Type("interface "+xge1, "jumboframe enable 9500")
		if err := b.driver.SetMTU(t.Context(), xge1, 1600-22); !errors.As(err, new(*vendors.ForeignError)) {
			t.Errorf("%v", err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || !strings.Contains(b.Running(), " jumboframe enable 9500\n") || strings.Contains(b.Running(), qos.Prefix) {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
		b.Type("interface "+xge1, "jumboframe enable 1600")
		// The session ends at a line, before it is carried out and after.
		for _, half := range []bool{false, true} {
			for _, head := range []string{"traffic behavior csig-mtu", "interface ", "jumboframe enable 90", "undo traffic behavior csig-mtu", "jumboframe enable 1600"} {
				b.server.Set(clitest.Faults{Half: half, Drop: func(line string) bool { return strings.HasPrefix(line, head) }})
				failed := b.driver.SetMTU(t.Context(), xge1, 9000)
				if failed == nil {
					failed = b.driver.Remove(t.Context())
				}
				if failed == nil {
					t.Errorf("%s: the session ended, and nothing was said", head)
				}
				b.server.Set(clitest.Faults{})
				if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("%s, half %v: %v, left:\n%s", head, half, err, b.Running())
				}
			}
		}
	})
}

// TestMTUUnread: a switch that reports no longest frame has no MTU that csig could set.
func TestMTUUnread(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Silent = true
		if got, err := b.driver.MTUs(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
		if err := b.driver.SetMTU(t.Context(), xge1, 9000); err == nil || !strings.Contains(err.Error(), "does not report its longest frame") {
			t.Error(err)
		}
	})
}
