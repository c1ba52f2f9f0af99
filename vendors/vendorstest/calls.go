package vendorstest

import (
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Long reports whether a test, named TestLong…, takes all samples.
func Long(t testing.TB) bool { return strings.HasPrefix(t.Name(), "TestLong") }

// Every is from one sample that a test takes to the next: one in n, and each where it is Long.
func Every(t testing.TB, n int) int {
	if Long(t) {
		return 1
	}
	return n
}

// Updates gives each port of a setup that updates an intent for each of its signals, of which
// there are some before it.
func Updates(s *vendors.Setup, intent func(before int, sig quantize.Signal) vlanrules.Intent) (out []vendors.PortUpdate) {
	for _, p := range s.Ports {
		if p.Action != vlanrules.Update {
			continue
		}
		u := vendors.PortUpdate{Port: p.Port}
		for i, sig := range s.Signals {
			u.Intents = append(u.Intents, intent(i, sig))
		}
		out = append(out, u)
	}
	return out
}

// OnTrial is an error unless a driver does nothing while a change on the device is on trial.
func OnTrial(t *testing.T, d vendors.Driver, s vendors.Setup) {
	t.Helper()
	for name, call := range map[string]func() error{
		"Apply":   func() error { return d.Apply(t.Context(), s) },
		"Remove":  func() error { return d.Remove(t.Context()) },
		"Observe": func() error { _, err := d.Observe(t.Context()); return err },
	} {
		if call() == nil {
			t.Errorf("%s is done, while the change is on trial", name)
		}
	}
}
