package eos

import (
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFrameLimits: what limits switched frames at a port is reported, and is no refusal; csig
// sets no frame size.
func TestFrameLimits(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Type("interface "+ports[1], "l2 mtu 1522", "l2 mru 1518", "exit", "interface "+ports[2], "l2 mtu 9234", "no l2 mtu", "exit")
		f, err := b.driver.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, issue := range f.PortIssues {
			if issue.Port == ports[1] && issue.Level == vlanrules.Degraded && strings.Contains(issue.Reason, "l2 mru 1518 and l2 mtu 1522") {
				found++
			}
			if issue.Port == ports[2] {
				t.Errorf("%+v", issue)
			}
		}
		if found != 1 {
			t.Errorf("%+v", f.PortIssues)
		}
		if _, sets := vendors.As[vendors.MTUSetter](b.driver); sets {
			t.Error("csig sets an MTU")
		}
		b.Type("interface "+ports[1], "no l2 mtu", "no l2 mru", "exit")
		before := b.Running()
		b.Type("interface "+ports[1], "l2 mtu 1522", "exit")
		limited := b.Running()
		if err := b.driver.Apply(t.Context(), setupFor(ports[1])); err != nil {
			t.Fatal(err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != limited || limited == before {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
	})
}
