package openflow

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// The time that csig qualify measured from a switch's answer to the wire counts as
// measured for that model and version alone, which the switch itself reports.
func TestMeasuredOfAnotherVersion(t *testing.T) {
	l := newLab(t, 2, oftest.Faults{})
	const assumed = "assumed, not measured"
	f, err := l.driver.Probe(t.Context())
	if err != nil || f.Identity.Model == "" || f.Identity.Version == "" || !strings.Contains(strings.Join(f.Notes, "\n"), assumed) {
		t.Fatalf("%+v, %v", f, err)
	}
	delay := 20 * time.Millisecond
	for version, want := range map[string]bool{f.Identity.Version: false, f.Identity.Version + "-next": true} {
		q := &inventory.Facts{Name: "m", Platform: f.Platform, Model: f.Identity.Model, Version: version, Date: "2026-11-22", TPIDs: []uint16{0x88a8}, AckToWire: &delay}
		d := l.open(t, Config{Platform: f.Platform, OrdinaryVLANs: NotHandedOver, AckDelay: delay, Measured: q})
		now, err := d.Probe(t.Context())
		if err != nil || strings.Contains(strings.Join(now.Notes, "\n"), assumed) != want {
			t.Errorf("with facts of %s: %q, %v", version, now.Notes, err)
		}
	}
}
