package comware

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
)

// pass lets time go by on the switch and in csig, which answers probes as it may.
func (b *bench) pass(by time.Duration) {
	end := b.clock + by
	b.Pass(by, func(address string, at time.Duration) bool {
		b.clock = at
		m := b.driver.dead
		return m != nil && address == m.conn.LocalAddr().String() && m.answers(b.driver.cfg.Now(), netip.MustParseAddr("192.0.2.9"))
	})
	b.clock = end
}

// fallen reports whether ports have fallen back, by the switch's configuration.
func (b *bench) fallen(t testing.TB) bool {
	t.Helper()
	n := 0
	v := b.view(t)
	for i := range v.ports {
		if v.ports[i].outbound == deadPolicy {
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
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
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

// TestDeadManInPart: a firing that leaves a port with its values, or out of the hardware, is no
// proof; for a renewal it is a firing.
func TestDeadManInPart(t *testing.T) {
	t.Parallel()
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
	b.Type("interface "+xge2, "undo qos apply policy outbound", "qos apply policy "+policyName(xge2)+" outbound", "quit")
	if fired, err := b.driver.DeadManFired(t.Context()); err != nil || fired {
		t.Errorf("at one of two ports: %t, %v", fired, err)
	}
	if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) {
		t.Error(err)
	}
}

// TestDeadManLeavesForeignPolicies: it does not fall back where another policy is applied.
func TestDeadManLeavesForeignPolicies(t *testing.T) {
	t.Parallel()
	b, _ := near(t)
	b.apply(t, plain(xge1, xge2))
	b.Type("qos policy theirs", "quit", "interface "+xge2, "undo qos apply policy outbound", "qos apply policy theirs outbound", "quit")
	b.pass(b.arm(t, time.Minute)) // the port's error is reported by updates
	v := b.view(t)
	if one, two := v.port(xge1).outbound, v.port(xge2).outbound; one != deadPolicy || two != "theirs" {
		t.Errorf("fired, the ports have %s and %s", one, two)
	}
}

// TestDeadManWithoutProbes: one whose probes do not reach csig, and that does not fire, is an
// error, after it is armed and later.
func TestDeadManWithoutProbes(t *testing.T) {
	t.Parallel()
	b, _ := near(t)
	b.apply(t, plain(xge1, xge2))
	made := b.arm(t, time.Minute)
	b.Pass(10*made, func(string, time.Duration) bool { return false })
	b.clock += 10 * made
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
	b.clock += made // no probe comes from here on
	if err := b.driver.RenewDeadMan(t.Context()); err == nil || errors.Is(err, vendors.ErrDeadManFired) {
		t.Errorf("renewed without probes: %v", err)
	}
}

// TestDeadManMoves: armed from a session that has another address, the probes go there.
func TestDeadManMoves(t *testing.T) {
	t.Parallel()
	b, _ := near(t)
	b.apply(t, plain(xge1, xge2))
	b.arm(t, time.Minute)
	old, err := net.ListenPacket("udp", "[::1]:0")
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
}

// TestDeadManOfOthers: setups change, processes come and go, and users take it away.
func TestDeadManOfOthers(t *testing.T) {
	t.Parallel()
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
	b.pass(time.Minute) // the probes go to the next process: for this one they are lost
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
}

// TestDeadManCrash ends csig at every line of arming, of arming after it has fired, and of
// removing it: another process removes all of it.
func TestDeadManCrash(t *testing.T) {
	t.Parallel()
	b, cut := near(t)
	before := b.Running()
	for way := range 3 {
		for line, half := 0, false; ; {
			b.apply(t, plain(xge1, xge2))
			if way > 0 {
				b.pass(b.arm(t, time.Minute))
				if !b.fallen(t) {
					t.Fatal("it has not fired")
				}
			}
			cut.left, cut.after = line, half
			var err error
			if way < 2 {
				_, err = b.driver.ArmDeadMan(t.Context(), time.Minute)
			} else {
				err = b.driver.Remove(t.Context())
			}
			done := cut.left >= 0
			if cut.left = -1; done != (err == nil) {
				t.Fatalf("way %d, line %d: %v", way, line, err)
			}
			if err := Open(b.driver.cfg).Remove(t.Context()); err != nil || b.Running() != before {
				t.Fatalf("way %d, line %d: %v, left:\n%s", way, line, err, b.Running())
			}
			if half = !half; !half {
				line++
			}
			if done {
				if line < 15 {
					t.Errorf("way %d: it was ended at %d lines only", way, line)
				}
				break
			}
		}
	}
}

// TestDeadManGuards ends csig at every line of what replaces or removes a dead-man: ports have
// values of csig's only while one is there that would withdraw them.
func TestDeadManGuards(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench) error{
		"armed by the next agent": func(b *bench) error {
			d := Open(b.driver.cfg)
			_, err := d.ArmDeadMan(t.Context(), 2*time.Minute)
			return errors.Join(err, d.Close())
		},
		"off": func(b *bench) error { return Open(b.driver.cfg).Remove(t.Context()) },
		"other signals": func(b *bench) error {
			s := plain(xge1, xge2)
			s.Signals = s.Signals[:1]
			return b.driver.Apply(t.Context(), s)
		},
		"fewer ports": func(b *bench) error { return b.driver.Apply(t.Context(), plain(xge2)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := 0
			for done := false; !done; lines++ {
				b, cut := near(t)
				b.apply(t, plain(xge1, xge2))
				b.arm(t, time.Minute)
				b.give(t, both(7))
				cut.left = lines
				err := end(b)
				if done = cut.left >= 0; done != (err == nil) {
					t.Fatalf("line %d: %v", lines, err)
				}
				cut.left = -1
				v := b.view(t)
				guard := v.probe && v.scheduled && v.track > 0 && v.rtm
				for i := range v.ports {
					p := &v.ports[i]
					if has := b.values(t, p.name); p.outbound == policyName(p.name) && !slices.Contains([]string{"125a 4093a", "125a", ""}, has) && !guard {
						t.Fatalf("line %d: port %s has %s without a dead-man:\n%s", lines, p.name, has, b.Running())
					}
				}
			}
			if lines < 15 {
				t.Errorf("it was ended at %d lines only", lines)
			}
		})
	}
}

// TestEcho: this process sends probes back in the time after a renewal, and not later.
func TestEcho(t *testing.T) {
	t.Parallel()
	b, _ := near(t)
	b.apply(t, plain(xge1))
	b.arm(t, time.Minute)
	c, err := net.Dial("udp", b.driver.dead.conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func(text string) {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, 100)
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(got); err != nil || string(got[:n]) != want {
			t.Fatalf("%q, %v, want %q", got[:n], err, want)
		}
	}
	send("one")
	expect("one")
	send("two") // too soon for a second: it is lost
	m := b.driver.dead
	for seen := ""; seen != "three"; {
		m.mu.Lock()
		m.last = nil
		m.mu.Unlock()
		send("three")
		got := make([]byte, 100)
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		seen = string(got[:n])
	}
	ask := func(at time.Time, from string) bool { return m.answers(at, netip.MustParseAddr(from)) }
	if end := m.until.Add(-1); ask(m.until, "192.0.2.1") || !ask(end, "192.0.2.1") || ask(end, "192.0.2.1") || !ask(end, "192.0.2.2") {
		t.Error("probes are answered after their time, or not before its end")
	}
	if err := b.driver.Close(); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(deadTimesOf(time.Minute)) != "{1m0s 40s 4s 3s}" {
		t.Error(deadTimesOf(time.Minute))
	}
}
