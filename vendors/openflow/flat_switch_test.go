package openflow

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// flatLab is a switch with one table, OF-DPA's or a plain one, in memory or on a real Open
// vSwitch. Frames of port 1 leave by port 2, and those of port 2 by port 1.
type flatLab struct {
	oftest.Bench
	proxy  *oftest.Proxy
	driver *Flat
	ofdpa  bool
	seq    uint32
}

var flatForwarding = []Forwarding{{InPort: "p1", Port: "p2"}, {InPort: "p2", Port: "p1"}}

// newFlatLab is a switch in memory.
func newFlatLab(t testing.TB, ofdpa bool, change func(*FlatConfig)) *flatLab {
	t.Helper()
	return flatLabOf(t, inMemory(3), ofdpa, change)
}

func flatLabOf(t testing.TB, b oftest.Bench, ofdpa bool, change func(*FlatConfig)) *flatLab {
	t.Helper()
	l := &flatLab{Bench: b, ofdpa: ofdpa}
	o := oftest.Options{Bench: b}
	if ofdpa {
		o.OFDPA = &oftest.OFDPA{}
		l.BuiltIn()
		for n := 1; n <= 2; n++ {
			l.Flow("add-group", fmt.Sprintf("group_id=%d,type=indirect,bucket=output:%d", 0xb0000000+n, n))
		}
		for n := 1; n <= 2; n++ {
			l.Flow("add-flow", fmt.Sprintf("table=10,priority=7,in_port=%d,vlan_vid=0x1000/0x1000,actions=goto_table:20", n))
			l.Flow("add-flow", fmt.Sprintf("table=60,priority=5,in_port=%d,actions=write_actions(group:%d)", n, 0xb0000000+3-n))
		}
	} else {
		for n := 1; n <= 2; n++ {
			l.Flow("add-flow", fmt.Sprintf("table=0,priority=5,in_port=%d,actions=output:%d", n, 3-n))
		}
	}
	l.proxy = oftest.Start(t, o, oftest.Faults{})
	l.driver = l.open(t, change)
	return l
}

// open opens another driver of the switch.
func (l *flatLab) open(t testing.TB, change func(*FlatConfig)) *Flat {
	t.Helper()
	return openFlatAt(t, l.proxy.Dial, func(cfg *FlatConfig) {
		cfg.OFDPA = l.ofdpa
		if change != nil {
			change(cfg)
		}
	})
}

// openFlatAt opens a driver of the switch that is dialed so.
func openFlatAt(t testing.TB, dial func(context.Context) (net.Conn, error), change func(*FlatConfig)) *Flat {
	t.Helper()
	cfg := FlatConfig{OFDPA: true, Forwarding: flatForwarding, Config: Config{Platform: "ofdpa", OrdinaryVLANs: NotParsed}}
	cfg.Connect, cfg.Done = ofp.Dialed(dial, ofp.Version13)
	change(&cfg)
	d, err := OpenFlat(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func flatWant(onStale inventory.OnStale, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: onStale}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Update})
	}
	return s
}

func (l *flatLab) apply(t testing.TB, s vendors.Setup) {
	t.Helper()
	if err := l.driver.Apply(t.Context(), s); err != nil {
		t.Fatalf("%v: %q", err, l.proxy.Refused())
	}
}

func (l *flatLab) update(t testing.TB, lease time.Duration, updates ...vendors.PortUpdate) vendors.UpdateResult {
	t.Helper()
	res, err := l.driver.Update(t.Context(), updates, lease)
	if err != nil || !res.Leased {
		t.Fatalf("%+v, %v: %q", res, err, l.proxy.Refused())
	}
	return res
}

// frameFlat is one with a sequence number and one tag.
func frameFlat(seq uint32, tci uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 1, 0, 0x88, 0xa8}
	b = append(binary.BigEndian.AppendUint16(b, tci), 0x88, 0xb5)
	return append(binary.BigEndian.AppendUint32(b, seq), make([]byte, 42)...)
}

