package linux

import (
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestOperations records how much updates change in the kernel, faults included.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	vendorstest.Operations(t, &vendorstest.Walk{
		Name: "operations", Setup: setupFor(updatePort), Later: func(time.Duration) {},
		Open: func() vendors.Driver {
			d, err := Open(Config{NetNS: w.fd})
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		Sent: func() []string { return nil }, // nft of another version prints other words
		Faults: []vendorstest.Fault{
			{Name: "another process takes the table", Begin: func() { w.nft("delete table netdev csig") }},
			{Name: "the port is gone", Begin: func() { w.run("ip", "link", "set", "swp1", "name", "other") }, End: func() { w.run("ip", "link", "set", "other", "name", "swp1") }},
		},
	})
}
