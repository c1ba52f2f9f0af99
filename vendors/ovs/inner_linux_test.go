package ovs

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// bed sends each frame to three ports at once: one without csig, one that updates
// and one that strips. What leaves the first is what the others have to send, but
// for the CSIG tag.
type bed struct {
	*sandwich
	plain, strips *ovstest.Wire // beside out, which updates
	intents       []vlanrules.Intent
	seq           uint32
}

// twin is the port that strips beside swp1.
var twin = vendors.PortSetup{Port: "swp2", Action: vlanrules.Strip}

func (b *bed) program(t testing.TB) {
	t.Helper()
	b.driver = b.open(t, "csig")
	apply(t, b.driver, setupFor(quantize.Draft00, swp1, twin))
	b.intents = []vlanrules.Intent{bucket(quantize.MinABW, 7, 5), bucket(quantize.MinABWC, 20, 9), bucket(quantize.MaxPD, 11, 3)}
	update(t, b.driver, 10*time.Minute, vendors.PortUpdate{Port: "swp1", Intents: b.intents})
}

// normalBed has br0 switch by NORMAL between a port and three more of one kind.
func normalBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{sandwich: &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}}
	b.Together(func() {
		b.AddBridge("br0")
		b.AddBridge("csig")
		for _, port := range []string{"swp1", "swp2"} {
			b.AddPatch("br0", "p-"+port, "csig", "i-"+port)
			b.Vsctl("set", "interface", "i-"+port, "external_ids:csig-port="+port)
		}
		b.in, b.plain = b.AddWire("br0", "h1", 11), b.AddWire("br0", "plain", 12)
		b.out, b.strips = b.AddWire("csig", "swp1", 11), b.AddWire("csig", "swp2", 12)
	})
	b.program(t)
	return b
}

// flowBed has flows of an operator's hand frames over after the actions.
func flowBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{sandwich: &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}}
	b.Together(func() {
		b.AddBridge("csig")
		b.in, b.plain = b.AddWire("csig", "h1", 1), b.AddWire("csig", "plain", 4)
		b.out, b.strips = b.AddWire("csig", "swp1", 2), b.AddWire("csig", "swp2", 3)
	})
	b.Ofctl("add-group", "csig", "group_id=1,type=all,bucket=output:4,bucket=load:2->NXM_NX_REG15[],resubmit(,60),bucket=load:3->NXM_NX_REG15[],resubmit(,60)")
	b.program(t)
	return b
}

// sentinel is the source address of frames that reach every port of the bed.
var sentinel = []byte{2, 0, 0, 0, 0, 0xee}

// flush returns what three wires received until a frame has come that was sent
// after everything else had been dealt with.
func (b *bed) flush(t testing.TB) (got [3]map[uint32][]byte) {
	t.Helper()
	for i := range got {
		got[i] = map[uint32][]byte{}
	}
	// The second one is read by the switch after the batch with the first has left.
	for range 2 {
		b.seq++
		last := frame(b.seq)
		copy(last[6:], sentinel)
		b.in.Send(last)
		for i, w := range []*ovstest.Wire{b.plain, b.out, b.strips} {
			for {
				f := w.Receive(soon)
				if f == nil {
					t.Fatalf("frames do not arrive at %d any more", i)
				}
				if bytes.Equal(f[6:12], sentinel) {
					if seqOf(f) == b.seq {
						break
					}
					continue
				}
				if _, twice := got[i][seqOf(f)]; twice {
					t.Fatalf("frame %d arrives twice", seqOf(f))
				}
				got[i][seqOf(f)] = f
			}
		}
	}
	return got
}

// tagsOf reads the tags of a frame from its bytes, and says where they end.
func tagsOf(f []byte) (tags []tag, end int) {
	for end = 12; len(f) >= end+4; end += 4 {
		tpid := binary.BigEndian.Uint16(f[end:])
		if tpid != tpidVLAN && tpid != tpidCSIG {
			break
		}
		tags = append(tags, tag{tpid, binary.BigEndian.Uint16(f[end+2:])})
	}
	return tags, end
}

// should is what a port makes of a frame that leaves without csig as f does.
func (b *bed) should(f []byte, strips bool) []byte {
	const seen = 2 // the most tags behind each other
	tags, end := tagsOf(f)
	n := len(tags)
	if n == 3 && strips && tags[0].tpid == tpidCSIG && tags[1].tpid == tpidCSIG {
		return append(slices.Clone(f[:14]), append([]byte{f[14] &^ 0x10}, f[15:]...)...) // its DEI, as below
	}
	if n == 0 || n > seen || tags[n-1].tpid != tpidCSIG {
		return f
	}
	out := slices.Clone(f[:12])
	if n == 2 && tags[0].tpid == tpidCSIG { // it has no signal
		if !strips {
			return f
		}
		return append(out, f[end:]...)
	}
	for i, tg := range tags {
		switch {
		case i < n-1:
			tg.tci &^= 1 << 12 // the DEI of the tag in front is lost: docs/ovs.md
		case strips:
			continue
		default:
			tg.tci = model(quantize.Draft00, b.intents, tg.tci)
		}
		out = binary.BigEndian.AppendUint16(out, tg.tpid)
		out = binary.BigEndian.AppendUint16(out, tg.tci)
	}
	return append(out, f[end:]...)
}

