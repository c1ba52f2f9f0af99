package linux

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// model is compare-and-replace as draft-00 §5.4 tells it, written without any
// of the code under test: the data of a tag that leaves a port with these
// local buckets.
type model struct {
	uec   bool
	local map[uint16][2]uint16 // by T: local S and LM
}

func (m model) data(in uint16) uint16 {
	t, s := in>>13, in>>7&31
	local, ours := m.local[t]
	if !ours || m.uec && in&1 == 1 {
		return in
	}
	worse := local[0] < s // min(ABW), min(ABW/C)
	if t >= 2 {           // max(PD), max(nQD)
		worse = local[0] > s
	}
	if !worse {
		return in
	}
	lm := local[1]
	if m.uec {
		lm <<= 1
	}
	return in&0xf000 | local[0]<<7 | lm
}

// frameOut is the frame that leaves the port.
func (m model) frameOut(f []byte, tpid uint16) []byte {
	vlan := func(t uint16) bool { return t != tpid && (t == 0x8100 || t == 0x88a8) }
	out := bytes.Clone(f)
	for k := 0; k <= 4; k++ {
		at := 12 + 4*k
		if len(f) < at+6 {
			return out
		}
		switch t := binary.BigEndian.Uint16(f[at:]); {
		case t == tpid:
			if next := binary.BigEndian.Uint16(f[at+4:]); next != tpid && !vlan(next) {
				binary.BigEndian.PutUint16(out[at+2:], m.data(binary.BigEndian.Uint16(f[at+2:])))
			}
			return out
		case !vlan(t):
			return out
		}
	}
	return out
}

// stripped is the frame that leaves a port that strips.
func stripped(f []byte, tpid, wide uint16) []byte {
	isTag := func(t uint16) bool { return t == tpid || t == wide && wide != 0 || t == 0x8100 || t == 0x88a8 }
	for at := 12; at <= 12+16 && len(f) >= at+2; at += 4 {
		size := 0
		switch t := binary.BigEndian.Uint16(f[at:]); {
		case t == tpid:
			size = 4
		case t == wide && wide != 0:
			size = 8
		case t == 0x8100 || t == 0x88a8:
			continue
		}
		if size == 0 || len(f) < at+size+2 || isTag(binary.BigEndian.Uint16(f[at+size:])) {
			return f
		}
		return slices.Concat(f[:at], f[at+size:])
	}
	return f
}

func TestEveryTag(t *testing.T) {
	for _, tc := range []struct {
		name   string
		layout quantize.Layout
		tpid   uint16
		local  map[uint16][2]uint16
	}{
		{"draft-00", quantize.Draft00, 0x9900, map[uint16][2]uint16{0: {12, 9}, 1: {3, 17}, 2: {9, 21}}},
		{"uec", quantize.UEC, 0x9900, map[uint16][2]uint16{0: {12, 9}, 1: {0, 17}, 2: {31, 21}, 3: {1, 1}}},
		{"draft-00 in 0x88a8", quantize.Draft00, 0x88a8, map[uint16][2]uint16{0: {30, 124}, 1: {31, 17}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire(t)
			d := openDriver(t, w.netns)
			s := setupFor(updatePort)
			s.TPID, s.Layout, s.Signals = tc.tpid, tc.layout, nil
			u := vendors.PortUpdate{Port: "swp1"}
			for sig := quantize.MinABW; sig <= quantize.MaxNQD; sig++ {
				if l, ok := tc.local[uint16(sig)]; ok {
					s.Signals = append(s.Signals, sig)
					u.Intents = append(u.Intents, bucket(sig, uint8(l[0]), l[1]))
				}
			}
			apply(t, d, s)
			update(t, d, time.Minute, u)
			m := model{tc.layout == quantize.UEC, tc.local}
			for _, in := range []struct {
				name string
				from *packetSocket
			}{{"from the port itself", w.port}, {"through the bridge", w.host}} {
				const window = 128
				for base := 0; base < 1<<16; base += window {
					for v := base; v < base+window; v++ {
						in.from.send(frame(uint32(v), tag{tc.tpid, uint16(v)}))
					}
					for v := base; v < base+window; v++ {
						want := frame(uint32(v), tag{tc.tpid, m.data(uint16(v))})
						if got := w.far.receive(); !bytes.Equal(got, want) {
							t.Fatalf("%s, data 0x%04x:\ngot  %x\nwant %x", in.name, v, got, want)
						}
					}
				}
			}
		})
	}
}

// tagStacks are VLAN tags of depth 0 to 5, in every mix of the two TPIDs.
func tagStacks() [][]tag {
	out := [][]tag{nil}
	for from := 0; len(out[from]) < 5; from++ {
		for _, tpid := range []uint16{0x8100, 0x88a8} {
			n := uint16(len(out[from]))
			out = append(out, append(slices.Clone(out[from]), tag{tpid, 0x2005 + 0x3010*n}))
		}
	}
	return out
}

