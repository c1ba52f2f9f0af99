package comware

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestDeadManCrash ends csig at lines of arming, of arming after it has fired, and of
// removing it: another process removes all of it.
func TestDeadManCrash(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
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
					line += vendorstest.Every(t, 5)
				}
				if done {
					if line < 15 {
						t.Errorf("way %d: it was ended at %d lines only", way, line)
					}
					break
				}
			}
		}
	})
}

// TestLongDeadManCrash is TestDeadManCrash at every line.
func TestLongDeadManCrash(t *testing.T) { TestDeadManCrash(t) }

// TestDeadManGuards ends csig at lines of what replaces or removes a dead-man: ports have
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
		clitest.Run(t, name, func(t *testing.T) {
			lines := 0
			for done := false; !done; lines += vendorstest.Every(t, 5) {
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
				for i := range v.Ports {
					p := v.Ports[i]
					if has := b.values(t, p.Name); outbound(p) == qos.PolicyName(p.Name) && !slices.Contains([]string{"125a 4093a", "125a", ""}, has) && !guard {
						t.Fatalf("line %d: port %s has %s without a dead-man:\n%s", lines, p.Name, has, b.Running())
					}
				}
			}
			if lines < 15 {
				t.Errorf("it was ended at %d lines only", lines)
			}
		})
	}
}

// TestLongDeadManGuards is TestDeadManGuards at every line.
func TestLongDeadManGuards(t *testing.T) { TestDeadManGuards(t) }

// TestEcho: this process sends probes back in the time after a renewal, and not later, by a real
// socket.
func TestEcho(t *testing.T) {
	t.Parallel()
	b, _ := near(t)
	b.driver.cfg.Listen = net.ListenPacket
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
		if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
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
		if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
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
