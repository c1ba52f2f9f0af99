package linux

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A device that is made again, as often as one likes, is no repair: not of its rules, nor of its
// program.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	plug := func() {
		t.Helper()
		if err := d.Do(func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "tap"}, PeerName: "tap.far"})
		}); err != nil {
			t.Fatal(err)
		}
	}
	plug()
	s := setupFor(updatePort)
	s.Ports = append(s.Ports, vendors.PortSetup{Port: "tap", Action: vlanrules.Strip})
	apply(t, d, s)
	update(t, d, time.Minute, one(9, 4))
	for i := range 4 {
		if err := d.Do(func() error {
			l, err := netlink.LinkByName("tap")
			if err != nil {
				return err
			}
			return netlink.LinkDel(l)
		}); err != nil {
			t.Fatal(err)
		}
		plug()
		if res := update(t, d, time.Minute, one(9, 4)); res.Repaired != nil {
			t.Errorf("made again %d: repaired %s", i, res.Repaired)
		}
		seen, err := d.Look(t.Context())
		if err != nil || seen.Setup.Damaged != "" {
			t.Errorf("%+v, %v", seen, err)
		}
		for _, p := range seen.Setup.Ports {
			if p.Damaged != "" {
				t.Errorf("port %s: %s", p.Port, p.Damaged)
			}
		}
	}
}
