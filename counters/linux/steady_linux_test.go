package linux

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

func TestReadAllocatesNothing(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	quietVeth(t, "swp2", "far2")
	tbf(t, "swp2", 100_000_000)
	s := source(t, "swp1", "swp2")
	dst := ready(t, s)
	n := testing.AllocsPerRun(100, func() {
		var err error
		if dst, err = s.Read(t.Context(), dst); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

// While interfaces and qdiscs are made and deleted as fast as the kernel can,
// the port beside them is read without a gap, and no two counters are ever
// taken for one.
func TestChurn(t *testing.T) {
	ns := enter(t)
	quietVeth(t, "swp1", "far1")
	s := source(t, "swp1", "swp2")
	epoch := ready(t, sourceOf(t, Config{Ports: []Port{{Name: "swp1"}}}))[0].Epoch
	var rounds atomic.Int64
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread is in our namespace
		done <- churn(ns, &stop, &rounds)
	}()
	type era struct{ octets, packets uint64 }
	seen := map[uint64]era{}
	for rounds.Load() < 50 || len(seen) < 10 {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		got := read(t, s)
		if got[0].Err != nil || got[0].Epoch != epoch {
			t.Fatalf("the port that stays: %+v", got[0])
		}
		a := got[1]
		if a.Err != nil {
			continue
		}
		if old := seen[a.Epoch]; a.Octets < old.octets || a.Packets < old.packets {
			t.Fatalf("epoch %d went from %+v to %+v", a.Epoch, old, a)
		}
		seen[a.Epoch] = era{a.Octets, a.Packets}
	}
	stop.Store(true)
	must(t, <-done)
}

// churn makes, shapes, uses, unshapes and deletes swp2.
func churn(ns netns.NsHandle, stop *atomic.Bool, rounds *atomic.Int64) error {
	if err := netns.Set(ns); err != nil {
		return err
	}
	for ; !stop.Load(); rounds.Add(1) {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "swp2", Index: 1000}, PeerName: "far2"}); err != nil {
			return err
		}
		l, err := netlink.LinkByName("swp2")
		if err != nil {
			return err
		}
		q := &netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(7, 0)},
			Rate:       1e8, Limit: 1 << 20, Buffer: 200_000,
		}
		far, err := netlink.LinkByName("far2")
		if err != nil {
			return err
		}
		// Coming up, the kernel sends some frames of its own.
		if err := errors.Join(netlink.LinkSetUp(l), netlink.LinkSetUp(far), netlink.QdiscAdd(q), netlink.QdiscDel(q), netlink.QdiscAdd(q), netlink.LinkDel(l)); err != nil {
			return err
		}
	}
	return nil
}
