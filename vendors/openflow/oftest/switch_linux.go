package oftest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// Switch is a real Open vSwitch with one bridge that speaks OpenFlow 1.3 alone, and
// forwards nothing by itself.
type Switch struct {
	*ovstest.Switch
	Bridge string
	Ports  []*ovstest.Wire // of OpenFlow numbers 1, 2, …, named p1, p2, …
}

// StartSwitch runs one with so many ports until the test ends.
func StartSwitch(t testing.TB, ports int) *Switch {
	t.Helper()
	s := &Switch{Switch: ovstest.Start(t, ovstest.Options{Dummy: true}), Bridge: "hw0"}
	// Open vSwitch parses 0x88a8 behind another tag, as hardware does with its TPID.
	s.Vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2")
	s.AddBridge(s.Bridge)
	s.Vsctl("set", "bridge", s.Bridge, "protocols=OpenFlow13")
	for i := range ports {
		s.Ports = append(s.Ports, s.AddWire(s.Bridge, fmt.Sprintf("p%d", i+1), i+1))
	}
	return s
}

// Path is the bridge's management socket.
func (s *Switch) Path() string { return filepath.Join(s.Dir, s.Bridge+".mgmt") }

// Shadow makes a bridge for Options.Shadow.
func (s *Switch) Shadow() string {
	s.AddBridge(s.Bridge + "s")
	s.Vsctl("set", "bridge", s.Bridge+"s", "protocols=OpenFlow13")
	return filepath.Join(s.Dir, s.Bridge+"s.mgmt")
}

// Limit gives a table a capacity.
func (s *Switch) Limit(table, entries int) {
	s.Vsctl("--", "--id=@t", "create", "Flow_Table", fmt.Sprintf("flow_limit=%d", entries), "--", "set", "bridge", s.Bridge, fmt.Sprintf("flow_tables:%d=@t", table))
}

// Flow runs ovs-ofctl on the bridge, as an operator does with flows of their own.
func (s *Switch) Flow(command string, args ...string) string {
	return s.Ofctl(append([]string{"-O", "OpenFlow13", command, s.Bridge}, args...)...)
}

// BuiltIn makes what OF-DPA's tables do with a frame that meets no flow
// (built_in_flow_mods of its table type pattern).
func (s *Switch) BuiltIn() {
	for _, flow := range []string{
		"table=0,priority=0,actions=goto_table:10",
		"table=10,priority=0,actions=clear_actions,goto_table:60",
		"table=20,priority=0,actions=goto_table:50",
		"table=50,priority=0,actions=goto_table:60",
		"table=60,priority=0,actions=drop", // the end of the pipeline: the action set is carried out
	} {
		s.Flow("add-flow", flow)
	}
}
