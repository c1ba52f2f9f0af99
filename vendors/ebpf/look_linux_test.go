package ebpf

import (
	"bytes"
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
	t.Parallel()
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
	t.Parallel()
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

// A change of the TPID or of the interval keeps what a port writes, and its deadline.
func TestChangesKeepTheSignal(t *testing.T) {
	t.Parallel()
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
	before := l.modelOf(&s, true, 5_000_000)
	l.setInterval(time.Hour) // which does not end before the test does
	l.apply(s)
	if got := l.wants(before); got != asTheDraft {
		t.Errorf("another interval, before an Update:\n%s", got)
	}
	l.update(s, time.Hour)
	if e := l.d.byName["p2"].entry; e.Interval != uint64(l.profile.Interval) || e.Deadline < monotonic() {
		t.Errorf("another interval: %+v", e)
	}
	if got := l.wants(before); got != asTheDraft {
		t.Errorf("another interval, none of which has closed:\n%s", got)
	}
}

// setInterval has the next Apply be of another profile.
func (l *lab) setInterval(d time.Duration) {
	next := *l.profile
	next.Interval = d
	l.profile = &next
}

// Frames that leave while the interval changes carry the S of the last interval that has closed,
// with compact tags and wide ones.
func TestIntervalChangesUnderTraffic(t *testing.T) {
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.setInterval(time.Hour)
	l.apply(s)
	l.update(s, time.Hour)
	last := uint64(5_000_000) * uint64(time.Hour/time.Millisecond)
	l.put(planeState{Start: monotonic(), Last: last, Closed: 1})
	want := l.modelOf(&s, true, last)
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for i := range 100 {
				l.setInterval(time.Hour * time.Duration(1+(i+1)%2))
				s := s
				s.Measure = l.profile
				if err := l.d.Apply(t.Context(), s); err != nil {
					return err
				}
				if _, err := l.d.Update(t.Context(), updates(&s), time.Hour); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for {
		got := l.wants(want)
		if got == asTheDraft && len(done) == 0 {
			continue
		}
		if err := <-done; err != nil || got != asTheDraft {
			t.Errorf("%v\n%s", err, got)
		}
		return
	}
}

// After a change of the interval the first new one decides, and a port that is stale stays so
// until it has closed.
func TestFirstIntervalAfterAChange(t *testing.T) {
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	l.update(s, time.Hour)
	l.sent(5_000_000)
	l.setInterval(2 * time.Millisecond)
	l.apply(s)
	l.update(s, time.Hour)
	var state planeState
	if err := l.d.plane.CsigState.Lookup(l.d.byName["p2"].entry.Slot, &state); err != nil || state.Closed != 1 || state.Last != 10_000_000 {
		t.Errorf("%+v, %v: want the bytes of two intervals", state, err)
	}
	for end := monotonic() + uint64(l.profile.Interval)*2; monotonic() < end; { // no frame comes: the port was idle
	}
	frame := rows()[0]
	if got, want := l.through(t, l.host, [][]byte{frame})[0], l.modelOf(&s, true, 0).out(frame); !bytes.Equal(got, want) {
		t.Errorf("after an idle interval: %x, want %x", got, want)
	}
	l.sent(5_000_000)
	l.update(s, time.Nanosecond) // its deadline is over
	l.setInterval(time.Hour)
	l.apply(s)
	l.update(s, time.Hour)
	if got := l.wants(l.modelOf(&s, false, 0)); got != asTheDraft {
		t.Errorf("stale before, and no interval has closed since:\n%s", got)
	}
}

// What has not been sent before an interval begins is of that interval.
func TestBeginWithWhatIsQueued(t *testing.T) {
	const now = uint64(time.Hour)
	for _, tc := range []struct {
		name        string
		bytes, lost uint64
		pace, ahead uint64 // bytes that the link sends after that
		shaper      uint32
		sent        uint64
	}{
		{"all is sent", 1000, 0, pace(8_000_000), 0, 0, 1100},
		{"some waits for the link", 5000, 0, pace(8_000_000), 3000, 0, 2100},
		{"some was dropped", 5000, 1000, pace(8_000_000), 3000, 0, 1100},
		{"of a link whose rate is not known", 5000, 0, 0, 3000, 0, 5100},
		{"a shaper counts", 5000, 0, pace(8_000_000), 3000, 1, 77},
	} {
		h := held{former: planePort{Pace: tc.pace}}
		s := planeState{Bytes: tc.bytes, Lost: tc.lost, Total: 100, Free: now*64 + hold(tc.ahead, pace(8_000_000)), Shaper: tc.shaper, Seen: 77}
		h.begin(&s, now)
		if s.Bytes != 0 || s.Lost != 0 || s.Total != 100+tc.bytes-tc.lost || s.Start != now || s.Sent != tc.sent {
			t.Errorf("%s: %+v", tc.name, s)
		}
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
