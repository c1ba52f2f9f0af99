package linux

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// detachByHand takes the strip program off a device, as bpftool or tc would.
func detachByHand(t *testing.T, n *netns, dev string) {
	t.Helper()
	err := n.do(func() error {
		index, err := ifindex(dev)
		if err != nil {
			return err
		}
		have, err := attached(index)
		if err != nil {
			return err
		}
		if len(have) != 1 {
			err = fmt.Errorf("%d strip programs run on %s, want one", len(have), dev)
		}
		for _, a := range have {
			err = errors.Join(err, link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Program: a.program, Attach: ebpf.AttachTCXEgress}))
		}
		return errors.Join(err, release(have))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStripProgramDetachedByHand: no event tells of it, and while the program
// is missing tagged frames leave.
func TestStripProgramDetachedByHand(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		return // there are no programs without BPF: TestStrip checks the refusal
	}
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
	strips := func() bool {
		t.Helper()
		in := frame(1, tag{0x9900, initial})
		w.port.send(in)
		got := w.far.receive()
		if !bytes.Equal(got, in) && !bytes.Equal(got, frame(1)) {
			t.Fatalf("%x arrives", got)
		}
		return bytes.Equal(got, frame(1))
	}
	cycle := func() vendors.UpdateResult {
		t.Helper()
		d.strip.looked = time.Now().Add(-stripLook)
		return update(t, d, time.Minute)
	}
	for range 3 {
		if res := cycle(); res.Repaired != nil || !strips() {
			t.Fatalf("before: %+v", res)
		}
	}
	for _, tc := range []struct {
		name   string
		damage func()
	}{
		{"detached", func() { detachByHand(t, w.netns, "swp1") }},
		{"detached, and another in its place", func() {
			detachByHand(t, w.netns, "swp1")
			attachOther(t, w.netns, "swp1")
		}},
		{"detached beside another", func() { detachByHand(t, w.netns, "swp1") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.damage()
			if strips() {
				t.Fatal("tags are still removed: the test does no damage")
			}
			if res := cycle(); res.Repaired == nil {
				t.Errorf("the next cycle reports no repair: %+v", res)
			}
			if !strips() {
				t.Error("tags still leave after the next cycle")
			}
			for range 3 {
				if res := cycle(); res.Repaired != nil {
					t.Errorf("not settled: %+v", res)
				}
			}
		})
	}
}

// BenchmarkWatchStrip is a look at 64 ports that strip.
func BenchmarkWatchStrip(b *testing.B) {
	n, s := newPorts(b, 64)
	for i := range s.Ports {
		s.Ports[i].Action = vlanrules.Strip
	}
	d := openDriver(b, n)
	apply(b, d, s)
	b.ReportAllocs()
	for b.Loop() {
		d.strip.looked = time.Time{}
		if c := d.watchStrip(); c != nil {
			b.Fatal(c)
		}
	}
}

// TestStripProgramIsSoonVerified: an agent that is started loads it before it
// programs anything, in the time that its predecessor's lease leaves.
func TestStripProgramIsSoonVerified(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		t.Fatal("this test strips, which needs BPF: run it as root of the machine")
	}
	d := openDriver(t, newNetNS(t))
	s := setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})
	s.WideTPID, s.Others = 0x9aa1, []vendors.OtherTPID{{TPID: 0x88a8}, {TPID: 0x9901, Wide: true}, {TPID: 0x9902}, {TPID: 0x9903}}
	l, err := d.strip.load(stripSpecOf(&s, &s.Ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	info, err := l.program.Info()
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := info.VerifiedInstructions(); !ok || n > 10_000 {
		t.Errorf("the kernel went through %d instructions (%v)", n, ok)
	}
}