// framesOfAllShapes are frames with a CSIG tag at every depth, and frames that
// look like one and have to stay as they are.
func framesOfAllShapes(tpid, wide uint16) [][]byte {
	var out [][]byte
	id := uint32(0)
	add := func(tags ...tag) {
		id++
		out = append(out, frame(id, tags...))
	}
	for _, stack := range tagStacks() {
		if len(stack) > 0 && tpid == 0x88a8 && slices.ContainsFunc(stack, func(t tag) bool { return t.tpid == tpid }) {
			continue // that is CSIG itself
		}
		add(stack...)
		for _, data := range []uint16{31<<7 | 126, 1<<13 | 1<<12 | 31<<7 | 126, 31<<7 | 126 | 1, 5<<13 | 31<<7 | 3, 2<<7 | 8} {
			add(append(slices.Clone(stack), tag{tpid, data})...)
		}
		csig := tag{tpid, 31<<7 | 126}
		add(append(slices.Clone(stack), csig, tag{0x8100, 7})...) // not the last tag
		add(append(slices.Clone(stack), csig, csig)...)
		add(append(slices.Clone(stack), tag{0x9100, 5}, csig)...) // 0x9100 is nobody's tag
		if wide != 0 {
			add(append(slices.Clone(stack), tag{wide, 0x1234}, tag{0x0fff, 0xff00})...)
			add(append(slices.Clone(stack), tag{wide, 0x1234}, tag{0x0fff, 0xff00}, csig)...)
			add(append(slices.Clone(stack), csig, tag{wide, 0x1234}, tag{0x0fff, 0xff00})...)
		}
	}
	if tpid == 0x88a8 {
		return out // the far side's kernel drops VLAN frames that are cut short
	}
	short := frame(0, tag{tpid, 31<<7 | 126})
	for n := 14; n <= 18; n++ { // cut inside the tag or right behind it
		out = append(out, short[:n])
	}
	return out
}

func TestDepths(t *testing.T) {
	for _, tpid := range []uint16{0x9900, 0x88a8} {
		for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("0x%04x %s agent gone %v", tpid, layout, gone), func(t *testing.T) {
					w := newWire(t)
					d := openDriver(t, w.netns)
					s := setupFor(updatePort)
					s.TPID, s.Layout = tpid, layout
					apply(t, d, s)
					m := model{layout == quantize.UEC, map[uint16][2]uint16{0: {4, 33}, 1: {5, 34}}}
					update(t, d, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{
						bucket(quantize.MinABW, 4, 33), bucket(quantize.MinABWC, 5, 34)}})
					if gone {
						if err := d.Release(t.Context()); err != nil {
							t.Fatal(err)
						}
						stale := layout.LMStale()
						m.local = map[uint16][2]uint16{0: {0, stale}, 1: {0, stale}}
					}
					w.compare(framesOfAllShapes(tpid, 0), func(f []byte) []byte { return m.frameOut(f, tpid) })
				})
			}
		}
	}
}

// compare sends frames through the port on both ways and compares what leaves.
func (w *wire) compare(frames [][]byte, want func([]byte) []byte) {
	w.t.Helper()
	bad := 0
	for _, from := range []struct {
		name string
		sock *packetSocket
	}{{"from the port itself", w.port}, {"through the bridge", w.host}} {
		for _, f := range frames {
			from.sock.send(f)
			if got := w.far.receive(); !bytes.Equal(got, want(f)) {
				w.t.Errorf("%s\nin   %x\ngot  %x\nwant %x", from.name, f, got, want(f))
				if bad++; bad > 10 {
					w.t.FailNow()
				}
			}
		}
	}
}

func TestStrip(t *testing.T) {
	if !realRoot(t) {
		stripRefused(t)
		return
	}
	for _, tpids := range [][2]uint16{{0x9900, 0}, {0x9900, 0x9901}, {0x88a8, 0}} {
		t.Run(fmt.Sprintf("0x%04x 0x%04x", tpids[0], tpids[1]), func(t *testing.T) {
			w := newWire(t)
			d := openDriver(t, w.netns)
			s := setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})
			s.TPID, s.WideTPID = tpids[0], tpids[1]
			apply(t, d, s)
			w.compare(framesOfAllShapes(tpids[0], tpids[1]), func(f []byte) []byte { return stripped(f, tpids[0], tpids[1]) })
		})
	}
}

// stripRefused is what a port without BPF says.
func stripRefused(t *testing.T) {
	w := newWire(t)
	d := openDriver(t, w.netns)
	err := d.Apply(t.Context(), setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
	permanent(t, err, "swp1", "strip needs")
}

func TestPassthroughWhenStale(t *testing.T) {
	w := newWire(t)
	d := openDriver(t, w.netns)
	s := setupFor(updatePort)
	s.OnStale = inventory.StalePassthrough
	apply(t, d, s)
	update(t, d, time.Minute, one(3, 9)) // what the map still says is not to be used
	if err := d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.compare(framesOfAllShapes(testTPID, 0), func(f []byte) []byte { return f })
}
