package ovs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLook: what the driver sees is what is there, whatever it did itself.
func TestLook(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	d := s.as(t, "the agent", false)
	const lease = time.Minute
	look := func(what string, signal vendors.DataPlaneSignal, nothing bool, damaged string) {
		t.Helper()
		got, err := d.Look(t.Context())
		port := ""
		if len(got.Setup.Ports) > 0 {
			port = got.Setup.Ports[0].Damaged
		}
		if err != nil || got.Signal != signal || got.Setup.Nothing() != nothing || got.Left > lease || (got.Left > 0) != (signal == vendors.SignalWritten) ||
			(damaged == "") != (port == "" && got.Setup.Damaged == "") || !strings.Contains(port+got.Setup.Damaged, damaged) {
			t.Fatalf("%s: %+v, %v", what, got, err)
		}
	}
	look("an empty bridge", vendors.SignalFallback, true, "")
	apply(t, d, setupFor(quantize.Draft00, swp1))
	look("no lease yet", vendors.SignalFallback, false, "")
	for range 3 { // each begins its time again
		update(t, d, lease, at7)
		look("a lease", vendors.SignalWritten, false, "")
	}
	s.Ofctl("del-flows", "csig", "table=62")
	look("flows were deleted", vendors.SignalWritten, false, "table 62")
	d.checked = time.Time{}
	update(t, d, lease, at7)
	s.Ofctl("mod-flows", "csig", "table=62,reg15=1,actions=drop")
	look("flows were changed", vendors.SignalWritten, false, "flows of table 62 are not as this process left them")
	d.checked = time.Time{}
	update(t, d, lease, at7)
	look("restored", vendors.SignalWritten, false, "")
	s.Ofctl("del-flows", "csig", "table=61,cookie=0x6373696700000001/-1")
	look("the lease was deleted", vendors.SignalFallback, false, "table 61")

	off := s.as(t, "csig off", true)
	if err := off.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("csig off, before the next cycle", vendors.SignalFallback, true, "")
	if err := off.Close(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); d.owner != lost; {
		d.checked = time.Time{}
		if _, err := d.Update(t.Context(), []vendors.PortUpdate{at7}, lease); err == nil && time.Since(start) > soon {
			t.Fatal("it goes on")
		}
		<-time.After(5 * time.Millisecond) // to look again
	}
	look("csig off", vendors.SignalFallback, true, "")
	s.becomes(t, soon, []tag{best}, best)
	if err := d.Release(t.Context()); err == nil || errors.As(err, new(*vendors.HeldError)) || !strings.Contains(err.Error(), "does not program it any more") {
		t.Errorf("released: %v", err)
	}

	// Another process that has it now, and one that was killed.
	other := s.as(t, "the next agent", false)
	nine := vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 5)}}
	apply(t, other, setupFor(quantize.Draft00, swp1))
	update(t, other, lease, nine)
	look("another's", vendors.SignalWritten, false, "it is programmed by the next agent")
	if err := d.Release(t.Context()); !errors.As(err, new(*vendors.HeldError)) || !strings.Contains(err.Error(), "the next agent") {
		t.Errorf("released: %v", err)
	}
	if err := other.db.c.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	other.db.lock = lockFree
	for start := time.Now(); ; {
		err := d.Release(t.Context())
		if err != nil && strings.Contains(err.Error(), "does not program it any more") {
			break
		}
		if time.Since(start) > soon {
			t.Fatalf("who ended is still named: %v", err)
		}
	}
}
