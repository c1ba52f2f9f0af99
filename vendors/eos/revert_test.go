package eos

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// TestRemove gives back what was there, and leaves alone what is another user's.
func TestRemove(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Type("directflow", "flow theirs", "priority 5", "match input interface Ethernet1", "match destination mac 02:00:00:00:00:02", "action output interface Ethernet2")
		b.Type("interface Ethernet3/1", "switchport dot1q ethertype 0x9900") // the operator's own
		before := b.Running()
		b.apply(t, setupFor(ports[1], ports[2]))
		if running := b.Running(); !strings.Contains(running, "mac access-list csig-tpid-Ethernet1\n") || strings.Contains(running, "csig-tpid-Ethernet3_1") || strings.Count(running, "dot1q ethertype 0x9900") != 3 {
			t.Error(running)
		}
		if _, err := b.driver.Update(t.Context(), to(ports[2], 7), time.Minute); err != nil {
			t.Fatal(err)
		}
		with := setupFor(ports[1])
		with.Ports = append(with.Ports, vendors.PortSetup{Port: ports[2]})
		b.apply(t, with)
		if have, err := b.driver.Observe(t.Context()); err != nil || !slices.Equal(have.Ports, with.Ports) {
			t.Errorf("%+v, %v", have, err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v, left:\n%s\nwant:\n%s", err, b.Running(), before)
		}
		changes := b.Changes()
		if err := b.driver.Remove(t.Context()); err != nil || b.Changes() != changes {
			t.Errorf("%v, or a second Remove wrote", err)
		}
	})
}

// TestRevert: a change on trial is taken back unless it is confirmed, also over another
// connection.
func TestRevert(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		before := b.Running()
		start := func() string {
			t.Helper()
			token, err := b.driver.StartRevert(t.Context(), 90*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			b.server.Forget()
			b.apply(t, setupFor(ports[1]))
			if !slices.Contains(b.server.Lines(), "commit timer 00:01:30") {
				t.Errorf("%q", b.server.Lines())
			}
			return token
		}
		token := start()
		var pending *vendors.PendingRevertError
		if err := b.driver.PendingRevert(t.Context()); !errors.As(err, &pending) {
			t.Error(err)
		}
		if _, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err == nil || !strings.Contains(err.Error(), "commit timer") {
			t.Errorf("an update while a change is on trial: %v", err)
		}
		time.Sleep(91 * time.Second)
		if b.Running() != before {
			t.Error("it was not taken back")
		}
		if err := b.driver.Confirm(t.Context(), token); !errors.Is(err, vendors.ErrReverted) {
			t.Error(err)
		}
		token = start()
		next := Open(b.driver.cfg)
		defer next.Close()
		if err := next.Confirm(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(91 * time.Second)
		if err := b.driver.PendingRevert(t.Context()); err != nil || b.Running() == before {
			t.Errorf("%v, or the confirmed change is gone", err)
		}
		if _, err := next.Update(t.Context(), to(ports[1], 7), time.Minute); err != nil {
			t.Error(err)
		}
		// A trial of a setup that is there already is none of later changes.
		if _, err := next.StartRevert(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := next.Update(t.Context(), to(ports[1], 8), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := next.Apply(t.Context(), setupFor(ports[1])); err != nil {
			t.Fatal(err)
		}
		if _, err := next.Update(t.Context(), to(ports[1], 9), time.Minute); err != nil || len(b.Sessions()) > 0 {
			t.Errorf("%v, %v", err, b.Sessions())
		}
		// A trial of another process is confirmed by the next: the device was reached.
		if err := next.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		start()
		if _, err := next.StartRevert(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(91 * time.Second)
		if b.Running() == before {
			t.Error("the trial before was not confirmed")
		}
	})
}