// leave sends frames with tags in by port 1 and returns the tags with which they
// leave by port 2. Open vSwitch loses the DEI (vendors/ovs).
func (l *flatLab) leave(t testing.TB, tags ...uint16) (out []uint16) {
	t.Helper()
	at := l.seq
	var frames [][]byte
	for i, tci := range tags {
		frames = append(frames, frameFlat(at+uint32(i), tci))
	}
	l.seq += uint32(len(tags))
	l.Send(1, frames...)
	for len(out) < len(tags) {
		b := l.Receive(2)
		if b == nil {
			t.Fatalf("frame %d of %d, %04x, does not leave", len(out), len(tags), tags[len(out)])
		}
		tci := binary.BigEndian.Uint16(b[14:])
		if want := frameFlat(at+uint32(len(out)), tci); string(want) != string(b) {
			t.Fatalf("a frame leaves as %x, want %x", b, want)
		}
		out = append(out, tci)
	}
	return out
}

// eachOf are one of so many values of a tag, of each bucket as many, at random; of one all.
func eachOf(part int) (tags []uint16) {
	from := rand.IntN(part)
	for tci := range 1 << 16 {
		if (tci/128+tci)%part == from {
			tags = append(tags, uint16(tci))
		}
	}
	return tags
}

// compare compares what becomes of tags with the model.
func (l *flatLab) compare(t testing.TB, all []uint16, intents ...vlanrules.Intent) {
	t.Helper()
	l.Settled()
	const batch = 64 // a port's socket in Open vSwitch holds 100 frames
	for tags := range slices.Chunk(all, batch) {
		for i, got := range l.leave(t, tags...) {
			want := tags[i] &^ 0x1000
			for _, in := range intents {
				want = replaced(quantize.Draft00, want, in)
			}
			if got&^0x1000 != want {
				t.Fatalf("%04x leaves as %04x, want %04x", tags[i], got, want)
			}
		}
	}
}

// TestOFDPAEveryTag: tag values, of two updates and stale, through Policy ACL, L2 Rewrite and L2 Unfiltered Interface groups.
func TestOFDPAEveryTag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := eachOf(fewer(t, 1, 32))
		l := newFlatLab(t, true, nil)
		s := flatWant(inventory.Conservative, "p1", "p2")
		l.apply(t, s)
		l.compare(t, all, s.Fallback()...)
		in := []vlanrules.Intent{intent(quantize.MinABW, 13, 5), intent(quantize.MaxPD, 9, 6)}
		l.update(t, time.Minute, given("p2", in...))
		l.compare(t, all, in...)
		in = []vlanrules.Intent{intent(quantize.MinABW, 30, 7), intent(quantize.MaxPD, 1, 8)}
		l.update(t, time.Minute, given("p2", in...))
		l.compare(t, all, in...)
		if got := l.proxy.Refused(); got != nil {
			t.Errorf("refused %q", got)
		}
		// A setup that is read back is what was applied; who reads it takes it over.
		other := l.open(t, nil)
		got, err := other.Observe(t.Context())
		if changes, err2 := FlatDiff(got, s); err != nil || err2 != nil || len(changes) > 0 {
			t.Errorf("%+v: %v, %v, %v", got, changes, err, err2)
		}
		res, err := other.Update(t.Context(), []vendors.PortUpdate{given("p2", in...)}, time.Minute)
		if err != nil || !res.Leased || res.Repaired != nil {
			t.Errorf("%+v, %v", res, err)
		}
		l.Settled()
		if got := l.leave(t, 0x0fff); got[0] != 30<<7|7 {
			t.Errorf("%04x", got)
		}
		if err := other.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if text := l.Flow("dump-flows", "cookie=0x63736f6600000000/0xffffffff00000000") + l.Flow("dump-groups"); strings.Contains(text, "cookie=") || strings.Contains(text, "set_field") {
			t.Error(text)
		}
		l.compare(t, all)
	})
}

