package linux

import (
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRenamedDevice: what leaves a device that has got another name is never what
// the port advertised before; with the old name, or another device of that name,
// the next update puts everything back.
func TestRenamedDevice(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	cycle := func(name, says string, leaves uint16) {
		t.Helper()
		_, err := d.Update(t.Context(), []vendors.PortUpdate{one(9, 4)}, time.Minute)
		if text := ""; err != nil || says != "" {
			if err != nil {
				text = err.Error()
			}
			if says == "" || !strings.Contains(text, says) {
				t.Errorf("%s: the update says %q, want %q", name, text, says)
			}
		}
		if got := w.value(initial); got != leaves {
			t.Errorf("%s: 0x%04x leaves, want 0x%04x\n%s", name, got, leaves, w.run("nft", "list", "ruleset"))
		}
	}
	const called = "port swp1: its network device is called foo now: what leaves it gets the fallback"
	cycle("as it was", "", 9<<7|4)
	w.ip("link set swp1 name foo")
	cycle("another name", called, stale)
	cycle("another name, again", called, stale)
	if s, err := d.Look(t.Context()); err != nil || s.Setup.Damaged != "" || s.Setup.Ports[0].Damaged != "" {
		t.Errorf("observed %+v, %v", s, err)
	}
	w.ip("link set foo name foo2\nlink set foo2 name foo")
	cycle("and another", called, stale)
	w.ip("link set foo name swp1")
	cycle("its own name", "", 9<<7|4)
	w.ip("link set swp1 name foo\nlink set foo name swp1")
	cycle("there and back", "", 9<<7|4)

	w.ip("link set swp1 name foo")
	cycle("another name", called, stale)
	d = openDriver(t, w.netns) // an agent that is started again
	if err := d.Apply(t.Context(), setupFor(updatePort)); err == nil || !strings.Contains(err.Error(), called) {
		t.Errorf("the start says %v", err)
	}
	cycle("started again", called, stale)
	w.ip("link add swp1 type veth peer name far1")
	cycle("another device has the name", "", initial) // foo is no port of ours
	w.ip("link del swp1")
	cycle("that one is gone", "there is no such network device", initial)
	w.ip("link set foo name swp1")
	cycle("its own name", "", 9<<7|4)

	// With two ports the names decide, not what was there before.
	w.ip("link add swp2 type veth peer name far2")
	apply(t, d, setupFor(updatePort, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	w.ip("link set swp1 name x\nlink set swp2 name swp1\nlink set x name swp2")
	other := one(3, 3)
	other.Port = "swp2"
	update(t, d, time.Minute, one(9, 4), other)
	if got := w.value(initial); got != 3<<7|3 {
		t.Errorf("the names of two devices are exchanged: 0x%04x leaves", got)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.value(initial); got != initial {
		t.Errorf("removed: 0x%04x leaves", got)
	}
}

// TestRenamedStripDevice: its program stays, also over a restart of the agent.
func TestRenamedStripDevice(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		t.Fatal("this test strips, which needs BPF: run it as root of the machine")
	}
	w := newWire(t)
	d := openDriver(t, w.netns)
	s := setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})
	cycle := func(name, says string, strips bool) {
		t.Helper()
		_, err := d.Update(t.Context(), nil, time.Minute)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: the update says %v, want %q", name, err, says)
		}
		f := frame(1, tag{testTPID, initial})
		w.port.send(f)
		if got := w.far.receive(); (len(got) < len(f)) != strips {
			t.Errorf("%s: %x leaves", name, got)
		}
	}
	apply(t, d, s)
	cycle("as it was", "", true)
	w.ip("link set swp1 name foo")
	cycle("another name", "called foo now: what leaves it loses its tags, as before", true)
	d = openDriver(t, w.netns)
	if err := d.Apply(t.Context(), s); err == nil {
		t.Error("a start without the device says nothing")
	}
	cycle("started again", "there is no such network device", true)
	w.ip("link set foo name swp1")
	cycle("its own name", "", true)
	// A port that leaves the setup loses its program, whatever else is missing.
	apply(t, d, setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
	if err := d.Apply(t.Context(), setupFor(vendors.PortSetup{Port: "swp9", Action: vlanrules.Strip})); err == nil {
		t.Error("a missing device is no error")
	}
	cycle("no port any more", "swp9", false)
}

// TestDeviceInAnotherNamespace: what was moved away is missing, and comes back
// with the next update.
func TestDeviceInAnotherNamespace(t *testing.T) {
	t.Parallel()
	w, away := newWire(t), newNetNS(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, one(9, 4))
	move := func(from, to *netns) {
		t.Helper()
		if err := moveLink(from, to, "swp1"); err != nil {
			t.Fatal(err)
		}
	}
	move(w.netns, away)
	if _, err := d.Update(t.Context(), []vendors.PortUpdate{one(9, 4)}, time.Minute); err == nil || !strings.Contains(err.Error(), "there is no such network device") {
		t.Errorf("moved away: %v", err)
	}
	move(away, w.netns)
	w.ip("link set swp1 master br0 arp off mtu 9000 up")
	w.waitForwarding("swp1")
	update(t, d, time.Minute, one(9, 4))
	w.port = w.open("swp1")
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("back again: 0x%04x leaves", got)
	}
}

// moveLink moves a device into another namespace.
func moveLink(from, to *netns, dev string) error {
	return from.do(func() error {
		l, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(l, to.fd)
	})
}