// try sends frames and compares; it returns how many arrive without csig.
func (b *bed) try(t *testing.T, name string, shapes [][]tag) (arrived int) {
	t.Helper()
	wrong := 0
	for from := 0; from < len(shapes); from += window - 10 {
		some := shapes[from:min(from+window-10, len(shapes))]
		sent := map[uint32][]tag{}
		var frames [][]byte
		for _, tags := range some {
			b.seq++
			sent[b.seq] = tags
			frames = append(frames, frame(b.seq, tags...))
		}
		b.in.Send(frames...)
		got := b.flush(t)
		arrived += len(got[0])
		for seq, tags := range sent {
			for i, port := range []string{1: "swp1, which updates", 2: "swp2, which strips"} {
				if i == 0 {
					continue
				}
				var want []byte
				if f := got[0][seq]; f != nil {
					want = b.should(f, i == 2)
				}
				if !bytes.Equal(got[i][seq], want) {
					if wrong++; wrong < 4 {
						t.Errorf("%s: sent %04x, without csig %x\n%s sends %x\nwant       %x", name, tags, head(got[0][seq]), port, head(got[i][seq]), head(want))
					}
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d frames", name, wrong, 2*len(shapes))
	}
	return arrived
}

// head is the part of a frame that differs.
func head(f []byte) []byte {
	if len(f) == 0 {
		return nil
	}
	return f[12:min(len(f), 30)]
}

// stacks are the frames that a tag of any value can be in.
func stacks(tci uint16) [][]tag {
	c, v := tag{tpidCSIG, tci}, tag{tpidVLAN, tci}
	ten, front := tag{tpidVLAN, 10}, tag{tpidVLAN, 3<<13 | 100}
	return [][]tag{
		{c}, {v}, {ten, c}, {ten, v}, {front, c}, {c, ten}, {c, {tpidCSIG, tci ^ 2}}, {ten, ten, c}, {c, ten, v}, {c, c, ten},
	}
}

// portModes are the ways in which a port of br0 can be in VLAN 10.
var portModes = []struct {
	name string
	set  []string
}{
	{"access", []string{"tag=10"}},
	{"trunk", []string{"vlan_mode=trunk"}},
	{"trunk of 10", []string{"vlan_mode=trunk", "trunks=10"}},
	{"native-tagged", []string{"vlan_mode=native-tagged", "tag=10"}},
	{"native-untagged", []string{"vlan_mode=native-untagged", "tag=10"}},
	{"tunnel", []string{"vlan_mode=dot1q-tunnel", "tag=10", "other_config:qinq-ethtype=802.1q"}},
	{"tunnel of 802.1ad", []string{"vlan_mode=dot1q-tunnel", "tag=10", "other_config:qinq-ethtype=802.1ad"}},
}

// TestPortModes has every kind of port at both ends, with tags put on and taken
// away by NORMAL before frames come to csig's tables: each with itself and with another.
func TestPortModes(t *testing.T) {
	t.Parallel()
	b := modesBed(t)
	for i := range portModes {
		b.tryModes(t, i, i, stacks, modesTags)
		b.tryModes(t, i, (i+3)%len(portModes), stacks, modesTags)
	}
}

// modesTags are the best one, those that a switch may make others of, and any.
var modesTags = []uint16{31<<7 | 126, 0, 10, uint16(rand.New(rand.NewPCG(8, 9)).Uint32())}

// TestLongPortModes has every kind of port with every kind. It sends one tag in four, others each time,
// from one of the kinds of ports that let tags in to one of all kinds. TestLongEveryTag sends them all.
func TestLongPortModes(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	b := modesBed(t)
	for i := range portModes {
		for j := range portModes {
			b.tryModes(t, i, j, stacks, modesTags)
		}
	}
	tags := shuffled(rng)[:1<<14]
	for i := 1; i < len(portModes); i++ { // the first one, access, lets none in
		shape := 0
		if portModes[i].name == "trunk of 10" {
			shape = behindTen
		}
		for j := range portModes {
			b.tryModes(t, i, j, some(rng, shape), share(share(tags, i-1, len(portModes)-1), j, len(portModes)))
		}
	}
}

// seeded is a source of random numbers whose seed a failed test shows.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Log("seed", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// share is the i-th of n parts of tags.
func share(tags []uint16, i, n int) []uint16 { return tags[len(tags)*i/n : len(tags)*(i+1)/n] }

// behindTen is the one of stacks with the tag behind that of VLAN 10.
const behindTen = 2

// some is each tag in one of the stacks, and one tag of eight in any other as well.
func some(rng *rand.Rand, shape int) func(tci uint16) [][]tag {
	return func(tci uint16) [][]tag {
		all := stacks(tci)
		if other := rng.IntN(8 * len(all)); other < len(all) {
			return [][]tag{all[shape], all[other]}
		}
		return all[shape : shape+1]
	}
}

// modesBed has its flows for any kinds of ports.
func modesBed(t *testing.T) *bed {
	b := normalBed(t)
	b.Ofctl("add-flow", "br0", "actions=NORMAL")
	b.Ofctl("add-flow", "br0", "priority=40000,dl_src=02:00:00:00:00:ee,actions=output:plain,output:p-swp1,output:p-swp2")
	return b
}

func (b *bed) tryModes(t *testing.T, i, j int, stacks func(uint16) [][]tag, tags []uint16) {
	t.Helper()
	in, out := portModes[i], portModes[j]
	set := func(port string, how []string) []string {
		return append([]string{"--", "clear", "port", port, "vlan_mode", "tag", "trunks", "other_config", "--", "set", "port", port, "other_config:priority-tags=never"}, how...)
	}
	var all []string
	for _, port := range []string{"plain", "p-swp1", "p-swp2"} {
		all = append(all, set(port, out.set)...)
	}
	b.Vsctl(append(all, set("h1", in.set)...)[1:]...)
	b.settle() // flows cached for the modes before may be revalidated one by one
	name := in.name + " to " + out.name
	var shapes [][]tag
	for _, tci := range tags {
		shapes = append(shapes, stacks(tci)...)
	}
	if n := b.try(t, name, append(shapes, nil)); n == 0 && !strings.Contains(name, "trunk") {
		t.Errorf("%s: no frame arrives", name)
	}
}

// TestPushedTags has flows of an operator's put tags on and take them away before
// they hand frames over.
func TestPushedTags(t *testing.T) {
	t.Parallel()
	tags := []uint16{31<<7 | 126, 0, uint16(rand.New(rand.NewPCG(10, 11)).Uint32())}
	pushedTags(t, stacks, func(int) []uint16 { return tags })
}

// TestLongPushedTags sends one tag in four, others each time, through one of these flows.
func TestLongPushedTags(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	tags := shuffled(rng)[:1<<14]
	pushedTags(t, some(rng, 0), func(i int) []uint16 { return share(tags, i, 6) })
}

func pushedTags(t *testing.T, stacks func(uint16) [][]tag, tags func(i int) []uint16) {
	b := flowBed(t)
	for i, before := range []string{
		"", "push_vlan:0x8100,set_field:4196->vlan_vid,", "push_vlan:0x88a8,set_field:4196->vlan_vid,",
		"pop_vlan,", "pop_vlan,push_vlan:0x8100,set_field:4196->vlan_vid,", "pop_vlan,push_vlan:0x88a8,set_field:8000->vlan_vid,",
	} {
		b.Ofctl("add-flow", "csig", "priority=40000,dl_src=02:00:00:00:00:ee,actions=group:1")
		b.Ofctl("add-flow", "csig", "in_port=1,vlan_tci=0x1000/0x1000,actions="+before+"group:1")
		b.Ofctl("add-flow", "csig", "in_port=1,vlan_tci=0/0x1000,actions="+strings.TrimPrefix(before, "pop_vlan,")+"group:1")
		var shapes [][]tag
		for _, tci := range tags(i) {
			shapes = append(shapes, stacks(tci)...)
		}
		if b.try(t, "actions="+before, append(shapes, nil)) == 0 {
			t.Errorf("%s: no frame arrives", before)
		}
	}
}

// TestCutShort has frames that end within their tag: they are sent on as they are.
func TestCutShort(t *testing.T) {
	t.Parallel()
	b := flowBed(t)
	b.Ofctl("add-flow", "csig", "in_port=1,actions=group:1")
	for _, tags := range [][]tag{{best}, {{tpidVLAN, 10}}, {{tpidVLAN, 10}, best}, {best, best}} {
		whole := frame(1, tags...)
		for _, more := range []int{-2, -1, 0, 1} {
			short := whole[:12+4*len(tags)+more]
			b.in.Send(short)
			for _, w := range []*ovstest.Wire{b.plain, b.out, b.strips} {
				if got := w.Receive(soon); !bytes.Equal(got, short) {
					t.Errorf("%x leaves as %x", short[12:], got)
				}
			}
		}
	}
}
