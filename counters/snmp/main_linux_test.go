package snmp

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/integration/fabric"
)

// TestMain runs the tests inside namespaces of their own, as root or as an
// ordinary user. Fuzzing stays outside: its workers talk to their parent through
// inherited files, and need no network.
func TestMain(m *testing.M) {
	flag.Parse()
	if fuzzing("test.fuzz") || fuzzing("test.fuzzworker") {
		os.Exit(m.Run())
	}
	inside, status, err := fabric.Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !inside {
		os.Exit(status)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bring lo up:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func fuzzing(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != "" && f.Value.String() != "false"
}
