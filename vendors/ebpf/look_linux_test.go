package ebpf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// plug makes a device with this name, and this index unless it is 0, in the switch.
func (l *lab) plug(name string, index int) {
	l.t.Helper()
	if err := l.d.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, Index: index}, PeerName: name + ".far"})
	}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) unplug(name string) {
	l.t.Helper()
	if err := l.d.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	}); err != nil {
		l.t.Fatal(err)
	}
}

// A port works whatever the index of its device, and one that is wrong is refused by itself.
func TestAnyIndex(t *testing.T) {
	l := newLab(t)
	l.plug("far", 1<<30)
	s := setupOf(vlanrules.Update)
	s.Ports = append(s.Ports, vendors.PortSetup{Port: "far", Action: vlanrules.Update})
	l.apply(s)
	if res := l.update(s, time.Hour); !res.Leased || res.Ports != 2 {
		t.Errorf("%+v", res)
	}
	if seen := l.look(); seen.Signal != vendors.SignalWritten || seen.Setup.Ports[2].Damaged != "" {
		t.Errorf("%+v", seen)
	}
}

// A device that is made again, as often as one likes, is the port in the same Update, keeps no
// entry of the former one, and is no repair.
func TestMadeAgain(t *testing.T) {
	l := newLab(t)
	l.plug("tap", 0)
	s := setupOf(vlanrules.Update)
	s.Ports = append(s.Ports, vendors.PortSetup{Port: "tap", Action: vlanrules.Update})
	l.apply(s)
	l.update(s, time.Hour)
	for i := range 5 {
		l.unplug("tap")
		if i%2 == 1 { // an Update between the two
			if _, err := l.d.Update(t.Context(), updates(&s), time.Hour); err == nil || !strings.Contains(err.Error(), "port tap: there is no such network device") {
				t.Fatalf("without its device: %v", err)
			}
		}
		l.plug("tap", 0)
		res := l.update(s, time.Hour)
		if res.Repaired != nil || res.Ports != 1 {
			t.Errorf("made again: %+v", res)
		}
		e := l.d.byName["tap"].entry
		if e.Deadline < monotonic() || e.Signals[0].Lm != 20 || e.Interval != uint64(l.profile.Interval) {
			t.Errorf("its entry: %+v", e)
		}
		entries, err := l.d.plane.entries()
		if err != nil || len(entries) != len(s.Ports) {
			t.Errorf("%d entries, %v", len(entries), err)
		}
	}
}

// A change of the TPID keeps what a port writes, and its deadline; one of the interval has all
// ports measure again, and waits for frames twice, not once a port.
func TestChangesKeepTheSignal(t *testing.T) {
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	l.update(s, time.Hour)
	l.sent(5_000_000)
	s.TPID = 0x9aa0
	l.apply(s)
	if got := l.wants(l.modelOf(&s, true, 5_000_000)); got != asTheDraft {
		t.Errorf("another TPID, before an Update:\n%s", got)
	}
	l.update(s, time.Hour)
	if got := l.wants(l.modelOf(&s, true, 5_000_000)); got != asTheDraft {
		t.Errorf("another TPID:\n%s", got)
	}
	before, next := l.modelOf(&s, true, 5_000_000), *l.profile
	next.Interval *= 2
	l.profile = &next
	l.apply(s)
	if got := l.wants(before); got != asTheDraft {
		t.Errorf("another interval, before an Update:\n%s", got)
	}
	l.update(s, time.Hour)
	if e := l.d.byName["p2"].entry; e.Interval != uint64(l.profile.Interval) || e.Deadline < monotonic() {
		t.Errorf("another interval: %+v", e)
	}
}

// BenchmarkLook is one Update of as many ports in the steady state, and one Apply that changes
// nothing.
func BenchmarkLook(b *testing.B) {
	for _, ports := range []int{8, 64, 512} {
		l := newLab(b)
		s := setupOf(vlanrules.Update)
		for i := range ports {
			l.plug(fmt.Sprint("d", i), 0)
			s.Ports = append(s.Ports, vendors.PortSetup{Port: fmt.Sprint("d", i), Action: vlanrules.Update})
		}
		l.apply(s)
		u := updates(&s)
		for name, look := range map[string]func() error{
			"update": func() error { _, err := l.d.Update(b.Context(), u, time.Hour); return err },
			"apply":  func() error { s.Measure = l.profile; return l.d.Apply(b.Context(), s) },
			"look":   func() error { _, err := l.d.Look(b.Context()); return err },
		} {
			b.Run(fmt.Sprintf("%s/ports=%d", name, ports), func(b *testing.B) {
				for b.Loop() {
					if err := look(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
