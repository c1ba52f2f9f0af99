package linux

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// model is compare-and-replace as draft-00 §5.4 tells it, written without any
// of the code under test: the data of a tag that leaves a port with these
// local buckets.
type model struct {
	uec   bool
	local map[uint16][2]uint16 // by T: local S and LM
	wide  uint16               // the domain's TPID of wide tags

	others []uint16 // TPIDs of other domains that the device knows
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

// frameOut is the frame that leaves the port. A CSIG tag with another behind it,
// of whatever domain, is not the last.
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
			if next := binary.BigEndian.Uint16(f[at+4:]); next != tpid && (next != m.wide || next == 0) && !vlan(next) && !slices.Contains(m.others, next) {
				binary.BigEndian.PutUint16(out[at+2:], m.data(binary.BigEndian.Uint16(f[at+2:])))
			}
			return out
		case !vlan(t):
			return out
		}
	}
	return out
}

// strippedOf is the frame that leaves a port of a setup which strips the tags of
// other TPIDs and, if own, the domain's: of the CSIG tags that are the last L2
// tags, behind four VLAN tags at most, in a row of 32 bytes at most.
func strippedOf(f []byte, s *vendors.Setup, own bool) []byte {
	type kind struct {
		size       int
		csig, goes bool
	}
	kinds := map[uint16]kind{0x8100: {size: 4}, 0x88a8: {size: 4}}
	kinds[s.TPID] = kind{4, true, own}
	if s.WideTPID != 0 {
		kinds[s.WideTPID] = kind{8, true, own}
	}
	for _, o := range s.Others {
		kinds[o.TPID] = kind{4, true, true}
		if o.Wide {
			kinds[o.TPID] = kind{8, true, true}
		}
	}
	type piece struct {
		kind
		bytes []byte
	}
	var row []piece
	at, vlans := 12, 0
	for {
		if len(f) < at+2 {
			return f
		}
		k, isTag := kinds[binary.BigEndian.Uint16(f[at:])]
		if !isTag {
			break
		}
		if !k.csig {
			vlans++
		}
		if at+k.size > 12+32 || vlans > 4 {
			return f
		}
		row = append(row, piece{k, f[at:min(len(f), at+k.size)]})
		at += k.size
	}
	last := len(row)
	for last > 0 && row[last-1].csig {
		last--
	}
	out := bytes.Clone(f[:12])
	for i, p := range row {
		if i < last || !p.goes {
			out = append(out, p.bytes...)
		}
	}
	return append(out, f[at:]...)
}

// TestEveryTag sends tags of every T and S to a port that updates: through the bridge and from the
// port itself in the first of the setups, and by turns in the others.
func TestEveryTag(t *testing.T) {
	t.Parallel()
	for n, tc := range []struct {
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
			m := model{uec: tc.layout == quantize.UEC, local: tc.local}
			const window = 128
			for base := 0; base < 1<<16; base += window {
				for i, from := range []*packetSocket{w.host, w.port} {
					if n > 0 && base/window%2 != i {
						continue
					}
					for v := base; v < base+window; v += vendorstest.Every(t, 9) {
						from.send(frame(uint32(v), tag{tc.tpid, uint16(v)}))
					}
					for v := base; v < base+window; v += vendorstest.Every(t, 9) {
						want := frame(uint32(v), tag{tc.tpid, m.data(uint16(v))})
						if got := w.far.receive(); !bytes.Equal(got, want) {
							t.Fatalf("data 0x%04x:\ngot  %x\nwant %x", v, got, want)
						}
					}
				}
			}
		})
	}
}

// TestLongEveryTag is TestEveryTag with every tag.
func TestLongEveryTag(t *testing.T) { TestEveryTag(t) }

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
		add(append(slices.Clone(stack), tag{0x9100, 5}, csig)...) // 0x9100 is no tag of the domain
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
	t.Parallel()
	for _, tpid := range []uint16{0x9900, 0x88a8} {
		for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("0x%04x %s agent gone %v", tpid, layout, gone), func(t *testing.T) {
					w := newWire(t)
					d := openDriver(t, w.netns)
					s := setupFor(updatePort)
					s.TPID, s.Layout = tpid, layout
					apply(t, d, s)
					m := model{uec: layout == quantize.UEC, local: map[uint16][2]uint16{0: {4, 33}, 1: {5, 34}}}
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
	t.Parallel()
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
			w.compare(framesOfAllShapes(tpids[0], tpids[1]), func(f []byte) []byte { return strippedOf(f, &s, true) })
		})
	}
}

