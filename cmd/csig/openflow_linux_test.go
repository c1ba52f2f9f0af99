package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// TestOpenFlowPage carries out the session of docs/openflow.md with examples/openflow.yaml: a real
// Open vSwitch as a switch of OpenFlow 1.3, its agent, and the way from a plan to csig off.
func TestOpenFlowPage(t *testing.T) {
	sw := oftest.StartSwitch(t, 3)
	for n := 1; n <= 3; n++ {
		sw.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=write_metadata:%d/0xfff,goto_table:10", n, n))
	}
	openFlowPage(t, sw, "openflow", "hw1", oftest.Options{Bridge: sw.Path()},
		"te-1/1/", "p", ", server_name: hw1.example.net", "")
}

// TestLongOFDPAPage is TestOpenFlowPage with examples/ofdpa.yaml and the table type pattern of OF-DPA.
func TestLongOFDPAPage(t *testing.T) {
	sw := oftest.StartSwitch(t, 2)
	sw.BuiltIn()
	for n := 1; n <= 2; n++ {
		sw.Flow("add-group", fmt.Sprintf("group_id=%d,type=indirect,bucket=output:%d", 0xb0000000+n, n))
		sw.Flow("add-flow", fmt.Sprintf("table=10,priority=7,in_port=%d,vlan_vid=0x1000/0x1000,actions=goto_table:20", n))
	}
	sw.Flow("add-flow", "table=60,priority=5,in_port=1,dl_type=0x0800,nw_dst=198.51.100.0/24,actions=write_actions(group:0xb0000002)")
	sw.Flow("add-flow", "table=60,priority=5,in_port=2,dl_dst=02:00:00:00:01:00/ff:ff:ff:ff:ff:00,actions=write_actions(group:0xb0000001)")
	openFlowPage(t, sw, "ofdpa", "dpa1", oftest.Options{Bridge: sw.Path(), OFDPA: &oftest.OFDPA{}}, "port: port", "port: p", "in_port: port", "in_port: p", "name: port", "name: p")
}

// openFlowPage carries out a platform's session with the device of its example, which is the switch;
// texts to replace and their replacements may follow. Afterwards the switch has what it had before.
func openFlowPage(t *testing.T, sw *oftest.Switch, name, device string, o oftest.Options, more ...string) {
	t.Helper()
	proxy := oftest.Start(t, o, oftest.Faults{})
	host, port, err := net.SplitHostPort(proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	dir, example := folderFor(t, name)
	fleet := strings.NewReplacer(append([]string{
		"192.0.2.20", host, "192.0.2.30", host, "/run/csig/" + device + ".sock", filepath.Join(dir, device+".sock"),
	}, more...)...).Replace(example)
	tls := fleet[strings.Index(fleet, "tls: {"):]
	fleet = strings.Replace(fleet, tls[:strings.Index(tls, "}")+1], "plaintext: true\n        port: "+port, 1)
	if err := os.WriteFile(filepath.Join(dir, device+".yaml"), []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		return sw.Flow("dump-flows", "--no-stats") + sw.Flow("dump-groups")
	}
	mine := func() bool { return strings.Contains(state(), "cookie=0x63736f66") }
	before := state()
	startAgent(t, dir, device)
	carryOutPage(t, filepath.Join("..", "..", "docs", "openflow.md"), "console "+name, dir, func(command string) {
		switch {
		case strings.HasPrefix(command, "apply") && !mine():
			t.Error("nothing was applied")
		case strings.HasPrefix(command, "off") && theirs(state()) != before:
			t.Errorf("csig off leaves\n%s\nand there was\n%s", state(), before)
		}
	})
}

// theirs is what a switch has without the flows that csig off leaves, which send on what the operator's
// flows still hand over.
func theirs(state string) string {
	return left.ReplaceAllString(state, "")
}

var left = regexp.MustCompile(`(?m)^ cookie=0x63736f6600000000, table=10, priority=290,metadata=0x(\d)/0xfff actions=output:(\d)\n`)
