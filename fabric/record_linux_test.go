package fabric

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The recorder's bytes and times are those of the port's own counters, for every frame.
func TestRecorder(t *testing.T) {
	m, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	l := newLine(t)
	r, err := l.egress[1].Record()
	if strings.Join(strings.Fields(string(m)), " ") != "0 0 4294967295" {
		if err == nil {
			t.Fatal("a user namespace may load BPF programs: then the rest of this test can run there, too")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := counters(t, l.egress[1])
	before := read(t, c)
	load, err := StartLoad(l.from, l.to.MAC, 20_000_000)
	if err != nil {
		t.Fatal(err)
	}
	var all []Passed
	for deadline := time.Now().Add(time.Minute); len(all) < 2000; {
		if all, err = r.Read(all); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d frames in a minute", len(all))
		}
	}
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
	// What is on its way has to come to rest in both.
	var bits, counted uint64
	for deadline := time.Now().Add(time.Minute); ; {
		if all, err = r.Read(all); err != nil {
			t.Fatal(err)
		}
		bits = 0
		for i := range all {
			bits += all[i].L1Bits()
		}
		if counted = read(t, c).L1Bits() - before.L1Bits(); bits == counted {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("recorded %d bits, the port counted %d", bits, counted)
		}
	}
	if n, err := r.Lost(); n != 0 || err != nil {
		t.Errorf("%d lost, %v", n, err)
	}
	for i := range all {
		if all[i].Bytes != LoadFrame || all[i].Head[12] != 8 || all[i].Head[13] != 0 {
			t.Fatalf("frame %d: %+v", i, all[i])
		}
		if all[i].Until < all[i].At || all[i].Until-all[i].At > uint64(time.Minute) {
			t.Fatalf("frame %d was at the port from %d to %d", i, all[i].At, all[i].Until)
		}
		if i > 0 && all[i].At+uint64(time.Second) < all[i-1].At {
			t.Fatalf("frame %d a second before the one before", i)
		}
	}
}
