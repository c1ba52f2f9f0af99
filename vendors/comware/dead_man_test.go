package comware

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// pass lets time go by on the switch and in csig, which answers probes as it may.
func (b *bench) pass(by time.Duration) {
	b.Pass(by, b.probe)
}

// fallen reports whether ports have fallen back, by the switch's configuration.
func (b *bench) fallen(t testing.TB) bool {
	t.Helper()
	n := 0
	v := b.view(t)
	for i := range v.Ports {
		if outbound(v.Ports[i]) == deadPolicy {
			n++
		}
	}
	if n != 0 && n != 2 {
		t.Errorf("%d ports have fallen back", n)
	}
	return n > 0
}

func (b *bench) arm(t testing.TB, after time.Duration) time.Duration {
	t.Helper()
	made, err := b.driver.ArmDeadMan(t.Context(), after)
	if err != nil || made < after || made > max(after, deadLeast) {
		t.Fatalf("%v, %v", made, err)
	}
	return made
}

// TestDeadMan: with renewals it never fires, and without it does within the time that it
// states, at every port.
func TestDeadMan(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 30 * time.Second, 2 * time.Minute, time.Hour} {
		clitest.Run(t, after.String(), func(t *testing.T) {
			b, _ := near(t)
			before := b.Running()
			b.apply(t, plain(xge1, xge2))
			// It is let to fire once: nothing renews it.
			made := b.arm(t, after)
			b.pass(made / 2)
			if fired, err := b.driver.DeadManFired(t.Context()); err != nil || fired || b.fallen(t) {
				t.Fatalf("it has fired after half of its time, %v", err)
			}
			b.pass(made - made/2)
			if fired, err := b.driver.DeadManFired(t.Context()); err != nil || !fired || !b.fallen(t) {
				t.Fatalf("it has not fired within %v: %t, %v", made, fired, err)
			}
			b.arm(t, after)
			b.give(t, both(7))
			for range 20 {
				b.pass(made * 4 / 10)
				if err := b.driver.RenewDeadMan(t.Context()); err != nil || b.fallen(t) {
					t.Fatalf("it was renewed in time: %v", err)
				}
			}
			if b.values(t, xge1) != "901a 901a" {
				t.Error(b.values(t, xge1))
			}
			b.pass(made)
			if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) || !b.fallen(t) {
				t.Fatalf("it has not fired within %v of its renewal: %v", made, err)
			}
			if got := b.values(t, deadPort); got != "125a 4093a" {
				t.Errorf("ports have fallen back to %s", got)
			}
			// The next values are current ones, not those of before.
			b.arm(t, after)
			if b.fallen(t) || b.values(t, xge2) != "125a 4093a" {
				t.Errorf("armed again: %s", b.values(t, xge2))
			}
			b.give(t, both(9))
			if b.values(t, xge2) != "1157a 1157a" {
				t.Errorf("the port has %s", b.values(t, xge2))
			}
			if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
		})
	}
}

// TestFallenBack: a port that has fallen back is as csig leaves it, so a plan that is read back
// meanwhile holds; an agent that needs no dead-man gives the port its own policy again.
func TestFallenBack(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, _ := near(t)
		want := plain(xge1, xge2)
		b.apply(t, want)
		b.pass(b.arm(t, 30*time.Second))
		have, err := b.driver.Observe(t.Context())
		if err != nil || !b.fallen(t) {
			t.Fatalf("it has not fired: %v", err)
		}
		if changes, err := Diff(have, want); err != nil || len(changes) != 0 {
			t.Errorf("read back: %v, %v", changes, err)
		}
		defer b.driver.Close() // that of before
		b.driver = Open(b.driver.cfg)
		if res := b.give(t, both(7)); !strings.Contains(res.Repaired.String(), "fallen back") || b.fallen(t) || b.values(t, xge2) != "901a 901a" {
			t.Errorf("repaired %q, the port has %s", res.Repaired, b.values(t, xge2))
		}
	})
}

// TestDeadManInPart: a firing that leaves a port with its values, or out of the hardware, is no
// proof; for a renewal it is a firing.
func TestDeadManInPart(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, _ := near(t)
		room := 100
		b.Changed = func(list []comwaretest.Port) []int {
			held := make([]int, len(list))
			for i := range list {
				held[i] = min(room, len(list[i].Outbound))
			}
			return held
		}
		b.apply(t, plain(xge1, xge2))
		b.pass(b.arm(t, time.Minute))
		if fired, err := b.driver.DeadManFired(t.Context()); err != nil || !fired {
			t.Fatalf("%t, %v", fired, err)
		}
		room = 1
		b.Settle()
		if fired, err := b.driver.DeadManFired(t.Context()); err == nil || fired || !strings.Contains(err.Error(), "not in hardware") {
			t.Errorf("not in hardware: %t, %v", fired, err)
		}
		room = 100
		b.Settle()
		b.Type("interface "+xge2, "undo qos apply policy outbound", "qos apply policy "+qos.PolicyName(xge2)+" outbound", "quit")
		if fired, err := b.driver.DeadManFired(t.Context()); err != nil || fired {
			t.Errorf("at one of two ports: %t, %v", fired, err)
		}
		if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) {
			t.Error(err)
		}
	})
}

