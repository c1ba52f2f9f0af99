package openflow

import (
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRemove: where no flow of the operator's leads to csig's tables nothing of csig's
// stays; else what is handed over leaves by its port.
func TestRemove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		for _, tc := range []struct {
			name, flow string
			stay       int
		}{
			{"it hands over", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=write_metadata:2/0xfff,goto_table:10", 3},
			{"it leads to the table behind", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=goto_table:12", 3},
			{"it resubmits, which OpenFlow 1.3 does not have", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=resubmit(,10)", 3},
			{"it outputs", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=output:2", 0},
			{"it leads to another table", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=goto_table:13", 0},
			{"there is none", "", 0},
		} {
			l.handOver(3)
			l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
			l.Flow("del-flows", "table=0")
			if tc.flow != "" {
				l.Flow("add-flow", tc.flow)
			}
			if f, err := l.driver.Probe(t.Context()); err != nil || len(f.Off) != min(tc.stay, 1) {
				t.Errorf("%s: csig says of what stays after csig off: %v, %v", tc.name, f.Off, err)
			}
			for range 2 {
				if err := l.driver.Remove(t.Context()); err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
				if flows := l.flows(); strings.Count(flows, "cookie=") != tc.stay || strings.Count(flows, "table=10, priority=290,metadata=") != tc.stay && tc.stay > 0 {
					t.Errorf("%s: want %d flows\n%s", tc.name, tc.stay, flows)
				}
			}
		}
	})
}
