package vrp

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
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		healthy := func() { b.server.Set(clitest.Faults{}) }
		vendorstest.Operations(t, &vendorstest.Walk{
			Name: "operations-" + platform, Setup: plain(b.p1, b.p2),
			Open: func() vendors.Driver { return Open(b.driver.cfg) },
			Sent: b.server.Take,
			Faults: []vendorstest.Fault{
				{Name: "the session ends at the 4th line", Begin: func() { b.server.EndAt(4) }, End: healthy},
				{Name: "a policy's lines are refused", Begin: func() {
					b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
						return "Error: The number of classifiers has reached the limit.\r\n", strings.HasPrefix(line, "classifier csig-")
					}})
				}, End: healthy},
				{Name: "another user takes the policy from the port", Begin: func() {
					b.Type("interface "+b.p1, "undo traffic-policy csig-"+b.p1+" outbound")
				}},
				{Name: "the record is gone", Begin: func() { b.Type("undo traffic behavior csig-setup-9100-5-c-o") }},
				{Name: "all sessions end", Begin: func() {
					b.server.Cut()
					synctest.Wait() // csig has seen it
				}},
			},
		})
	})
}