// TestStripOthers has ports that strip the tags of other TPIDs, whatever they do
// with the domain's own: compare-and-replace comes first, and each frame of
// every shape that the tests of strip use leaves with neither too much nor too
// little.
func TestStripOthers(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		t.Fatal("this test strips, which needs BPF: run it as root of the machine")
	}
	for _, tc := range []struct {
		name       string
		tpid, wide uint16
		others     []vendors.OtherTPID
	}{
		{"0x9900 after 0x88a8", 0x9900, 0, []vendors.OtherTPID{{TPID: 0x88a8}}},
		{"0x88a8 after 0x9900", 0x88a8, 0, []vendors.OtherTPID{{TPID: 0x9900}}},
		{"wide tags too, after both", 0x9aa0, 0x9aa1, []vendors.OtherTPID{{TPID: 0x9900}, {TPID: 0x9901, Wide: true}}},
		{"as many as can be", 0x9aa0, 0, []vendors.OtherTPID{{TPID: 0x88a8}, {TPID: 0x9900}, {TPID: 0x9901, Wide: true}, {TPID: 0x9902}}},
	} {
		w := newWire(t)
		d := openDriver(t, w.netns)
		var frames [][]byte
		add := func(tpid, wide uint16) {
			for _, f := range framesOfAllShapes(tpid, wide) {
				if len(f) > 18 || !slices.ContainsFunc(append(tc.others, vendors.OtherTPID{TPID: tc.tpid}), func(o vendors.OtherTPID) bool { return o.TPID == 0x88a8 }) {
					frames = append(frames, f)
				}
			}
		}
		add(tc.tpid, tc.wide)
		for _, o := range tc.others {
			if o.Wide {
				add(tc.others[0].TPID, o.TPID)
			} else {
				add(o.TPID, 0)
			}
		}
		frames = append(frames, rows(tc.tpid, tc.wide, tc.others)...)
		for _, action := range []vlanrules.Action{vlanrules.Update, vlanrules.Passthrough, vlanrules.Strip} {
			t.Run(tc.name+" "+action.String(), func(t *testing.T) {
				s := setupFor(vendors.PortSetup{Port: "swp1", Action: action, StripOthers: action != vlanrules.Strip})
				s.TPID, s.WideTPID, s.Others = tc.tpid, tc.wide, tc.others
				apply(t, d, s)
				m := model{local: map[uint16][2]uint16{}, wide: tc.wide}
				for _, o := range tc.others {
					m.others = append(m.others, o.TPID)
				}
				if action == vlanrules.Update {
					m.local = map[uint16][2]uint16{0: {4, 33}, 1: {5, 34}}
					update(t, d, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{
						bucket(quantize.MinABW, 4, 33), bucket(quantize.MinABWC, 5, 34)}})
				}
				w.t = t
				w.compare(frames, func(f []byte) []byte { return strippedOf(m.frameOut(f, tc.tpid), &s, action == vlanrules.Strip) })
				if have, err := d.Observe(t.Context()); err != nil || have.Damaged != "" || have.Ports[0] != s.Ports[0] || !slices.Equal(have.Others, tc.others) {
					t.Errorf("observed %+v, %v", have, err)
				}
			})
		}
	}
}

// TestRetiredWithoutStrip: the setup of a device whose ports update, and strip
// nothing, has the retired TPIDs, and a tag in front of one of them is not the last.
func TestRetiredWithoutStrip(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	prof := quantize.Profile{TPID: 0x9900, Signals: map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}}}
	s := vendors.SetupOf(&prof, inventory.Policy{OnStale: inventory.Conservative, Retired: []inventory.RetiredTPID{{TPID: 0x9aaa}, {TPID: 0x9aab, Wide: true}}},
		&inventory.Device{Name: "s1", Ports: []inventory.Port{{Name: "swp1", Action: vlanrules.Update}}})
	apply(t, d, s)
	update(t, d, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 4, 33)}})
	last := frame(1, tag{0x9900, 0x0ffe})
	first := frame(2, tag{0x9900, 0x0ffe}, tag{0x9aaa, 0x0ffe})
	wide := frame(3, tag{0x8100, 5}, tag{0x9900, 0x0ffe}, tag{0x9aab, 0x1234}, tag{0x5678, 0x0800})
	want := map[string][]byte{string(last): frame(1, tag{0x9900, 4<<7 | 33}), string(first): first, string(wide): wide}
	w.compare([][]byte{last, first, wide}, func(f []byte) []byte { return want[string(f)] })
	if have, err := d.Observe(t.Context()); err != nil || have.Damaged != "" || !slices.Equal(have.Others, s.Others) {
		t.Errorf("observed %+v, %v", have, err)
	}
	pass := vendors.Setup{Others: s.Others, Ports: []vendors.PortSetup{{Port: "swp1"}}}
	if pass.DropOthers(); pass.Others != nil {
		t.Errorf("ports that pass tags through have others: %v", pass.Others)
	}
}

