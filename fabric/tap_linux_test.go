package fabric

import (
	"testing"
	"time"
)

// The tap's bytes are those of the port's own counters, for every frame, in order of time.
func TestTap(t *testing.T) {
	l := newLine(t)
	c := counters(t, l.egress[1])
	before := read(t, c)
	tap, err := l.egress[1].Tap()
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	began := time.Now().UnixNano()
	load, err := StartLoad(l.from, l.to.MAC, 20_000_000)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var all []Left
	for deadline := time.Now().Add(time.Minute); len(all) < 2000; <-tick.C {
		all = tap.Read(all)
		if time.Now().After(deadline) {
			t.Fatalf("%d frames in a minute", len(all))
		}
	}
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
	// What is on its way has to come to rest in both.
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		all = tap.Read(all)
		var bits uint64
		for i := range all {
			bits += all[i].L1Bits()
		}
		counted := read(t, c).L1Bits() - before.L1Bits()
		if bits == counted {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d bits left, the port counted %d", bits, counted)
		}
	}
	if n, err := tap.Lost(); n != 0 || err != nil {
		t.Errorf("%d lost, %v", n, err)
	}
	for i := range all {
		if all[i].Bytes != LoadFrame || all[i].Head[12] != 8 || all[i].Head[13] != 0 {
			t.Fatalf("frame %d: %+v", i, all[i])
		}
		if all[i].At < began || i > 0 && all[i].At < all[i-1].At {
			t.Fatalf("frame %d left at %d, the one before at %d, the load began at %d", i, all[i].At, all[max(i-1, 0)].At, began)
		}
	}
}
