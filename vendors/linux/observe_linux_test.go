package linux

import (
	"errors"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// TestLook: what the driver sees is what is there, whatever it did itself.
func TestLook(t *testing.T) {
	w := newWire(t)
	d, other := openDriver(t, w.netns), openDriver(t, w.netns)
	look := func(what string, signal vendors.DataPlaneSignal, nothing bool) vendors.DataPlane {
		t.Helper()
		s, err := d.Look(t.Context())
		if err != nil || s.Signal != signal || s.Setup.Nothing() != nothing || (s.Left > 0) != (signal == vendors.SignalWritten) {
			t.Fatalf("%s: %+v, %v", what, s, err)
		}
		return s
	}
	look("an empty device", vendors.SignalFallback, true)
	apply(t, d, setupFor(updatePort))
	look("no lease yet", vendors.SignalFallback, false)
	update(t, d, time.Minute, one(9, 4))
	if s := look("a lease", vendors.SignalWritten, false); s.Left > time.Minute+time.Second || s.Left < 10*time.Second {
		t.Errorf("%v are left of a minute", s.Left)
	}
	w.run("nft", "flush", "set", "netdev", tableName, setLease)
	look("the lease was flushed", vendors.SignalFallback, false)
	update(t, d, time.Minute, one(9, 4))
	w.run("nft", "flush", "chain", "netdev", tableName, portKey("swp1"))
	if s := look("a chain was flushed", vendors.SignalWritten, false); s.Setup.Ports[0].Damaged == "" {
		t.Errorf("%+v", s.Setup)
	}
	if err := other.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("csig off by another process", vendors.SignalFallback, true)
	if got := w.value(initial); got != initial {
		t.Errorf("0x%04x leaves", got)
	}
	w.run("nft", "add", "table", "netdev", tableName)
	if _, err := d.Look(t.Context()); !errors.As(err, new(*vendors.ForeignError)) {
		t.Errorf("another process's table: %v", err)
	}
	w.run("nft", "delete", "table", "netdev", tableName)
	// A look is no reason to miss what changes.
	if res := update(t, d, time.Minute, one(9, 4)); res.Repaired == nil {
		t.Errorf("%+v", res)
	}
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x leaves", got)
	}
}