// TestDeadManLeavesForeignPolicies: it does not fall back where another policy is applied,
// before it is armed or later, and that policy stays when csig goes on.
func TestDeadManLeavesForeignPolicies(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		for _, later := range []bool{false, true} {
			b, _ := near(t)
			b.apply(t, plain(xge1, xge2))
			theirs := func() {
				b.Type("qos policy theirs", "quit", "interface "+xge2, "undo qos apply policy outbound", "qos apply policy theirs outbound", "quit")
			}
			if !later {
				theirs()
			}
			after := b.arm(t, time.Minute)
			if later {
				theirs()
			}
			b.pass(after) // the port's error is reported by updates
			has := func(what, first string) {
				t.Helper()
				v := b.view(t)
				if one, two := outbound(v.Port(xge1)), outbound(v.Port(xge2)); one != first || two != "theirs" {
					t.Errorf("later: %v, %s: the ports have %s and %s", later, what, one, two)
				}
			}
			has("fired", deadPolicy)
			b.arm(t, time.Minute)
			has("armed again", qos.PolicyName(xge1))
			time.Sleep(2 * reconcile.Every)
			_, err := b.driver.Update(t.Context(), both(7), time.Minute)
			if err == nil || !strings.Contains(err.Error(), "port "+xge2+": QoS policy theirs is applied") {
				t.Error(err)
			}
			has("updated", qos.PolicyName(xge1))
		}
	})
}

// TestDeadManAndForeignTPID: arming refuses a switch whose TPID another user has set.
func TestDeadManAndForeignTPID(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, _ := near(t)
		b.apply(t, plain(xge1, xge2))
		b.arm(t, time.Minute)
		b.Type("qinq ethernet-type customer-tag 88a8")
		if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "88a8") || !strings.Contains(b.Running(), "customer-tag 88a8") {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestDeadManWithoutProbes: one whose probes do not reach csig, and that does not fire, is an
// error, after it is armed and later.
func TestDeadManWithoutProbes(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, _ := near(t)
		b.apply(t, plain(xge1, xge2))
		made := b.arm(t, time.Minute)
		b.Pass(10*made, func(string) bool { return false })
		if fired, err := b.driver.DeadManFired(t.Context()); err == nil || !strings.Contains(err.Error(), "no probe") || fired {
			t.Errorf("%t, %v", fired, err)
		}
		if err := b.driver.RenewDeadMan(t.Context()); err == nil || errors.Is(err, vendors.ErrDeadManFired) {
			t.Errorf("renewed without probes: %v", err)
		}
		b.pass(time.Second)
		b.arm(t, time.Minute)
		for range 3 {
			b.pass(made * 4 / 10)
			if err := b.driver.RenewDeadMan(t.Context()); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(made) // no probe comes from here on
		if err := b.driver.RenewDeadMan(t.Context()); err == nil || errors.Is(err, vendors.ErrDeadManFired) {
			t.Errorf("renewed without probes: %v", err)
		}
	})
}

// TestDeadManMoves: armed from a session that has another address, the probes go there.
func TestDeadManMoves(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, _ := near(t)
		b.apply(t, plain(xge1, xge2))
		b.arm(t, time.Minute)
		old, err := b.network.Listen("[::1]:0")
		if err != nil {
			t.Fatal(err)
		}
		was := b.driver.dead.conn
		b.driver.dead.conn = old // as if the first session had come from there
		if err := was.Close(); err != nil {
			t.Fatal(err)
		}
		b.arm(t, time.Minute)
		if at := b.driver.dead.conn.LocalAddr().String(); !strings.HasPrefix(at, "127.0.0.1:") {
			t.Errorf("probes are expected at %s", at)
		}
		if _, err := old.WriteTo([]byte("x"), old.LocalAddr()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the old address is still open: %v", err)
		}
	})
}

// TestDeadManOfOthers: setups change, processes come and go, and users take it away.
func TestDeadManOfOthers(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, _ := near(t)
		b.Type("nqa entry their own", "type udp-echo", "quit", "track 1024 nqa entry their own reaction 1", "quit")
		before := b.Running()
		b.apply(t, plain(xge1, xge2))
		if err := b.driver.RenewDeadMan(t.Context()); err == nil {
			t.Error("it is renewed, and was not armed")
		}
		b.arm(t, time.Minute)
		if !strings.Contains(b.Running(), " track 1023 nqa entry csig-agent alive reaction 1") {
			t.Errorf("its track entry:\n%s", b.Running())
		}
		next := Open(b.driver.cfg)
		defer next.Close()
		if made, err := next.ArmDeadMan(t.Context(), time.Minute); err != nil || strings.Count(b.Running(), "csig-agent alive reaction") != 1 {
			t.Errorf("another process: %v, %v\n%s", made, err, b.Running())
		}
		b.Pass(time.Minute, func(string) bool { return false })
		if b.fallen(t) {
			t.Error("it fires without a probe that was answered")
		}
		b.arm(t, time.Minute)
		b.apply(t, plain(xge1)) // it is of the ports of before
		if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) || strings.Contains(b.Running(), "rtm cli-policy") {
			t.Errorf("%v\n%s", err, b.Running())
		}
		b.arm(t, time.Minute)
		b.Type("undo rtm cli-policy " + deadPolicy)
		if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) {
			t.Error(err)
		}
		for _, part := range [][]string{
			{"undo track 1023"},
			{"undo rtm cli-policy " + deadPolicy, "rtm cli-policy " + deadPolicy, "event track 1024 state negative", "action 0 cli system-view", "commit", "quit"},
			{"undo nqa schedule csig-agent alive"},
		} {
			b.arm(t, time.Minute)
			b.Type(part...)
			if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) {
				t.Errorf("after %q: %v", part, err)
			}
		}
		b.arm(t, time.Minute)
		if err := b.driver.RenewDeadMan(t.Context()); err != nil {
			t.Error(err)
		}
		if err := Open(b.driver.cfg).Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
		// Without EAA nothing is left of what could not be armed.
		b.apply(t, plain(xge1))
		b.NoEAA = true
		if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "rtm cli-policy") || strings.Contains(b.Running(), "csig-agent") {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}
