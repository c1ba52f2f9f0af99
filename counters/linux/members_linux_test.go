package linux

import (
	"maps"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What the kernel says of bonds and teams, which not every kernel has; see
// TestMembersOfAKernelWithout for the way there.
func TestMembers(t *testing.T) {
	message := func(index, master uint32, name, kind string) link {
		b := u32(0, index, 0, 0)
		b = append(b, attr(unix.IFLA_IFNAME, str(name)...)...)
		if master != 0 {
			b = append(b, attr(unix.IFLA_MASTER, u32(master)...)...)
		}
		l, ok := parseLink(append(b, nest(unix.IFLA_LINKINFO, attr(unix.IFLA_INFO_KIND, str(kind)...))...))
		if !ok {
			t.Fatal("not a link")
		}
		return l
	}
	got := members([]link{
		message(2, 9, "swp1", ""), // before its bond, as often
		message(3, 9, "swp2", ""),
		message(4, 12, "swp3", ""),
		message(5, 0, "swp4", ""),
		message(9, 11, "bond0", "bond"), // itself a port of the bridge
		message(10, 0, "bond1", "bond"), // has none
		message(11, 0, "br0", "bridge"),
		message(12, 0, "team0", "team"),
		message(6, 11, "swp5", "veth"),
	})
	want := map[string][]string{"bond0": {"swp1", "swp2"}, "team0": {"swp3"}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The loopback has no kind and no bus, and yet the kernel counts what it sends.
func TestLoopbackIsLive(t *testing.T) {
	enter(t)
	must(t, netlink.LinkSetUp(byName(t, "lo")))
	s := source(t, "lo")
	if a := ready(t, s)[0]; a.Err != nil || !a.Live {
		t.Errorf("%+v", a)
	}
	if f := s.Facts()[0]; f.Device != "loopback" {
		t.Errorf("%+v", f)
	}
}

func TestMembersOfAKernelWithout(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	quietBridge(t, "br0")
	must(t, netlink.LinkSetMaster(byName(t, "swp1"), byName(t, "br0")))
	s := source(t, "swp1")
	first := ready(t, s)[0]
	got, err := s.Members(t.Context())
	if err != nil || len(got) != 0 {
		t.Errorf("a bridge's ports pass for members: %v, %v", got, err)
	}
	if a := one(t, s); a.Err != nil || a.Epoch != first.Epoch {
		t.Errorf("asking disturbed the readings: %+v after %+v", a, first)
	}
}
