package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// TestWorst: the five live ports with the least ABW/C are named, the worst first, whatever the others are.
func TestWorst(t *testing.T) {
	b := boardOf(nil)
	d := &boardDevice{name: "s1", byName: make(map[string]*boardPort)}
	b.devices = []*boardDevice{d}
	load := func(loads ...uint64) *api.Status {
		var ports []api.Port
		for i, l := range loads {
			ports = append(ports, live(fmt.Sprint("p", i), 1000, l))
		}
		return status("s1", ports...)
	}
	names := func() (out string) {
		d, _, _ := b.since(place{}, "", "")
		for _, w := range d.Worst {
			out += w.ID + " "
		}
		return out
	}
	now := time.Now()
	b.putPorts(d, load(100, 900, 300, 950, 400, 950, 200), now)
	if got, want := names(), "s1:p3 s1:p5 s1:p1 s1:p4 s1:p2 "; got != want {
		t.Errorf("the worst are %s, want %s", got, want)
	}
	s := load(100, 900, 300, 950, 400, 950, 999)
	s.Ports[3].State = api.StateStale
	b.putPorts(d, s, now)
	if got, want := names(), "s1:p6 s1:p5 s1:p1 s1:p4 s1:p2 "; got != want {
		t.Errorf("the worst are %s, want %s", got, want)
	}
	if d, _, _ := b.since(place{}, "s1", "p1"); d.Worst != nil {
		t.Error("who follows one port is sent the bottlenecks")
	}
}

// TestBottleneck: since when a port is one, and its last minutes, are those of its history.
func TestBottleneck(t *testing.T) {
	p := &boardPort{name: "p1"}
	begin := time.UnixMilli(1_700_000_000_000) // a multiple of a slot
	at := begin
	add := func(load uint64, n int) {
		for range n {
			q := live("p1", 1000, load)
			*q.WindowEnd = at
			p.history.add(&q, at, 900)
			p.is = &q
			at = at.Add(time.Second)
		}
	}
	now := func() Bottleneck {
		return bottleneck("s1:p1", p.is.ABWCPPM, &p.history, at.Add(-time.Second).UnixMilli()/sparkSlot.Milliseconds())
	}

	add(900, 5)
	if b := now(); !b.Before || b.Below != 200_000 || !b.Since.Equal(begin) {
		t.Errorf("from the beginning on: %+v", b)
	}
	add(100, 5)
	if b := now(); b.Before || b.Below != 0 || !b.Since.IsZero() {
		t.Errorf("it has 90 %% left: %+v", b)
	}
	add(850, 3)
	add(960, 1)
	add(810, 6)
	b := now()
	if b.Before || b.Below != 200_000 || !b.Since.Equal(begin.Add(10*time.Second)) {
		t.Errorf("less than 20 %% left since its tenth second: %+v", b)
	}
	if got, want := fmt.Sprint(b.Spark[sparkSlots-5:]), "[-1 100000 900000 40000 190000]"; got != want {
		t.Errorf("the last slots have %s, want %s: the least of each", got, want)
	}
	add(810, 400)
	if b := now(); b.Before || !b.Since.Equal(begin.Add(10*time.Second)) || b.Spark[0] != 190_000 {
		t.Errorf("longer than what is drawn: %+v", b)
	}
	add(810, 600) // the ring has forgotten how it began
	if b := now(); !b.Before {
		t.Errorf("longer than what is kept: %+v", b)
	}
	gap := api.Port{Port: "p1", State: api.StateStale}
	p.history.add(&gap, at, 900)
	at = at.Add(time.Second)
	add(810, 2)
	if b := now(); b.Before || !b.Since.Equal(at.Add(-2*time.Second)) {
		t.Errorf("what was not measured is not known: %+v", b)
	}
}
