package tcp

import (
	"fmt"
	"strings"
	"testing"
)

// TestFamilies has a status as metrics.
func TestFamilies(t *testing.T) {
	s := &Status{
		Control: Control{Wanted: ControlCSIG, Trouble: "no", Counts: ControlCounts{Given: 1, Stopped: 2, Stale: 3, Refused: 4, Jumps: 5, Ramps: 6, Undelivered: 7}},
		Counts:  Counts{Connections: 10, Tagged: 11, Probes: 12, Stripped: 13, Sent: 14, Received: 15, Malformed: 16, NoRoom: 17, Failed: 18},
		Flows:   []Flow{{Control: "csig", State: FlowTagged}, {Control: "csig", State: FlowTagged}, {Control: "bbr", State: FlowProbing}},
	}
	var b strings.Builder
	for _, f := range s.Families() {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName())
		}
		for _, m := range f.GetMetric() {
			b.WriteString(f.GetName())
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&b, " %s=%s", l.GetName(), l.GetValue())
			}
			fmt.Fprintln(&b, "", m.GetGauge().GetValue()+m.GetCounter().GetValue(), m.GetCounter() != nil)
		}
	}
	const want = `csig_host_connections control=bbr state=probing 1 false
csig_host_connections control=csig state=tagged 2 false
csig_host_trouble of=control 1 false
csig_host_trouble of=tags 0 false
csig_host_connections_total 10 true
csig_host_frames_total what=probe 12 true
csig_host_frames_total what=stripped 13 true
csig_host_frames_total what=tagged 11 true
csig_host_reflections_total direction=received 15 true
csig_host_reflections_total direction=sent 14 true
csig_host_discarded_total why=failed 18 true
csig_host_discarded_total why=malformed 16 true
csig_host_discarded_total why=no_room 17 true
csig_host_control_total event=given 1 true
csig_host_control_total event=jump 5 true
csig_host_control_total event=ramp 6 true
csig_host_control_total event=refused 4 true
csig_host_control_total event=stale 3 true
csig_host_control_total event=stopped 2 true
csig_host_control_total event=undelivered 7 true
`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if n := len((&Status{}).Families()); n != len(MetricNames)-1 {
		t.Errorf("without connections: %d metrics", n)
	}
}
