package ovs

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestOperations records what flows updates leave on a bridge, faults included.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	if err := s.driver.Close(); err != nil {
		t.Fatal(err)
	}
	vendorstest.Operations(t, &vendorstest.Walk{
		Name: "operations", Setup: setupFor(quantize.Draft00, swp1),
		Later: func(by time.Duration) {
			s.driver.checked, s.driver.othersReadAt = s.driver.checked.Add(-by), s.driver.othersReadAt.Add(-by)
		},
		Open: func() vendors.Driver {
			s.driver = s.opened(t, Config{Bridge: "csig"})
			return s.driver
		},
		Sent: vendorstest.Changed(func() []string { return strings.Split(s.state(t), "\n") }),
		Faults: []vendorstest.Fault{
			{Name: "another process takes the flows", Begin: func() { s.Ofctl("del-flows", "csig") }},
		},
	})
}
