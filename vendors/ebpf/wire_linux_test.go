package ebpf

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

func TestMain(m *testing.M) {
	fabric.Tests(m, func() (func(), error) {
		kernelTypes, _ = btf.LoadKernelSpec() // where there are none, each load says so
		return func() {}, nil
	})
}

// wire is a switch with the data plane at one port: frames of host reach the port through
// the bridge, which has taken their first VLAN tag into metadata, those of port leave it as
// they are. far receives what leaves.
type wire struct {
	f               *fabric.Fabric
	index           uint32
	host, port, far *packets.Socket
	h1, h2, s       *fabric.Node
	e1, e2, p2      *fabric.Port
}

func newWire(t testing.TB, o *planeObjects) *wire {
	t.Helper()
	var f fabric.Fabric
	t.Cleanup(func() { f.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h1, err := f.AddHost("h1")
	must(err)
	h2, err := f.AddHost("h2")
	must(err)
	s, err := f.AddSwitch("s")
	must(err)
	e1, p1, err := f.Connect(fabric.End{Node: h1, Port: "e"}, fabric.End{Node: s, Port: "p1"}, 9000)
	must(err)
	e2, p2, err := f.Connect(fabric.End{Node: h2, Port: "e"}, fabric.End{Node: s, Port: "p2"}, 9000)
	must(err)
	must(f.WaitUp(t.Context()))
	must(s.Forward(macB, p2))
	must(s.Forward(e2.MAC, p2))
	must(s.Forward(e1.MAC, p1))
	w := &wire{f: &f, index: uint32(p2.Index()), h1: h1, h2: h2, s: s, e1: e1, e2: e2, p2: p2}
	must(h1.Do(func() (err error) { w.host, err = packets.OpenSender(e1.Index()); return err }))
	must(h2.Do(func() (err error) { w.far, err = packets.Open(e2.Index(), nil); return err }))
	must(s.Do(func() (err error) {
		if w.port, err = packets.OpenSender(p2.Index()); err != nil {
			return err
		}
		if o == nil {
			return nil // a driver attaches it
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: p2.Index(), Program: o.CsigEgress, Attach: ebpf.AttachTCXEgress})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
	t.Cleanup(func() { w.host.Close(); w.port.Close(); w.far.Close() })
	return w
}

var macA, macB = net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}

// through sends frames and returns those that leave, in order.
func (w *wire) through(t testing.TB, from *packets.Socket, frames [][]byte) [][]byte {
	t.Helper()
	for _, f := range frames {
		if err := from.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	var out [][]byte
	for deadline := time.Now().Add(time.Minute); len(out) < len(frames); {
		f, _, err := w.far.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			out = append(out, bytes.Clone(f))
		} else if time.Now().After(deadline) {
			t.Fatalf("%d of %d frames came", len(out), len(frames))
		}
	}
	return out
}

// Rows of tags of all kinds, through ports of every kind, offloaded or not.
func TestRows(t *testing.T) {
	t.Parallel()
	o := loaded(t)
	w := newWire(t, o)
	r := rand.New(rand.NewPCG(2, 3))
	types := []uint16{0x8100, 0x88a8, 0x9900, 0x9901, 0x9aaa, 0x9bbb}
	for n := range 448 / vendorstest.Every(t, 7) {
		b := newBench(t, o, quantize.Layout(n&1), []uint16{0x9900, 0x88a8}[n>>5&1], time.Millisecond)
		b.index = w.index
		b.model.update = n&2 != 0
		b.model.stripOwn = n&6 == 4
		b.model.stripRetired = n&8 != 0 || b.model.stripOwn
		flag := func(on bool) uint8 {
			if on {
				return 1
			}
			return 0
		}
		b.port.Update, b.port.Strip = flag(b.model.update), flag(b.model.stripRetired)
		for i := range 2 {
			b.port.Tags[i].Strip, b.port.Tags[2+i].Strip = flag(b.model.stripOwn), flag(b.model.stripRetired)
		}
		b.sent(r.Uint64N(14_000_000))
		frames := make([][]byte, 100)
		for i := range frames {
			f := append(bytes.Clone(macB), macA...)
			for range r.IntN(10) {
				tpid := types[r.IntN(len(types))]
				f = binary.BigEndian.AppendUint32(f, uint32(tpid)<<16|r.Uint32N(1<<16))
				if b.model.size(tpid) == 8 {
					f = binary.BigEndian.AppendUint32(f, r.Uint32())
				}
			}
			f = append(f, 0x88, 0xb5)
			for len(f) < 60+r.IntN(30) {
				f = append(f, byte(r.Uint32()))
			}
			frames[i] = f
		}
		from := w.host
		if n&16 != 0 {
			from = w.port
		}
		for i, got := range w.through(t, from, frames) {
			if want := b.model.out(frames[i]); !bytes.Equal(got, want) {
				t.Fatalf("frame %x\n  left as %x\n    want %x (%+v)", frames[i], got, want, b.model)
			}
		}
	}
}

// TestLongRows is TestRows with more frames.
func TestLongRows(t *testing.T) { TestRows(t) }

// A frame that the bridge floods has copies that share its bytes: those that leave by other ports
// stay as they are.
func TestCopies(t *testing.T) {
	t.Parallel()
	o := loaded(t)
	w := newWire(t, o)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Millisecond)
	b.index = w.index
	b.sent(10_000_000)
	h3, err := w.f.AddHost("h3")
	if err != nil {
		t.Fatal(err)
	}
	e3, _, err := w.f.Connect(fabric.End{Node: h3, Port: "e"}, fabric.End{Node: w.s, Port: "p3"}, 9000)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := *w // what comes to h3
	if err := h3.Do(func() (err error) { other.far, err = packets.Open(e3.Index(), nil); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.far.Close() })
	f := append(bytes.Clone(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), macA...)
	f = append(binary.BigEndian.AppendUint32(f, 0x9900<<16|0x0fff), 0x88, 0xb5)
	f = append(f, make([]byte, 46)...)
	want := b.model.out(f)
	if bytes.Equal(want, f) {
		t.Fatal("the frame is not one that the port changes")
	}
	frames := make([][]byte, 50)
	for i := range frames {
		frames[i] = f
	}
	for _, got := range w.through(t, w.host, frames) {
		if !bytes.Equal(got, want) {
			t.Errorf("behind the port %x, want %x", got, want)
		}
	}
	for _, got := range other.through(t, w.host, frames) {
		if !bytes.Equal(got, f) {
			t.Errorf("behind another port %x, want %x", got, f)
		}
	}
}
