package sonic

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestOperations records what updates have orchagent do, over Redis and over ZeroMQ, faults included.
func TestOperations(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]sonictest.Release{"operations": sonictest.R202511, "operations-zmq": sonictest.R202605} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, release, "Ethernet0", "Ethernet4")
			var mu sync.Mutex
			var lines []string
			full := false
			l.sw.SetOnOp(nil)
			l.sw.Refuse = func(key string, gone bool) string {
				mu.Lock()
				defer mu.Unlock()
				what := "set "
				if gone {
					what = "delete "
				}
				lines = append(lines, what+key)
				if full && !gone && strings.Contains(key, "Ethernet4") {
					return "SWSS_RC_FULL"
				}
				return ""
			}
			refuses := func(is bool) func() {
				return func() {
					mu.Lock()
					defer mu.Unlock()
					full = is
				}
			}
			vendorstest.Operations(t, &vendorstest.Walk{
				Name: name, Setup: setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"), Later: l.elapse,
				Open: func() vendors.Driver {
					l.open()
					l.settle = settleTime / 10
					return l.Driver
				},
				Sent: func() []string {
					l.sw.Settle()
					mu.Lock()
					defer mu.Unlock()
					sent := lines
					lines = nil
					if release < sonictest.R202605 { // orchagent takes the keys of a set, in any order
						slices.Sort(sent)
					}
					return sent
				},
				Faults: []vendorstest.Fault{
					{Name: "entries of one port are refused", Begin: refuses(true), End: refuses(false)},
					{Name: "orchagent starts again", Begin: func() {
						l.sw.Restart()
						l.elapse(recheck)
					}},
				},
			})
		})
	}
}
