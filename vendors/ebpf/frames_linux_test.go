package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

func loaded(t testing.TB) *planeObjects { return loadedWith(t, kernelTypes) }

func loadedWith(t testing.TB, types *btf.Spec) *planeObjects {
	t.Helper()
	var o planeObjects
	if err := loadPlaneObjects(&o, &ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: types}}); err != nil {
		var v *ebpf.VerifierError
		if errors.As(err, &v) {
			t.Logf("%-40v", v)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return &o
}

// poke writes a device's entry in place, where no frame is on its way.
func (o *planeObjects) poke(index uint32, e *planePort) error {
	at := place{slot: e.Slot, live: 1}
	e.Version = version()
	return errors.Join(o.CsigPorts.Put(at.element(), e), o.CsigLive.Put(at.slot, at.live), o.CsigPlaces.Put(index, at.slot))
}

// loopback is the device that the kernel has test frames leave.
const loopback = uint32(1)

// bench is the data plane with one port, and the model of the same port.
type bench struct {
	t      testing.TB
	o      *planeObjects
	port   planePort
	model  model
	signal map[quantize.Signal]quantize.SignalProfile
	rate   uint64
	index  uint32
}

func newBench(t testing.TB, o *planeObjects, layout quantize.Layout, compact uint16, interval time.Duration) *bench {
	t.Helper()
	b := &bench{t: t, o: o, index: loopback, rate: 100e9, signal: map[quantize.Signal]quantize.SignalProfile{}}
	b.model = model{uec: layout == quantize.UEC, compact: compact, wide: 0x9901, retired: map[uint16]int{0x9aaa: 4, 0x9bbb: 8}, update: true, signals: map[uint16]local{}}
	for sig, preset := range map[quantize.Signal]string{quantize.MinABW: "log-100G", quantize.MinABWC: quantize.PresetNames(quantize.MinABWC)[0]} {
		table, err := quantize.Preset(sig, preset)
		if err != nil {
			t.Fatal(err)
		}
		sp := quantize.SignalProfile{Buckets: table, Quantum: 1_000_000}
		if sig == quantize.MinABWC {
			sp.Quantum = 1
		}
		b.signal[sig] = sp
		g, err := signalOf(sig, &sp, b.rate, interval)
		if err != nil {
			t.Fatal(err)
		}
		l := local{lm: 5 + uint32(sig), wideLM: 0x1234 + uint32(sig)}
		b.model.signals[uint16(sig)] = l
		g.Lm, g.WideLm = uint16(l.lm), uint16(l.wideLM)
		if b.model.uec {
			g.Lm, g.WideLm = g.Lm<<1, g.WideLm<<1
		}
		b.port.Signals[sig] = g
	}
	b.port.Deadline, b.port.Interval, b.port.Update = 1<<63, uint64(interval), 1
	if b.model.uec {
		b.port.Uec = 1
	}
	tag := func(i int, tpid uint16, size uint8) {
		b.port.Tags[i].Tpid, b.port.Tags[i].Size = bits.ReverseBytes16(tpid), size
	}
	tag(0, compact, 4)
	tag(1, 0x9901, 8)
	tag(2, 0x9aaa, 4)
	tag(3, 0x9bbb, 8)
	return b
}

// sent has so many bytes be those of the last interval.
func (b *bench) sent(bytes uint64) {
	b.t.Helper()
	for sig, sp := range b.signal {
		l := b.model.signals[uint16(sig)]
		v := floor(truth(sig, bytes, b.rate, b.port.Interval))
		l.s, l.wideS = uint32(sp.Buckets.Bucket(v)), uint32(min(v/sp.Quantum, quantize.MaxWideS))
		b.model.signals[uint16(sig)] = l
	}
	if err := errors.Join(b.o.poke(b.index, &b.port), b.o.CsigState.Put(uint32(0), &planeState{Start: 1 << 62, Last: bytes, Closed: 1})); err != nil {
		b.t.Fatal(err)
	}
}

// wants sends a frame through the port.
func (b *bench) wants(f []byte) {
	b.t.Helper()
	_, got, err := b.o.CsigEgress.Test(f)
	if err != nil {
		b.t.Fatal(err)
	}
	if want := b.model.out(f); !bytes.Equal(got, want) {
		b.t.Fatalf("frame %x\n  left as %x\n    want %x (%+v)", f, got, want, b.model)
	}
}

// Compact tags, in both layouts, through a port with a load that none of the edges meets, and wide
// ones with any load: some of what TestLongEveryTag sends.
func TestEveryTag(t *testing.T) {
	t.Parallel()
	o := loaded(t)
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		b := newBench(t, o, layout, 0x9900, time.Millisecond)
		f := make([]byte, 64)
		b.sent(10_000_000)
		for v := 0; v < 1<<16; v += vendorstest.Every(t, 37) {
			binary.BigEndian.PutUint64(f[12:], 0x9900<<48|uint64(v)<<32|0x0800<<16)
			b.wants(f)
		}
		r := rand.New(rand.NewPCG(1, uint64(layout)))
		for n := range 50_000 / vendorstest.Every(t, 37) {
			if n%64 == 0 {
				b.sent(r.Uint64N(14_000_000))
			}
			binary.BigEndian.PutUint16(f[12:], 0x9901)
			binary.BigEndian.PutUint64(f[14:], r.Uint64()&^0xe<<60)
			binary.BigEndian.PutUint16(f[20:], 0x0800)
			b.wants(f)
		}
	}
}

// Every compact tag in both layouts, and 100,000 wide ones.
func TestLongEveryTag(t *testing.T) { TestEveryTag(t) }

// What an interval's bytes make of S is computed once; an entry with other edges has it computed again.
func TestOtherEdges(t *testing.T) {
	t.Parallel()
	o := loadedWith(t, nil) // as an agent does
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Millisecond)
	f := make([]byte, 64)
	binary.BigEndian.PutUint64(f[12:], 0x9900<<48|0x0fff<<32|0x0800<<16) // S 31 of min(ABW)
	const bytes = 1_000_000                                              // 8 Gbit/s
	b.sent(bytes)
	b.wants(f)
	for _, rate := range []uint64{100e9, 40e9, 10e9, 9e9, 100e9} {
		for sig, sp := range b.signal {
			g, err := signalOf(sig, &sp, rate, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			g.Lm, g.WideLm = b.port.Signals[sig].Lm, b.port.Signals[sig].WideLm
			b.port.Signals[sig] = g
			l := b.model.signals[uint16(sig)]
			l.s = uint32(sp.Buckets.Bucket(floor(truth(sig, bytes, rate, b.port.Interval))))
			b.model.signals[uint16(sig)] = l
		}
		if err := o.poke(b.index, &b.port); err != nil {
			t.Fatal(err)
		}
		b.wants(f)
		b.wants(f)
	}
}
