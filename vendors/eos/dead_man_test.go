package eos

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// fellBack compares how many ports have so many flows of the dead-man.
func (b *bench) fellBack(t testing.TB, flows, want int) {
	t.Helper()
	v, err := parse(strings.Split(b.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, port := range ports[1:] {
		if len(b.driver.fallen(v, port)) == flows {
			n++
		}
	}
	if n != want {
		t.Errorf("%d ports have fallen back, want %d", n, want)
	}
}

// TestDeadMan: with renewals it never fires, and without it does within the time that it
// states, at every port; renewing is no change of configuration.
func TestDeadMan(t *testing.T) {
	t.Parallel()
	const n = 2 // signals, and ports
	for _, after := range []time.Duration{time.Second, 40 * time.Second, time.Hour} {
		clitest.Run(t, after.String(), func(t *testing.T) {
			b := newBench(t, nil)
			before := b.Running()
			setup := setupFor(ports[1 : n+1]...)
			setup.Signals = setup.Signals[:n]
			b.apply(t, setup)
			within, err := b.driver.ArmDeadMan(t.Context(), after)
			if err != nil || within < after {
				t.Fatalf("%v, %v", within, err)
			}
			fired := func(want bool) {
				t.Helper()
				if got, err := b.driver.DeadManFired(t.Context()); err != nil || got != want {
					t.Fatalf("%v: fired %t, %v", after, got, err)
				}
				b.fellBack(t, 5*n, map[bool]int{true: n}[want])
			}
			b.Pass(within / 3)
			fired(false)
			b.Pass(within - within/3)
			fired(true)
			if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) {
				t.Error(err)
			}
			// Armed again, the next update takes its flows out, behind new ones.
			if _, err := b.driver.ArmDeadMan(t.Context(), after); err != nil {
				t.Fatal(err)
			}
			b.fellBack(t, 5*n, n)
			both := append(to(ports[1], 7), to(ports[2], 7)...)[:n]
			for i := range both {
				both[i].Intents = both[i].Intents[:n]
			}
			if _, err := b.driver.Update(t.Context(), both, time.Minute); err != nil {
				t.Fatal(err)
			}
			changes := b.Changes()
			for range 6 {
				b.Pass(within / 3)
				if err := b.driver.RenewDeadMan(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			fired(false)
			if b.Changes() != changes {
				t.Error("renewing has changed the configuration")
			}
			b.has(t, ports[1], both[0].Intents)
			// What it writes while no process is there, the next one finds.
			b.Pass(within)
			b.fellBack(t, 5*n, n)
			next := Open(b.driver.cfg)
			defer next.Close()
			if _, err := next.ArmDeadMan(t.Context(), after); err != nil {
				t.Fatal(err)
			}
			if _, err := next.Update(t.Context(), both, time.Minute); err != nil {
				t.Fatal(err)
			}
			b.fellBack(t, 5*n, 0)
			b.Pass(within)
			if err := next.Remove(t.Context()); err != nil || b.Running() != before {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
		})
	}
}

// TestDeadManTampered: one that another user has changed or removed counts as fired: nothing
// relies on it.
func TestDeadManTampered(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1]))
		for _, lines := range [][]string{
			{"no event-handler HANDLER"},
			{"event-handler HANDLER", "action bash FastCli -p15 -c $'show version'"},
			{"event-handler HANDLER", "trigger on-counters", `condition bashCmd."awk '{ t[NR] = $1 } END { print int(t[1] - t[2]) }' /proc/uptime /tmp/csig-alive" > 99999`},
		} {
			if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "HANDLER", sorted(b.driver.armed)[0])
			}
			b.Type(lines...)
			if err := b.driver.RenewDeadMan(t.Context()); !errors.Is(err, vendors.ErrDeadManFired) || !strings.Contains(err.Error(), "another user") {
				t.Errorf("%q: %v", lines, err)
			}
		}
	})
}

// TestDeadManRefused: where it cannot work it is not armed.
func TestDeadManRefused(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		passing := setupFor(ports[1])
		passing.OnStale = inventory.StalePassthrough
		b.apply(t, passing)
		if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "on_stale: passthrough") {
			t.Error(err)
		}
		b.apply(t, setupFor(ports[1]))
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			return "% Authorization denied for command 'bash'\r\n", strings.HasPrefix(line, "bash ")
		}})
		before := b.Running()
		if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "which the account has to be allowed") || b.Running() != before {
			t.Error(err)
		}
		// Flows that are not in hardware are no proof.
		b.server.Set(clitest.Faults{})
		within, err := b.driver.ArmDeadMan(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.Changed = func(flows []eostest.Flow) int { return 4 }
		b.Pass(within)
		if fired, err := b.driver.DeadManFired(t.Context()); fired || err == nil || !strings.Contains(fmt.Sprint(err), "not in hardware") {
			t.Errorf("%t, %v", fired, err)
		}
	})
}

// TestDeadManWritesLate: an action of the dead-man that is under way when everything of csig's is
// removed leaves no flow behind.
func TestDeadManWritesLate(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		before := b.Running()
		b.apply(t, setupFor(ports[1]))
		if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		name := sorted(b.driver.armed)[0]
		_, action, _ := strings.Cut(strings.TrimSuffix(b.driver.armed[name][0], "'"), "$'")
		late := 0
		b.server.Set(clitest.Faults{After: func(line string) {
			if line == "commit" && !strings.Contains(b.Running(), name) {
				if late++; late == 1 {
					b.Type(strings.Split(action, `\n`)[1:]...) // configure
				}
			}
		}})
		next := Open(b.driver.cfg) // its agent is gone
		defer next.Close()
		if err := next.Remove(t.Context()); err != nil || late != 2 || b.Running() != before {
			t.Errorf("%v, %d commits, left:\n%s", err, late, b.Running())
		}
	})
}

// TestDeadManWritesLateAtAPort: the same where one of two ports goes: it is restored.
func TestDeadManWritesLateAtAPort(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1], ports[2]))
		if _, err := b.driver.ArmDeadMan(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		armed := b.driver.armed
		b.apply(t, setupFor(ports[1]))
		for _, name := range sorted(armed) {
			if flow := prefix + strings.TrimPrefix(name, deadFlows); b.driver.portOf(flow) == ports[2] {
				_, action, _ := strings.Cut(strings.TrimSuffix(armed[name][0], "'"), "$'")
				b.Type(strings.Split(action, `\n`)[1:]...)
			}
		}
		if have, err := b.driver.Observe(t.Context()); err != nil || !strings.Contains(have.Damaged, "has written a flow at "+ports[2]) {
			t.Errorf("%q, %v", have.Damaged, err)
		}
		time.Sleep(2 * reconcile.Every)
		if res, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err != nil || res.Repaired == nil {
			t.Errorf("%+v, %v", res, err)
		}
		b.fellBack(t, 0, 2)
	})
}