// TestFlatBetweenChanges: between every two changes that an update makes, those of a step
// in any order, frames have the old value or the new one; also where the switch answers
// first, and a step may overtake the one before unless that is waited out.
func TestFlatBetweenChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, ofdpa := range []bool{true, false} {
			l := newFlatLab(t, ofdpa, nil)
			s := flatWant(inventory.Conservative, "p2")
			s.Signals = s.Signals[:1]
			l.apply(t, s)
			now := intent(quantize.MinABW, 12, 5)
			var next vlanrules.Intent
			var tags []uint16
			for s := range uint16(32) {
				tags = append(tags, s<<7|0x3a)
			}
			var mu sync.Mutex // guards now, next and looked
			looked := 0
			look := func(oftest.Message) {
				mu.Lock()
				defer mu.Unlock()
				l.Settled()
				looked++
				for i, got := range l.leave(t, tags...) {
					was, will := replaced(quantize.Draft00, tags[i], now), replaced(quantize.Draft00, tags[i], next)
					if got != was && got != will {
						t.Errorf("%+v to %+v, after %d changes: %04x leaves as %04x, want %04x or %04x", now, next, looked, tags[i], got, was, will)
					}
				}
			}
			values := []vlanrules.Intent{intent(quantize.MinABW, 13, 5), intent(quantize.MinABW, 9, 7), intent(quantize.MinABW, 31, 3), intent(quantize.MinABW, 6, 4)}
			for _, faults := range []oftest.Faults{{After: look, Reorder: 1}, late(look)} {
				l.driver = l.open(t, func(cfg *FlatConfig) { cfg.AckDelay = faults.AckToWire })
				l.update(t, time.Minute, given("p2", now))
				l.proxy.Set(func(f *oftest.Faults) { *f = faults })
				for range 2 {
					mu.Lock()
					next, values = values[0], values[1:]
					mu.Unlock()
					l.update(t, time.Minute, given("p2", next))
					carriedOut(t, l.driver)
					mu.Lock()
					now = next
					mu.Unlock()
				}
				l.proxy.Set(func(f *oftest.Faults) { *f = oftest.Faults{} })
			}
			if l.proxy.Close(); looked < 30 {
				t.Errorf("frames were sent %d times", looked)
			}
		}
	})
}

// expires sends frames, with a pause after each round, until all have the stale values: each has
// those or the ones of before.
func (l *flatLab) expires(t testing.TB, before, stale []vlanrules.Intent, pause time.Duration) {
	t.Helper()
	tags := sample()
	for fallen, start := 0, time.Now(); fallen < len(tags); time.Sleep(pause) {
		fallen = 0
		for i, got := range l.leave(t, tags...) {
			was, will := tags[i], tags[i]
			for j := range before {
				was, will = replaced(quantize.Draft00, was, before[j]), replaced(quantize.Draft00, will, stale[j])
			}
			switch got {
			case will:
				fallen++
			case was:
			default:
				t.Fatalf("%04x leaves as %04x, want %04x or %04x", tags[i], got, was, will)
			}
		}
		if time.Since(start) > soon {
			t.Fatal("values do not expire")
		}
	}
}

// TestOFDPAExpiry: without an agent frames have its last values for two leases, and then the
// stale ones: never, for a moment, a tag that either would have rewritten.
func TestOFDPAExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := []vlanrules.Intent{intent(quantize.MinABW, 12, 5), intent(quantize.MaxPD, 9, 6)}
		l := newFlatLab(t, true, nil)
		s := flatWant(inventory.Conservative, "p2")
		l.apply(t, s)
		for range 25 { // more than one band has lasted
			if res := l.update(t, time.Second, given("p2", in...)); res.Lease != 2*time.Second {
				t.Errorf("%+v", res)
			}
			time.Sleep(100 * time.Millisecond)
		}
		gone := time.Now()
		l.expires(t, in, s.Fallback(), 50*time.Millisecond)
		if lasted := time.Since(gone); lasted < 900*time.Millisecond || lasted > 2*time.Second {
			t.Errorf("the values lasted for %v", lasted)
		}
	})
}

// TestFlatRenews: a band that would end within a lease is written again as the other;
// one that would not is left alone.
func TestFlatRenews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, true, nil)
		l.apply(t, flatWant(inventory.Conservative, "p2"))
		in := given("p2", intent(quantize.MinABW, 12, 5))
		first := l.update(t, time.Minute, in)
		if got := l.update(t, time.Minute, in); got.Ops != 0 || got.Lease != 2*time.Minute {
			t.Errorf("%+v", got)
		}
		if got := l.update(t, time.Second, in); got.Ops == 0 || got.Lease != 2*time.Second {
			t.Errorf("a band of a longer lease before stays: %+v", got)
		}
		l.update(t, time.Minute, in)
		time.Sleep(61 * time.Second)
		for range 2 {
			l.proxy.Reset()
			if got := l.update(t, time.Minute, in); got.Ops < 2*first.Ops-2 || got.Repaired != nil {
				t.Errorf("%+v after %+v", got, first)
			}
			if got := l.proxy.Counts(); got.Barriers > 4 {
				t.Errorf("%+v", got)
			}
			time.Sleep(61 * time.Second)
		}
		if err := l.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Settled()
		if got := l.leave(t, 0x0fff); got[0] != quantize.Draft00.VID(0, quantize.Draft00.LMStale()) {
			t.Errorf("%04x", got)
		}
	})
}
