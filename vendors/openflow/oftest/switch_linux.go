package oftest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

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
	return startSwitch(t, ports, ovstest.Options{Dummy: true})
}

// StartSwitchHere runs one that can connect to a controller at an address of the test.
func StartSwitchHere(t testing.TB, ports int) *Switch {
	t.Helper()
	return startSwitch(t, ports, ovstest.Options{Dummy: true, Here: true})
}

func startSwitch(t testing.TB, ports int, o ovstest.Options) *Switch {
	t.Helper()
	s := &Switch{Switch: ovstest.Start(t, o), Bridge: "hw0"}
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

// Limit gives a table a capacity.
func (s *Switch) Limit(table, entries int) {
	s.Vsctl("--", "--id=@t", "create", "Flow_Table", fmt.Sprintf("flow_limit=%d", entries), "--", "set", "bridge", s.Bridge, fmt.Sprintf("flow_tables:%d=@t", table))
}

// Flow runs ovs-ofctl on the bridge, as an operator does with flows of their own.
func (s *Switch) Flow(command string, args ...string) string {
	return s.Ofctl(append([]string{"-O", "OpenFlow13", command, s.Bridge}, args...)...)
}

// BuiltIn makes what OF-DPA's tables do with a frame that meets no flow.
func (s *Switch) BuiltIn() { builtIn(s) }

var _ Bench = (*Switch)(nil)

// Dial makes a connection with the bridge.
func (s *Switch) Dial(ctx context.Context) (net.Conn, error) { return dial(ctx, s.Path()) }

// Send has frames come in by a port.
func (s *Switch) Send(port int, frames ...[]byte) { s.Ports[port-1].Send(frames...) }

// Receive is the next frame that leaves a port; nil where none comes for half a minute.
func (s *Switch) Receive(port int) []byte { return s.Ports[port-1].Receive(30 * time.Second) }

// AddPort adds a port; the next one of its number takes its place.
func (s *Switch) AddPort(name string, number int) {
	for len(s.Ports) < number {
		s.Ports = append(s.Ports, nil)
	}
	s.Ports[number-1] = s.AddWire(s.Bridge, name, number)
}

// RemovePort removes the port of a name.
func (s *Switch) RemovePort(name string) { s.Vsctl("del-port", s.Bridge, name) }