// rows are frames with tags of several domains behind 0 to 4 VLAN tags: every row
// of two, and rows of many that a generator draws.
func rows(tpid, wide uint16, others []vendors.OtherTPID) [][]byte {
	kinds := [][]tag{{{tpid, 0x0ffe}}}
	if wide != 0 {
		kinds = append(kinds, []tag{{wide, 0x1234}, {0x9900, 0x8100}}) // what looks like tags is data
	}
	for _, o := range others {
		if o.Wide {
			kinds = append(kinds, []tag{{o.TPID, 0x1234}, {0x9900, 0x88a8}})
		} else {
			kinds = append(kinds, []tag{{o.TPID, 0x0ffe}})
		}
	}
	vlan := []tag{{0x8100, 5}, {0x8100, 7}, {0x8100, 9}, {0x8100, 11}}
	id := uint32(1000)
	var out [][]byte
	add := func(tags ...tag) {
		id++
		out = append(out, frame(id, tags...))
	}
	for _, a := range kinds {
		for _, b := range kinds {
			for n := range 5 {
				add(slices.Concat(vlan[:n], a, b)...)
			}
		}
	}
	draw := rand.New(rand.NewPCG(7, uint64(tpid)))
	for range 200 {
		var tags []tag
		for range 1 + draw.IntN(7) {
			if draw.IntN(4) == 0 {
				tags = append(tags, vlan[0])
			} else {
				tags = append(tags, kinds[draw.IntN(len(kinds))]...)
			}
		}
		add(tags...)
	}
	return out
}

// TestStripOthersKeepsTheSignal adds and takes away another TPID under a lease
// that runs: what the port advertises stays.
func TestStripOthersKeepsTheSignal(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		t.Fatal("this test strips, which needs BPF: run it as root of the machine")
	}
	w := newWire(t)
	d := openDriver(t, w.netns)
	s := setupFor(updatePort)
	apply(t, d, s)
	update(t, d, time.Minute, one(9, 4))
	with := setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Update, StripOthers: true})
	with.Others = []vendors.OtherTPID{{TPID: 0x88a8}}
	for _, s := range []vendors.Setup{with, s, with} {
		apply(t, d, s)
		if got := w.value(initial); got != 9<<7|4 {
			t.Errorf("%+v: 0x%04x", s.Others, got)
		}
		if res := update(t, d, time.Minute, one(9, 4)); res.Ops != 0 || res.Repaired != nil {
			t.Errorf("an update has to do %+v", res)
		}
	}
	detachByHand(t, w.netns, "swp1")
	d.strip.looked = time.Time{}
	if res := update(t, d, time.Minute, one(9, 4)); !strings.Contains(res.Repaired.String(), stripName) {
		t.Errorf("a program that was detached: %+v", res)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := programs(t, w.netns, "swp1"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
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
	t.Parallel()
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

// TestFramesAsTheCodecReadsThem: what csig tag decode and csig probe take for a
// frame's signal is what ports rewrite, and nothing else; so do the models of
// these tests.
func TestFramesAsTheCodecReadsThem(t *testing.T) {
	t.Parallel()
	for _, tpids := range []quantize.TPIDs{{Compact: 0x9900}, {Compact: 0x9900, Wide: 0x9901}, {Compact: 0x88a8}} {
		m := model{local: map[uint16][2]uint16{0: {0, 33}, 1: {0, 34}}, wide: tpids.Wide}
		s := vendors.Setup{TPID: tpids.Compact, WideTPID: tpids.Wide}
		for _, f := range append(framesOfAllShapes(tpids.Compact, tpids.Wide), rows(tpids.Compact, tpids.Wide, nil)...) {
			pos, err := quantize.FindTag(f, tpids)
			data := uint16(0)
			if err == nil {
				data = binary.BigEndian.Uint16(f[pos.Offset+2:])
			}
			want := err == nil && !pos.Wide && m.data(data) != data
			if got := !bytes.Equal(m.frameOut(f, tpids.Compact), f); got != want {
				t.Errorf("%x is rewritten: %v; the codec: %+v, %v", f, got, pos, err)
			}
			if err == nil && !bytes.Equal(strippedOf(f, &s, true), slices.Concat(f[:pos.Offset], f[pos.EtherType:])) {
				t.Errorf("%x: stripped to %x", f, strippedOf(f, &s, true))
			}
		}
	}
}
