package memory

import (
	"bytes"
	"slices"
	"testing"
)

// TestPipeline: tables of rules in the place of the bridge, by in-port, tag and priority, with a
// group whose buckets alter copies.
func TestPipeline(t *testing.T) {
	var first, second Table
	s := New(Config{TPID: tpid, Pipeline: func(p *Packet) { first.Apply(p) }, Faults: Faults{LosesDEI: true}})
	w := &wires{Switch: s, t: t, cards: []*Card{s.Cable("p1"), s.Cable("p2"), s.Cable("p3")}}
	p := func(i int) *Port { return w.cards[i-1].Port() }
	tagged := func(p *Packet) bool { return p.Type() == tpid }
	group := func(k *Packet) {
		b := k.Copy()
		b.Pop()
		b.Output(p(3))
		k.Output(p(2))
	}
	all := &Rule{Do: func(k *Packet) { k.Metadata = 7; second.Apply(k) }}
	s.Change(func() {
		first.Add(all)
		first.Add(&Rule{Priority: 9, Match: func(k *Packet) bool { return k.In == p(3) }})
		second.Add(&Rule{Match: func(k *Packet) bool { return k.Metadata == 7 }, Do: func(k *Packet) { k.Push(tpid, 0x3001); k.Output(p(2)) }})
		second.Add(&Rule{Priority: 1, Match: tagged, Do: group})
		second.Add(&Rule{Priority: 2, Match: func(k *Packet) bool { return tagged(k) && k.TCI()>>13 == 1 }, Do: func(k *Packet) { k.SetTCI(0x0fff, 0x0fff); group(k) }})
	})
	plain := frame(1, 2, 7, 60)
	with := func(tci uint16) []byte {
		f := slices.Insert(slices.Clone(plain), 12, 0, 0, 0, 0)
		setTCI(f, 12, tci)
		copy(f[12:], []byte{tpid >> 8, tpid & 0xff})
		return f
	}
	for _, tc := range []struct {
		name string
		card int
		in   []byte
		out  map[string][]byte
	}{
		{"no tag", 0, plain, map[string][]byte{"p2": with(0x2001)}}, // without DEI: the fault
		{"PCP 0", 0, with(0x0005), map[string][]byte{"p2": with(0x0005), "p3": plain}},
		{"PCP 1", 0, with(0x2005), map[string][]byte{"p2": with(0x2fff), "p3": plain}},
		{"dropped", 2, plain, nil},
	} {
		got := w.send(tc.card, tc.in)
		for _, port := range []string{"p1", "p2", "p3"} {
			if want := tc.out[port]; len(got[port]) > 1 || (want == nil) != (got[port] == nil) || want != nil && !bytes.Equal(got[port][0], want) {
				t.Errorf("%s: out of %s: %x, want %x", tc.name, port, got[port], want)
			}
		}
	}
	if all.Packets != 3 || all.Octets != 3*64+8 {
		t.Errorf("the first rule took %d packets of %d octets", all.Packets, all.Octets)
	}
}

// TestCard: what a card loses when its frames are not received, and its link.
func TestCard(t *testing.T) {
	w := lab(t, Faults{}, 2)
	for range queued + 5 {
		w.cards[0].port.Receive(frame(1, 2, 7, 60))
	}
	if n, err := w.cards[1].Drops(); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, _ := w.cards[1].Drops(); n != 0 {
		t.Errorf("%d again", n)
	}
	for w.cards[1].Next() != nil {
	}
	for i, want := range []bool{false, false, true} {
		if err := w.cards[1].Link(want); err != nil {
			t.Fatal(err)
		}
		up, changes, err := w.cards[1].Carrier()
		if up != want || changes != []uint32{1, 1, 2}[i] || err != nil {
			t.Errorf("%v, %d, %v", up, changes, err)
		}
		if arrives := w.through(frame(1, 2, 7, 60)) != nil; arrives != want {
			t.Errorf("link %v: a frame arrives: %v", want, arrives)
		}
		if err := w.cards[1].Send(frame(2, 1, 7, 60)); (err == nil) != want {
			t.Errorf("link %v: sending: %v", want, err)
		}
		w.cards[0].Next()
	}
	if packets := w.Received(); packets == 0 {
		t.Error("nothing was received")
	}
	if err := w.cards[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.cards[1].Receive(); err == nil {
		t.Error("a closed card receives")
	}
}
