package simulate

import (
	"testing"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/quantize"
)

// TestFigure5 has the packet of draft-ravi-ippm-csig-00, Figure 5, pass its five switches: the bottleneck of each signal is another
// one.
func TestFigure5(t *testing.T) {
	t.Parallel()
	hops := []struct {
		rate, abw uint64
		delay     int64
	}{{800e9, 100e9, 10 * us}, {100e9, 95e9, 3 * us}, {100e9, 70e9, 18 * us}, {100e9, 90e9, 5 * us}, {40e9, 20e9, 8 * us}}
	for _, x := range []struct {
		signal  quantize.Signal
		low     uint64
		locator uint16
	}{{quantize.MinABW, 20e9, 4}, {quantize.MinABWC, 125_000, 0}, {quantize.MaxPD, 18_000, 2}} {
		m := simulation(t, head+"csig: {tag: wide, switches: [{kind: native}]}\nflows: [{from: 0, to: 1, size: 1}]")
		n := m.network
		k := packet{ask: cc.AskSignal(x.signal), tag: tag{on: true, s: n.csig.initial(x.signal), lm: quantize.Draft00.LMNone()}}
		n.now = 100 * us
		for i, h := range hops {
			l, p := &n.links[i], &n.csigPorts[i]
			l.rate = h.rate
			*p = csigPort{kind: native, lm: uint16(i), interval: 100 * us, end: 200 * us, at: 90 * us}
			n.measure(p, l, (h.rate-h.abw)/8/10_000)
			k.came = n.now - h.delay
			n.stamp(int32(i), &k)
			n.now += us
		}
		got := n.signal(&k)
		if !got.Valid || got.Low != x.low || got.Locator != x.locator {
			t.Errorf("%v: %+v, want %d of hop %d", x.signal, got, x.low, x.locator)
		}
	}
}
