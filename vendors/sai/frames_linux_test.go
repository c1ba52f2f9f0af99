package sai

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/sai/saitest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// bench is a switch whose chip forwards what a host at Ethernet0 sends to those at its other ports.
type bench struct {
	t    testing.TB
	sw   *saitest.Switch
	chip *saitest.Plane
	from *packets.Socket
	to   map[string]*packets.Socket
	port map[string]*fabric.Port // of the switch
	host map[string]*fabric.Port // at its other end
	sent uint64                  // bytes of each port's last interval
}

func newBench(t testing.TB, sw *saitest.Switch) *bench {
	t.Helper()
	var f fabric.Fabric
	t.Cleanup(func() { f.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := f.AddSwitch("s")
	must(err)
	b := &bench{t: t, sw: sw, to: map[string]*packets.Socket{}, port: map[string]*fabric.Port{}, host: map[string]*fabric.Port{}, sent: 600_000}
	for i := range 6 {
		name := fmt.Sprintf("Ethernet%d", i)
		h, err := f.AddHost(fmt.Sprintf("h%d", i))
		must(err)
		b.host[name], b.port[name], err = f.Connect(fabric.End{Node: h, Port: "e"}, fabric.End{Node: s, Port: name}, 9000)
		must(err)
		must(s.Forward(b.host[name].MAC, b.port[name]))
		must(h.Do(func() (err error) {
			if i == 0 {
				b.from, err = packets.OpenSender(b.host[name].Index())
				return err
			}
			b.to[name], err = packets.Open(b.host[name].Index(), nil)
			return err
		}))
	}
	t.Cleanup(func() {
		b.from.Close()
		for _, to := range b.to {
			to.Close()
		}
	})
	must(f.WaitUp(t.Context()))
	for _, p := range b.port {
		must(p.Shape(chipRate)) // its queue is what delays are of
	}
	b.chip = sw.Forward(s.FD())
	return b
}

// load has every port have sent so many bytes in its last interval.
func (b *bench) load(sent uint64) {
	b.t.Helper()
	if b.sent = sent; len(b.chip.Buckets) == 0 {
		return // it has no program
	}
	for _, p := range b.port {
		if err := b.chip.Sent(p.Index(), sent); err != nil {
			b.t.Fatal(err)
		}
	}
}

// frame is one to the host at a port, with this behind its addresses.
func (b *bench) frame(port string, tag []byte) []byte {
	f := append(bytes.Clone(b.host[port].MAC), b.host["Ethernet0"].MAC...)
	f = append(append(f, tag...), 0x88, 0xb5)
	return append(f, make([]byte, 60-len(f))...)
}

// through is what arrives behind a port of frames with these tags: what is behind their addresses.
func (b *bench) through(port string, tags [][]byte) (out [][]byte) {
	b.t.Helper()
	for at := 0; at < len(tags); at += 256 {
		some := tags[at:min(at+256, len(tags))]
		for _, tag := range some {
			if err := b.from.Send(b.frame(port, tag)); err != nil {
				b.t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(time.Minute); len(out) < at+len(some); {
			f, _, err := b.to[port].Receive()
			switch {
			case err != nil:
				b.t.Fatal(err)
			case f == nil && time.Now().After(deadline):
				b.t.Fatalf("%d of %d frames came to %s", len(out), len(tags), port)
			case f != nil && bytes.HasPrefix(f, b.host[port].MAC):
				out = append(out, bytes.Clone(f[12:]))
			}
		}
	}
	return out
}

func compactTag(tpid uint16, tci uint16) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(tpid)<<16|uint32(tci))
}

func wideTag(tpid uint16, rest [6]byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, tpid), rest[:]...)
}

// chipModel is a port of the switch by the profile, the draft's text (§5.4) and what docs/sai.md says of SAI's, on exact
// rationals: none of it is of the objects.
type chipModel struct {
	profile  *quantize.Profile
	interval time.Duration
	sent     uint64
	strips   bool
	lm       map[quantize.Signal]uint16 // as tags have it, with the bit behind it
}

func (b *bench) model(in *Input, port string) chipModel {
	m := chipModel{profile: in.Profile, interval: in.Interval, sent: b.sent, lm: map[quantize.Signal]uint16{}}
	for _, p := range in.Ports {
		if p.Name == port {
			m.strips = p.Action == vlanrules.Strip
			for sig, lm := range p.LM {
				if m.lm[sig] = lm; in.Profile.Layout == quantize.UEC {
					m.lm[sig] <<= 1
				}
			}
		}
	}
	return m
}

