package openflow

import (
	"testing"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// TestHealth: every port of the switch has its counters, and a switch that is gone is
// an error.
func TestHealth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		health, err := l.driver.Health(t.Context())
		found := map[string]vendors.PortHealth{}
		for _, h := range health {
			found[h.Port] = h
		}
		for _, name := range []string{"p1", "p2"} {
			if h, ok := found[name]; !ok || h.Errors != 0 || h.Discards != 0 {
				t.Errorf("%s: %+v, %v", name, h, ok)
			}
		}
		if err != nil {
			t.Error(err)
		}
		l.proxy.Set(func(f *oftest.Faults) { f.Dead = true })
		l.proxy.Cut()
		if _, err := l.driver.Health(t.Context()); err == nil {
			t.Error("the switch is gone, and has counters")
		}
	})
}
