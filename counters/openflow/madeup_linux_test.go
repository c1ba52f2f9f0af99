package openflow

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// Open vSwitch passes on the 10 Gbit/s that the kernel makes up for a veth: it is not taken for the
// speed of a link where one is configured.
func TestMadeUpSpeed(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends, and its namespace with it
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	defer ns.Close()
	s := ovstest.Start(t, ovstest.Options{Start: (*exec.Cmd).Start}) // on this thread
	s.AddBridge("br0")
	for _, name := range []string{"swp1", "swp2"} {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "far"}); err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{name, name + "far"} {
			link, err := netlink.LinkByName(end)
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkSetUp(link); err != nil {
				t.Fatal(err)
			}
		}
		s.Vsctl("add-port", "br0", name)
	}
	src := open(t, s, "swp1", "swp2")
	src.cfg.Configured = []bool{true, false}
	got := read(t, src)
	if got[0].Err != nil || got[0].Speed != 0 || got[1].Err != nil || got[1].Speed != 10e9 {
		t.Errorf("configured %+v\nnot configured %+v", got[0], got[1])
	}
}
