package ovs

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// model is vendorstest.Model without R where a tag is rewritten: Open vSwitch loses it.
func model(layout quantize.Layout, intents []vlanrules.Intent, tci uint16) uint16 {
	got := vendorstest.Model(layout, intents, tci)
	if got != tci {
		got &^= 0x1000
	}
	return got
}

// window is how many frames are under way at once: a port that is a socket
// keeps no more than 100.
const window = 90

// settle has the switch forget what it cached of older flows.
func (s *sandwich) settle() { s.Settled() }

// exchange sends a frame for each tag and returns what became of them.
func (s *sandwich) exchange(t testing.TB, tags []uint16, shape func(tci uint16) []tag) [][]byte {
	t.Helper()
	got := make([][]byte, len(tags))
	for from := 0; from < len(tags); from += window {
		to := min(from+window, len(tags))
		var frames [][]byte
		for i := from; i < to; i++ {
			frames = append(frames, frame(uint32(i), shape(tags[i])...))
		}
		s.in.Send(frames...)
		for range to - from {
			b := s.out.Receive(soon)
			if b == nil {
				t.Fatalf("frames %d to %d: one of them does not arrive", from, to-1)
			}
			got[seqOf(b)] = b
		}
	}
	return got
}

// shapes are the frames that a tag of any value can be in.
var shapes = []tagShape{
	{"CSIG", func(tci uint16) []tag { return []tag{{tpidCSIG, tci}} }, func(_, want uint16) []tag { return []tag{{tpidCSIG, want}} }},
	{"VLAN", func(tci uint16) []tag { return []tag{{tpidVLAN, tci}} }, func(tci, _ uint16) []tag { return []tag{{tpidVLAN, tci}} }},
	{"CSIG behind a VLAN", func(tci uint16) []tag { return []tag{{tpidVLAN, 3<<13 | 100}, {tpidCSIG, tci}} },
		func(_, want uint16) []tag { return []tag{{tpidVLAN, 3<<13 | 100}, {tpidCSIG, want}} }},
	{"VLAN behind a VLAN", func(tci uint16) []tag { return []tag{{tpidVLAN, 3<<13 | 100}, {tpidVLAN, tci}} },
		func(tci, _ uint16) []tag { return []tag{{tpidVLAN, 3<<13 | 100}, {tpidVLAN, tci}} }},
	{"VLAN behind CSIG's TPID", func(tci uint16) []tag { return []tag{{tpidCSIG, tci}, {tpidVLAN, 7}} },
		func(tci, _ uint16) []tag { return []tag{{tpidCSIG, tci}, {tpidVLAN, 7}} }},
}

type tagShape struct {
	name   string
	before func(tci uint16) []tag
	after  func(tci, want uint16) []tag
}

// tryShapes checks tags in some shapes, and with other buckets each time.
func (s *sandwich) tryShapes(t *testing.T, layout quantize.Layout, shapes []tagShape, tags []uint16, rng *rand.Rand) {
	t.Helper()
	setup := setupFor(layout, swp1)
	apply(t, s.driver, setup)
	for _, shape := range shapes {
		var intents []vlanrules.Intent
		for _, sig := range setup.Signals {
			intents = append(intents, bucket(sig, uint8(rng.IntN(32)), uint16(1+rng.IntN(50))))
		}
		update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: intents})
		s.settle()
		wrong := 0
		for i, got := range s.exchange(t, tags, shape.before) {
			tci := tags[i]
			want := frame(uint32(i), shape.after(tci, model(layout, intents, tci))...)
			if tci&0xefff == 0 {
				continue // the switching bridge takes a tag of zeros away, which csig writes nowhere
			}
			if string(got) != string(want) {
				if wrong++; wrong < 5 {
					t.Errorf("%s, %s, %+v, tag %04x:\ngot  %x\nwant %x", layout, shape.name, intents, tci, got[:26], want[:26])
				}
			}
		}
		if wrong > 0 {
			t.Fatalf("%s, %s: %d of %d tags", layout, shape.name, wrong, len(tags))
		}
	}
}

func allTags() []uint16 {
	tags := make([]uint16, 1<<16)
	for i := range tags {
		tags[i] = uint16(i)
	}
	return tags
}

// shuffled are all tags in a random order.
func shuffled(rng *rand.Rand) []uint16 {
	tags := allTags()
	rng.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	return tags
}

// TestTags samples what TestLongEveryTag checks whole.
func TestTags(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	tags := shuffled(rng)
	s := newSandwich(t)
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		s.tryShapes(t, layout, shapes, tags[:100], rng)
	}
}

// TestLongEveryTag sends each tag in one of the shapes, which TestTags samples, and one in four in the
// layout uec.
func TestLongEveryTag(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	tags := shuffled(rng)
	s := newSandwich(t)
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		for i := range len(shapes) {
			some := share(tags, i, len(shapes))
			if layout == quantize.UEC {
				some = some[:len(some)/4]
			}
			s.tryShapes(t, layout, shapes[i:i+1], some, rng)
		}
	}
}
