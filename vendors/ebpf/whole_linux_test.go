package ebpf

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// TestReplacedWhole: while a port's entry is replaced again and again, by one with other edges
// and another locator, frames on several processors leave as by one of them, and never by a
// part of each.
func TestReplacedWhole(t *testing.T) {
	p, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	b := newBench(t, &p.planeObjects, quantize.Draft00, 0x9900, time.Millisecond)
	b.index = loopback
	b.sent(5_000_000)
	var kinds [2]planePort
	for i := range kinds { // past 7 edges of one, and 21 of the other
		kinds[i] = b.port
		for e := range kinds[i].Signals[0].Edges {
			kinds[i].Signals[0].Edges[e] = 1 << 60
			if e < 7+14*i {
				kinds[i].Signals[0].Edges[e] = 0
			}
		}
		kinds[i].Signals[0].Lm = uint16(5 + 4*i)
	}
	allowed := map[uint16]bool{(31-7)<<7 | 5: true, (31-21)<<7 | 9: true}
	if err := p.put(loopback, &kinds[0]); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var stop atomic.Bool
	var frames atomic.Uint64
	for range 4 {
		all.Go(func() {
			f := make([]byte, 64)
			binary.BigEndian.PutUint64(f[12:], 0x9900<<48|0x0f80<<32|0x0800<<16) // T 0, S 31
			for !stop.Load() {
				_, out, err := p.CsigEgress.Test(f)
				if err != nil {
					t.Error(err)
					return
				}
				if tci := binary.BigEndian.Uint16(out[14:]); !allowed[tci] {
					t.Errorf("a frame leaves with %04x", tci)
					return
				}
				frames.Add(1)
			}
		})
	}
	flips := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) && !t.Failed(); flips++ {
		if err := p.put(loopback, &kinds[flips%2]); err != nil {
			t.Error(err)
			break
		}
	}
	stop.Store(true)
	all.Wait()
	if frames.Load() == 0 || flips < 3 {
		t.Errorf("%d frames, %d replacements", frames.Load(), flips)
	}
	t.Logf("%d frames, %d replacements", frames.Load(), flips)
}
