package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/cc"
)

const us = cc.Second / 1_000_000

// star is a network of hosts around one switch, whose queues hold so many bytes, where that is not 0.
func star(hosts int, rate uint64, delay int64, limit uint64) *Network {
	n := newNetwork(1000, 48, 0, 1)
	n.switches = make([]switchPort, 1)
	n.ports.limit = limit
	for range hosts { // link 2i from a host, 2i+1 to it
		n.addHost(n.addLink(rate, delay, none, 0))
		n.addLink(rate, delay, 0, none)
	}
	return n
}

// addPath adds a path, none, and the way back.
func (n *Network) addPath(links ...int32) int32 {
	at := int32(len(n.route))
	n.route = append(append(n.route, links...), none)
	return at
}

func (n *Network) starFlow(from, to int32, size uint64, at int64, c cc.Control) {
	n.addFlow(flow{from: from, to: to, size: size, begins: at, path: n.addPath(2*from, 2*to+1, none, 2*to, 2*from+1), hops: 2, then: none, control: c})
}

// TestHeap: events come in the order of their times, and those of one time in the order in which they were made.
func TestHeap(t *testing.T) {
	t.Parallel()
	var h heap
	r := rand.New(rand.NewPCG(1, 2))
	var want, got []event
	for range 10_000 {
		h.push(r.Int64N(500), kind(r.IntN(4)), r.Int32N(1<<ofBits))
		if r.IntN(3) == 0 {
			got = append(got, h.pop())
		}
	}
	for h.len() > 0 {
		got = append(got, h.pop())
	}
	seen := make(map[uint64]bool)
	for _, e := range got {
		seen[e.what>>24] = true
	}
	if len(seen) != 10_000 {
		t.Fatalf("%d events came out", len(seen))
	}
	h.push(5, 0, 0)
	for range 10_000 {
		h.push(r.Int64N(500), 0, 0)
	}
	for h.len() > 0 {
		want = append(want, h.pop())
	}
	if !slices.IsSortedFunc(want, func(a, b event) int {
		return 1 - 2*before(&a, &b)
	}) {
		t.Error("they are not in order")
	}
}

// TestOneFlow: the completion of a flow that has the network alone is exact, to the picosecond.
func TestOneFlow(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{1, 1000, 1100, 2_000_000} {
		n := star(2, 100e9, us, 0)
		n.starFlow(0, 1, size, 0, constant(math.MaxUint64))
		if err := n.Run(math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		packets := int64((size + 999) / 1000)
		last := int64(size) - 1000*(packets-1) + 48
		// All of it leaves the host; the switch sends the last packet behind the one before.
		leaves := 80 * (1048*(packets-1) + last)
		behind := max(leaves+us, 80*1048*packets+us*1) // when the switch begins with the last one
		if packets == 1 {
			behind = leaves + us
		}
		want := behind + 80*last + us + 2*(80*ackSize+us)
		if got := n.flows[0].ended; got != want {
			t.Errorf("%d bytes: %d ps, want %d", size, got, want)
		}
	}
}

// TestMD1: the mean time that packets wait for a link, whose arrivals are by chance, is that of M/D/1, within 2 %.
func TestMD1(t *testing.T) {
	t.Parallel()
	const load, packets = 0.6, 150_000
	n := newNetwork(1000, 0, 0, 1)
	n.switches = make([]switchPort, 1)
	out := n.addLink(10e9, 0, 0, none)
	r := rand.New(rand.NewPCG(7, 0))
	service := n.links[out].takes(1000)
	back := n.addLink(1e15, 0, 0, none)
	at := 0.0
	for range packets {
		at += r.ExpFloat64() * float64(service) / load
		h := n.addHost(n.addLink(1e15, 0, none, 0)) // of its own: it waits nowhere else
		n.addFlow(flow{from: h, size: 1000, begins: int64(at), path: n.addPath(n.hosts[h].link, out, none, back), hops: 2, then: none, control: constant(1000)})
	}
	if err := n.Run(math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	waited := 0.0
	for i := range n.flows {
		waited += float64(n.flows[i].ended - n.flows[i].begins - service)
	}
	waited = waited/packets - float64(n.links[back].takes(ackSize)+n.links[back].takes(1000))
	if want := load / (2 * (1 - load)) * float64(service); math.Abs(waited/want-1) > 0.02 {
		t.Errorf("packets wait for %.0f ps, by M/D/1 %.0f", waited, want)
	}
}

// TestStuck: a network that loses a packet says which flows do not go on.
func TestStuck(t *testing.T) {
	t.Parallel()
	n := star(3, 100e9, us, 3000)
	n.starFlow(0, 2, 100_000, 0, constant(math.MaxUint64))
	n.starFlow(1, 2, 100_000, 0, constant(math.MaxUint64))
	if err := n.Run(math.MaxInt64); err == nil || !strings.Contains(err.Error(), "flow 0 (host 0 to 2, ") {
		t.Errorf("flows that have lost packets end with %v", err)
	}
}

// TestHPCCIncast: of 15 flows at one port all end, none loses a packet, and the queue is that of the first round trip alone.
func TestHPCCIncast(t *testing.T) {
	t.Parallel()
	run := func(control bool) (text string, queue uint64) {
		n := star(16, 100e9, us, 0)
		n.perHop = 32
		for i := range int32(15) {
			var c cc.Control = constant(math.MaxUint64)
			if control {
				c = cc.NewHPCC(cc.DefaultHPCC(100e9, 5*us, 15))
			}
			n.starFlow(i, 15, 500_000, 0, c)
		}
		if err := n.Run(math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		for i := range n.flows {
			text += fmt.Sprintln(i, n.flows[i].ended)
		}
		return text, n.links[31].mostQueue
	}
	first, queue := run(true)
	again, _ := run(true)
	if first != again {
		t.Error("the same simulation came out differently")
	}
	_, without := run(false)
	t.Logf("the longest queue: %d bytes with HPCC++, %d without", queue, without)
	if queue > 15*63*1080 || without < 5*queue {
		t.Errorf("the longest queue has %d bytes with HPCC++ and %d with windows that do not end: each of 15 may send 63 packets in the first round trip", queue, without)
	}
}

// BenchmarkEvents is a star of 64 hosts that all send to others; BenchmarkHeap a bare heap of as many entries.
func BenchmarkEvents(b *testing.B) {
	b.ReportAllocs()
	var events uint64
	for b.Loop() {
		n := star(64, 100e9, us, 0)
		for i := range int32(64) {
			n.starFlow(i, (i+1)%64, 2_000_000, 0, constant(100_000))
		}
		if err := n.Run(math.MaxInt64); err != nil {
			b.Fatal(err)
		}
		events += n.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func BenchmarkHeap(b *testing.B) {
	var h heap
	r := rand.New(rand.NewPCG(1, 1))
	for range 256 {
		h.push(r.Int64N(us), 0, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		e := h.pop()
		h.push(e.at+int64(e.what>>24*2654435761%us), 0, 0)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
