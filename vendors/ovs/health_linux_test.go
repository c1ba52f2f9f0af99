package ovs

import (
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// TestHealth has a port lose frames that are too long for its far end, and
// another that loses none.
func TestHealth(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends, and its namespace with it
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	defer ns.Close()
	s := ovstest.Start(t, ovstest.Options{Start: (*exec.Cmd).Start}) // on this thread
	s.AddBridge("csig")
	in := newDevice(t, s, "h1", "1")
	newDevice(t, s, "swp1", "2")
	newDevice(t, s, "swp2", "3")
	far, err := netlink.LinkByName("swp1-far")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetMTU(far, 68); err != nil {
		t.Fatal(err)
	}
	s.Ofctl("add-flow", "csig", "in_port=1,actions=output:2,output:3")
	d := (&sandwich{Switch: s}).open(t, "csig")
	of := func(port string) vendors.PortHealth {
		t.Helper()
		all, err := d.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(p vendors.PortHealth) bool { return p.Port == port })
		if i < 0 {
			t.Fatalf("%s is not among %+v", port, all)
		}
		return all[i]
	}
	before, fine := of("swp1"), of("swp2")
	const frames = 20
	for range frames {
		in.send(append(frame(1), make([]byte, 200)...))
	}
	// Those of a batch that come after the first one lost are not even tried, and
	// not counted.
	for start := time.Now(); of("swp1").Discards == before.Discards; {
		if time.Since(start) > soon {
			t.Fatalf("of %d frames lost the port counts none: %+v", frames, of("swp1"))
		}
	}
	if got := of("swp1"); got.Discards-before.Discards > frames || got.Errors != before.Errors {
		t.Errorf("of %d frames lost the port counts %+v, before %+v", frames, got, before)
	}
	if got := of("swp2"); got != fine {
		t.Errorf("a port that loses none counts %+v, before %+v", got, fine)
	}
}