const chipRate = 100_000_000_000

// value is a signal's, exactly.
func (m *chipModel) value(sig quantize.Signal) *big.Rat {
	used := big.NewRat(int64(m.sent)*8, 1)
	used.Mul(used, big.NewRat(int64(time.Second), int64(m.interval)))
	free := new(big.Rat).Sub(big.NewRat(chipRate, 1), used)
	if free.Sign() < 0 {
		free.SetInt64(0)
	}
	switch sig {
	case quantize.MinABW:
		return free
	case quantize.MinABWC:
		return free.Mul(free, big.NewRat(1_000_000, chipRate))
	}
	return new(big.Rat) // nothing waits
}

func (m *chipModel) own(sig quantize.Signal, wide bool) (s uint64) {
	v, sp := m.value(sig), m.profile.Signals[sig]
	if wide {
		v.Quo(v, new(big.Rat).SetUint64(sp.Quantum))
		return min(new(big.Int).Quo(v.Num(), v.Denom()).Uint64(), 1<<20-1)
	}
	for s < 31 && v.Cmp(new(big.Rat).SetUint64(sp.Buckets.Bounds()[s+1])) >= 0 {
		s++
	}
	return s
}

// out is what leaves behind the addresses.
func (m *chipModel) out(tag []byte) []byte {
	rest := append(bytes.Clone(tag), 0x88, 0xb5)
	tpid := binary.BigEndian.Uint16(tag)
	wide := tpid == m.profile.WideTPID
	if tpid != m.profile.TPID && !wide {
		return rest
	}
	if m.strips {
		return rest[len(tag):]
	}
	var t, s uint64
	var d bool // SAI's; an odd locator of the draft
	if wide {
		all := binary.BigEndian.Uint64(append([]byte{0, 0}, tag[2:]...))
		t, s, d = all>>28&15, all>>8&(1<<20-1), all>>32&1 == 1
	} else {
		tci := uint64(binary.BigEndian.Uint16(tag[2:]))
		t, s, d = tci>>13, tci>>7&31, tci&1 == 1
	}
	sig := quantize.Signal(t)
	if _, carried := m.profile.Signals[sig]; !carried || d {
		return rest
	}
	own := m.own(sig, wide)
	if worse := sig == quantize.MaxPD && own > s || sig != quantize.MaxPD && own < s; !worse {
		return rest
	}
	lm := m.lm[sig]
	if wide {
		binary.BigEndian.PutUint16(rest[2:], lm)
		binary.BigEndian.PutUint32(rest[4:], binary.BigEndian.Uint32(rest[4:])&0xf00000ff|uint32(own)<<8)
		return rest
	}
	binary.BigEndian.PutUint16(rest[2:], binary.BigEndian.Uint16(rest[2:])&0xf000|uint16(own)<<7|lm)
	return rest
}

// wants sends frames with these tags to a port, and compares what leaves with the model.
func (b *bench) wants(in *Input, port string, tags [][]byte) {
	b.t.Helper()
	m := b.model(in, port)
	for i, got := range b.through(port, tags) {
		if want := m.out(tags[i]); !bytes.HasPrefix(got, want) {
			b.t.Fatalf("%s of %s, %d bytes sent: %x leaves as %x, want %x", port, in.Profile.Name, b.sent, tags[i], got[:len(want)], want)
		}
	}
}

