package ebpf

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/csig-agent/csig/vlanrules"
)

// Another version of the program takes the place of ours under traffic: every frame is
// processed by one or the other, and the state is taken over.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	l.update(s, time.Hour)
	l.sent(5_000_000)
	other := func() *ebpf.Program { // the same program, as another version would bring it
		maps, err := mapsOf(l.d.plane.CsigEgress)
		if err != nil {
			t.Fatal(err)
		}
		p, err := load(maps)
		if err != nil {
			t.Fatal(err)
		}
		if err := closeMaps(maps); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p.CsigEgress
	}
	f := rows()[0]
	want := l.modelOf(&s, true, 5_000_000).out(f)
	if bytes.Equal(want, f) {
		t.Fatal("the frame is not one that the port changes")
	}
	a, b := *l.d.plane, *l.d.plane
	a.tag, b.tag, b.CsigEgress = "another version", "another version", other()
	a.same, b.same = nil, nil
	done := make(chan error)
	stop := make(chan struct{})
	var swaps atomic.Int32
	go func() {
		var err error
		for n := 0; err == nil; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			swaps.Add(1)
			err = l.d.Do(func() error { return []*plane{&b, &a}[n&1].attach(int(l.index)) })
		}
		done <- err
	}()
	for swaps.Load() < 100 {
		for _, got := range l.through(t, l.host, [][]byte{f, f, f, f, f}) {
			if !bytes.Equal(got, want) {
				t.Fatalf("got %x, want %x", got, want)
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
