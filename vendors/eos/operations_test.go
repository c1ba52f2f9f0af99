package eos

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestOperations records what updates send, faults included.
func TestOperations(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		healthy := func() { b.server.Set(clitest.Faults{}) }
		vendorstest.Operations(t, &vendorstest.Walk{
			Name: "operations", Setup: setupFor(ports[1], ports[2]),
			Open: func() vendors.Driver { return Open(b.driver.cfg) },
			Sent: b.server.Take,
			Faults: []vendorstest.Fault{
				{Name: "the session ends at the 4th line", Begin: func() { b.server.EndAt(4) }, End: healthy},
				{Name: "its flows are refused", Begin: func() {
					b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
						return "% Invalid input\r\n", strings.HasPrefix(line, "flow csig-")
					}})
				}, End: healthy},
				{Name: "another user takes the TPID from the port", Begin: func() { b.Type("interface "+ports[1], "no switchport dot1q ethertype") }},
				{Name: "the record is gone", Begin: func() { b.Type("no mac access-list csig-setup-9900-draft-00-5-c") }},
				{Name: "all sessions end", Begin: func() {
					b.server.Cut()
					synctest.Wait() // csig has seen it
				}},
			},
		})
	})
}