// TestEveryTag has the objects of each profile, as the switch has accepted them, drive a data plane, and sends tags through its
// ports: compact ones, wide ones under many loads, to ports that update, that strip and that the fleet file does not have.
func TestEveryTag(t *testing.T) {
	for _, in := range inputs(t) {
		t.Run(in.Profile.Name, func(t *testing.T) {
			sw := newSwitch(t)
			b := newBench(t, sw)
			l, _ := applied(t, sw, in)
			for sig, sp := range in.Profile.Signals {
				if bounds := sp.Buckets.Bounds(); !slices.Equal(b.chip.Buckets[sig][:32], bounds[:32]) || b.chip.Quantums[sig] != sp.Quantum {
					t.Errorf("%s has the bounds %d and the quantum %d, want %d and %d", sig, b.chip.Buckets[sig], b.chip.Quantums[sig], bounds, sp.Quantum)
				}
			}
			every := vendorstest.Every(t, 37)
			var compact, wides [][]byte
			for tci := 0; tci < 1<<16; tci += every {
				compact = append(compact, compactTag(in.Profile.TPID, uint16(tci)))
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 100_000 / every {
				var rest [6]byte
				binary.BigEndian.PutUint16(rest[:], uint16(r.Uint32()))
				binary.BigEndian.PutUint32(rest[2:], r.Uint32()&^(1<<31|1<<30))
				wides = append(wides, wideTag(0x9901, rest)) // which only one of the profiles has
			}
			of := func(action vlanrules.Action) string {
				return in.Ports[slices.IndexFunc(in.Ports, func(p Port) bool { return p.Action == action })].Name
			}
			ofInterval := uint64(chipRate / 8 * in.Interval / time.Second)
			b.load(ofInterval * 9 / 10)
			b.wants(in, of(vlanrules.Update), compact)
			for at := 0; at < len(wides); at += 1000 {
				b.load(r.Uint64N(ofInterval * 11 / 10))
				some := wides[at:min(at+1000, len(wides))]
				b.wants(in, of(vlanrules.Update), some)
				b.wants(in, of(vlanrules.Update), compact[:min(len(compact), 100)])
			}
			few := append(slices.Clone(compact[len(compact)/2:][:500]), wides[:500]...)
			b.wants(in, of(vlanrules.Strip), few)
			if in.Profile.Layout == quantize.UEC {
				b.wants(in, "Ethernet4", few) // with the locator 0
			}
			if err := l.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			none := &Input{Profile: &quantize.Profile{}}
			b.wants(none, of(vlanrules.Update), few)
			b.wants(none, of(vlanrules.Strip), few)
		})
	}
}

// TestLongEveryTag is TestEveryTag with all 65,536 compact tags, and 100,000 wide ones.
func TestLongEveryTag(t *testing.T) { TestEveryTag(t) }

// TestFramesBetween looks at frames behind each request of going from each profile to the next, and away: a tag leaves as it
// came, or as one of the two profiles has it, and a port that strips in both never updates one.
func TestFramesBetween(t *testing.T) {
	sw := newSwitch(t)
	b := newBench(t, sw)
	none := &Input{Profile: &quantize.Profile{}, Interval: time.Millisecond}
	all := append([]*Input{none}, inputs(t)...)
	before, looked, changed := none, 0, 0
	for _, in := range append(slices.Clone(all[1:]), all...) {
		l, want := liveOf(t, sw, inputs(t)[0])
		if in != none {
			l, want = liveOf(t, sw, in)
		}
		sw.On(nil, func(words []string) error {
			if words[1] != "create" && words[1] != "set" && words[1] != "remove" {
				return nil
			}
			b.load(b.sent)
			looked++
			for port := range b.to {
				var tags [][]byte
				for _, tpid := range []uint16{0x9900, 0x9902} {
					for sig := range uint16(3) {
						tags = append(tags, compactTag(tpid, sig<<13|31<<7|40<<1))
					}
				}
				for sig := range byte(3) {
					tags = append(tags, wideTag(0x9901, [6]byte{0, 80, sig<<4 | 15, 0xff, 0xff, 0}))
				}
				was, is := b.model(before, port), b.model(in, port)
				for i, got := range b.through(port, tags) {
					got = got[:len(tags[i])+2]
					switch {
					case bytes.HasPrefix(got, tags[i]):
						continue
					case bytes.HasPrefix(got, is.out(tags[i])), bytes.HasPrefix(got, was.out(tags[i])):
						changed++
						continue
					}
					// Attributes are set one by one, and a locator before its objects are there.
					mixed := false
					for n := range 8 {
						of := func(bit int) *chipModel { return []*chipModel{&was, &is}[n>>bit&1] }
						m := chipModel{profile: of(0).profile, interval: of(1).interval, lm: of(2).lm, sent: b.sent, strips: was.strips || is.strips}
						mixed = mixed || bytes.HasPrefix(got, m.out(tags[i]))
					}
					if !mixed {
						t.Errorf("%s to %s, after %s %s: %x leaves %s as %x, want that, %x or %x", before.Profile.Name, in.Profile.Name, words[1], words[0], tags[i], port, got, was.out(tags[i]), is.out(tags[i]))
					}
				}
			}
			return nil
		})
		var err error
		if in == none {
			err = l.Remove(t.Context())
		} else {
			err = l.Apply(t.Context(), want)
		}
		if err != nil {
			t.Fatal(err)
		}
		before = in
	}
	if looked < 40 || changed < 100 {
		t.Errorf("looked %d times, and %d tags were changed", looked, changed)
	}
}
