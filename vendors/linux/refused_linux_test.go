package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// lose takes capabilities from this thread for good: one that netns.do locked,
// and that ends with what it runs.
func lose(caps []uint) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	for _, c := range caps {
		d := &data[c/32]
		bit := uint32(1) << (c % 32)
		d.Effective, d.Permitted, d.Inheritable = d.Effective&^bit, d.Permitted&^bit, d.Inheritable&^bit
	}
	return unix.Capset(&hdr, &data[0])
}

// TestRefusedStripWritesNothing has a port that strips beside one that updates,
// where BPF is not permitted: nothing at all may be set up, because a table
// without a lease makes every tag stale.
func TestRefusedStripWritesNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lost []uint
	}{
		{"no BPF", []uint{unix.CAP_BPF, unix.CAP_SYS_ADMIN}},
		{"BPF that could not be found again", []uint{unix.CAP_SYS_ADMIN}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire(t)
			w.ip("link add swp2 type veth peer name far2")
			strip := vendors.PortSetup{Port: "swp2", Action: vlanrules.Strip}
			// The BPF library remembers for the whole process what it finds out
			// about the kernel: let it find out with all rights.
			if _, err := openDriver(t, w.netns).Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := w.run("nft", "-j", "list", "ruleset")
			err := w.do(func() error {
				if err := lose(tc.lost); err != nil {
					return err
				}
				d, err := Open(Config{})
				if err != nil {
					return err
				}
				err = d.Apply(t.Context(), setupFor(updatePort, strip))
				return errors.Join(err, d.Close())
			})
			permanent(t, err, "swp2", "strip needs")
			if strings.Contains(err.Error(), "MEMLOCK") {
				t.Errorf("%v: a guess that does not help", err)
			}
			if after := w.run("nft", "-j", "list", "ruleset"); after != before {
				t.Errorf("a refused setup leaves\n%s", after)
			}
			if got := w.value(initial); got != initial {
				t.Errorf("a tag leaves as 0x%04x, want it as it was", got)
			}
		})
	}
}

// TestStripPortIsReportedByUpdate has a port that strips come and go: an update
// of the others says so each time, and gives the program back.
func TestStripPortIsReportedByUpdate(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		return // there are no programs without BPF: TestStrip checks the refusal
	}
	w := newWire(t)
	w.ip("link add swp2 type veth peer name far2")
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort, vendors.PortSetup{Port: "swp2", Action: vlanrules.Strip}))
	update(t, d, time.Minute, one(9, 4))
	w.ip("link del swp2")
	for range 3 {
		res, err := d.Update(t.Context(), []vendors.PortUpdate{one(9, 4)}, time.Minute)
		var p *vendors.PortError
		if !errors.As(err, &p) || p.Port != "swp2" || !res.Leased {
			t.Fatalf("%+v, %v; want a lease and an error about swp2", res, err)
		}
	}
	w.ip("link add swp2 type veth peer name far2")
	update(t, d, time.Minute, one(9, 4))
	if got := programs(t, w.netns, "swp2"); len(got) != 1 || got[0] != stripName {
		t.Errorf("programs %v", got)
	}
	// What failed at a program and may pass is tried again.
	p := d.byName["swp2"]
	if err := d.Do(func() error { return d.strip.remove(p.index) }); err != nil {
		t.Fatal(err)
	}
	p.strip = &vendors.PortError{Port: "swp2", Err: errors.New("busy")}
	update(t, d, time.Minute, one(9, 4))
	if got := programs(t, w.netns, "swp2"); len(got) != 1 {
		t.Errorf("programs after a passing failure: %v", got)
	}
}

// TestFlushedLeaseIsReported flushes the lease by hand while it runs, and lets
// one expire: only the first is a foreign change.
func TestFlushedLeaseIsReported(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, one(9, 4))
	w.nft("flush set netdev csig lease")
	if got := w.value(initial); got != stale {
		t.Fatalf("0x%04x without a lease", got)
	}
	if res := update(t, d, time.Minute, one(9, 4)); !strings.Contains(res.Repaired.String(), "lease") || !res.Leased {
		t.Errorf("%+v, want it to say that the lease was gone", res)
	}
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x after the repair", got)
	}
	if res := update(t, d, time.Minute, one(9, 4)); res.Repaired != nil {
		t.Errorf("once more: %+v", res)
	}

	d.leaseUntil = time.Now().Add(-time.Minute) // the lease has ended by itself
	w.nft("flush set netdev csig lease; add table netdev other")
	if res := update(t, d, time.Minute, one(9, 4)); res.Repaired != nil {
		t.Errorf("after its end: %+v", res)
	}
}

// TestWideTPIDIsNoVLAN gives wide tags a TPID that would be a VLAN's elsewhere.
// Its inside may look like a compact tag behind that VLAN.
func TestWideTPIDIsNoVLAN(t *testing.T) {
	t.Parallel()
	const wide = 0x88a8
	looksLikeOne := frame(1, tag{wide, 0x0123}, tag{testTPID, initial})
	behind := frame(2, tag{testTPID, initial}, tag{wide, 0x0123}, tag{0x0fff, 0xff00})
	plain := frame(3, tag{testTPID, initial})
	w := newWire(t)
	d := openDriver(t, w.netns)
	s := setupFor(updatePort)
	s.WideTPID = wide
	apply(t, d, s)
	update(t, d, time.Minute, one(9, 4))
	rewritten := bytes.Clone(plain)
	binary.BigEndian.PutUint16(rewritten[14:], 9<<7|4)
	w.compare([][]byte{looksLikeOne, behind, plain}, func(f []byte) []byte {
		if bytes.Equal(f, plain) {
			return rewritten
		}
		return f
	})
	if got := vlanTypes(&s); len(got) != 1 || got[0] != 0x8100 {
		t.Errorf("VLANs' TPIDs %#x, want 0x8100 alone", got)
	}
	if !realRoot(t) {
		return // strip needs BPF: TestStrip checks the refusal
	}
	s.Ports[0].Action = vlanrules.Strip
	apply(t, d, s)
	w.compare([][]byte{looksLikeOne}, func(f []byte) []byte { return append(f[:12:12], f[20:]...) })
}

// TestForeignErrorIsTyped lets an agent tell that its rules are gone from other
// failures.
func TestForeignErrorIsTyped(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, one(9, 4))
	w.nft("delete table netdev csig; add table netdev csig")
	_, err := d.Update(t.Context(), []vendors.PortUpdate{one(9, 4)}, time.Minute)
	var foreign *vendors.ForeignError
	if !errors.As(err, &foreign) || strings.Contains(err.Error(), "csig off") {
		t.Errorf("%v, want a foreign table and advice that works", err)
	}
	w.nft("delete table netdev csig")
	update(t, d, time.Minute, one(9, 4))
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x after it is gone", got)
	}
}
