package snmp

import (
	"math"
	"strings"
	"testing"
)

func TestDiscards(t *testing.T) {
	t.Parallel()
	type step struct {
		octets, packets  uint64 // sent in this step, as the agent counts
		discards, errors uint32
		want             uint64 // packets of the step, as sampled
		degraded         bool
	}
	tests := []struct {
		name  string
		rule  Discards
		found Discards
		kind  fakePort
		steps []step
	}{
		{"none", DiscardsLearn, DiscardsLearn, fakePort{}, []step{{1000, 10, 0, 0, 10, false}}},
		{"unknown: the safe side, and said so", DiscardsLearn, DiscardsLearn, fakePort{}, []step{
			{100_000, 100, 7, 0, 100, true}, {100_000, 100, 0, 0, 100, false}, {100_000, 100, 0, 3, 100, true}}},
		{"configured: included", DiscardsIncluded, DiscardsIncluded, fakePort{}, []step{
			{90_000, 100, 7, 3, 90, false}, {90_000, 100, 0, 0, 100, false}}},
		{"configured: included, discards seen before their packets", DiscardsIncluded, DiscardsIncluded, fakePort{}, []step{
			{0, 0, 10, 0, 0, false}, {9000, 100, 0, 0, 90, false}}},
		{"configured: excluded", DiscardsExcluded, DiscardsExcluded, fakePort{}, []step{{100_000, 100, 7, 0, 100, false}}},
		{"proof: more discards than packets", DiscardsLearn, DiscardsExcluded, fakePort{}, []step{
			{1000, 10, 500, 0, 10, true}, {1000, 10, 500, 0, 10, true}, {1000, 10, 500, 0, 10, false}}},
		{"proof: fewer octets than packets need", DiscardsLearn, DiscardsIncluded, fakePort{}, []step{
			{6400, 200, 100, 0, 200, true}, {6400, 200, 100, 0, 200, true}, {6400, 200, 100, 0, 200, true}, {6400, 200, 100, 0, 100, false}}},
		{"reset of the discard counter", DiscardsIncluded, DiscardsIncluded, fakePort{discards: 5000}, []step{
			{90_000, 100, 1<<32 - 4000, 0, 100, false}, {90_000, 100, 4, 0, 96, false}}},
		{"wrap of the discard counter", DiscardsIncluded, DiscardsIncluded, fakePort{discards: math.MaxUint32}, []step{
			{90_000, 100, 4, 0, 96, false}}},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			a := newAgent(t)
			p := tt.kind
			p.name, p.octets, p.ucast, p.mbps = "swp1", 1<<40, 1<<40, 10_000
			a.set(1, p)
			cfg := a.config("swp1")
			cfg.Discards = tt.rule
			s := open(t, cfg)
			last := mustRead(t, s)[0].Packets
			for i, st := range tt.steps {
				p.octets += st.octets
				p.ucast += st.packets
				p.discards += st.discards
				p.errors += st.errors
				a.set(1, p)
				got := mustRead(t, s)[0]
				if got.Packets-last != st.want || (got.Degraded != "") != st.degraded {
					t.Errorf("step %d: %d packets (%q), want %d", i, int64(got.Packets-last), got.Degraded, st.want)
				}
				last = got.Packets
			}
			if got := s.discards(); got != tt.found {
				t.Errorf("learnt %v, want %v", got, tt.found)
			}
		})
	}
	bubble(t, "not shown", func(t *testing.T) {
		a := newAgent(t)
		a.many(1)
		a.with(func() { a.drop(ifOutDiscards.oid().at(1)) })
		if got := mustRead(t, open(t, a.config("swp1")))[0]; got.Degraded != dropsUnshown {
			t.Errorf("%+v", got)
		}
	})
	bubble(t, "no multicast counters", func(t *testing.T) {
		a := newAgent(t)
		a.many(1)
		a.with(func() {
			for _, c := range []column{ifHCOutMulticastPkts, ifOutMulticastPkts, ifOutNUcastPkts} {
				a.drop(c.oid().at(1))
			}
		})
		if got := mustRead(t, open(t, a.config("swp1")))[0]; !strings.Contains(got.Degraded, "multicast") || got.Packets != 1 {
			t.Errorf("%+v", got)
		}
	})
}
