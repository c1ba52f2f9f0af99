package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// lossy is a network with what loses packets, and flows, all by chance of the seed.
func lossy(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 9))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	paths, recoveries := "ecmp", []string{"go-back-n", "selective"}
	controls := []string{"{kind: window, window: 30k}", "{kind: window, window: 200k}", "{kind: dctcp}", "{kind: swift}", "{kind: dcqcn}", "{kind: cubic}", "{kind: hpcc}"}
	if seed%4 == 0 {
		paths, recoveries, controls = "spray", recoveries[1:], controls[:6]
	}
	text := fmt.Sprintf("format: csig.scenario/v1\nseed: %d\npaths: {choice: %s}\ntopology: %s\nswitches: %s\nrecovery: {kind: %s, timeout: 200us}\ncontrol: %s\nflows:\n", seed, paths,
		pick("{star: {hosts: 8, rate: 100G, delay: 1us}}", "{fat_tree: {k: 4, rate: 100G, delay: 500ns}}", "{dumbbell: {hosts: 4, rate: 100G, uplink: 40G, delay: 2us}}"),
		pick("{queue: 20k}", "{buffer: 60k}", "{buffer: 100k, queue: 30k, alpha: 50, ecn: {min: 5k, max: 20k, chance: 50}}", "{buffer: 450k, pfc: true}", "{buffer: 700k, pfc: true, ecn: {min: 10k}}"),
		pick(recoveries...), pick(controls...))
	if !strings.Contains(text, "ecn") { // marks that nobody sets
		text = strings.NewReplacer("{kind: dctcp}", "{kind: timely}", "{kind: dcqcn}", "{kind: timely, windowed: true}").Replace(text)
	}
	for range 20 {
		from, to := r.IntN(8), r.IntN(7)
		if to >= from {
			to++
		}
		text += fmt.Sprintf("  - {from: %d, to: %d, size: %d, at: %dus}\n", from, to, 1+r.IntN(300_000), r.IntN(50))
	}
	return text
}

// waiting is the payload that is in queues, on wires and at links.
func (n *Network) waiting() (bytes uint64) {
	count := func(p int32) {
		if p != none && !n.packets[p].ack {
			bytes += uint64(n.packets[p].data)
		}
	}
	for i := range n.links {
		l := &n.links[i]
		for _, q := range []fifo{l.queue, l.wire} {
			for p := q.first; p != none; p = n.packets[p].next {
				count(p)
			}
		}
	}
	return bytes
}

// TestLongBytesAreConserved: at each moment what was sent was received, was dropped or is on its way; at the end all of each flow is
// there once, and buffers are empty. Both forms of recovery, buffers, PFC, controls and packets that are sprayed by chance.
func TestLongBytesAreConserved(t *testing.T) {
	t.Parallel()
	dropped, again, marked := 0, 0, 0
	for seed := range uint64(80) {
		text := lossy(seed + 1)
		m := simulation(t, text)
		n := m.network
		for until := int64(us); n.left > 0; until += 7 * us {
			if err := n.Run(until); err != nil {
				t.Fatalf("%s%v", text, err)
			}
			if b := n.bytes; b.sent != b.received+b.dropped+n.waiting() {
				t.Fatalf("%sat %d ps %+v and %d on their way", text, n.now, b, n.waiting())
			}
		}
		all := uint64(0)
		for i := range n.flows {
			f := &n.flows[i]
			all += f.size
			if f.received != f.size || f.acked != f.size || f.arrived > f.ended || f.arrived == 0 {
				t.Fatalf("%sflow %d: %+v", text, i, f)
			}
		}
		n.left = 1 // what is on its way comes to its end
		for n.heap.len() > 0 {
			if err := n.Run(n.heap.next()); err != nil && n.heap.len() > 0 {
				t.Fatal(err)
			}
		}
		if b := n.bytes; b.sent != b.received+b.dropped || b.received < all {
			t.Fatalf("%s%+v of %d bytes", text, b, all)
		}
		for i := range n.switches {
			if n.switches[i].used != 0 {
				t.Fatalf("%sswitch %d holds %d bytes at the end", text, i, n.switches[i].used)
			}
		}
		for i := range n.links {
			l := &n.links[i]
			if l.queued != 0 || l.paused || l.ingress.held != 0 || l.ingress.over != 0 {
				t.Fatalf("%slink %d: %+v", text, i, l)
			}
		}
		if n.bytes.dropped > 0 {
			dropped++
		}
		if n.bytes.received > all {
			again++
		}
		if n.ports.ecn {
			marked++
		}
	}
	if dropped < 15 || again < 5 || marked < 5 {
		t.Errorf("%d of 80 lose packets, %d repeat some that were there, %d mark", dropped, again, marked)
	}
}

// TestSelectiveRepeatsWhatIsLost: selective recovery repeats few bytes where go-back-N repeats windows.
func TestSelectiveRepeatsWhatIsLost(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 3, rate: 100G, delay: 1us}}\nswitches: {queue: 100k}\ncontrol: {kind: window, window: 100k}\n" +
		"flows: [{from: 0-1, to: 2, size: 2M}]\nrecovery: {kind: "
	var repeated [2]uint64
	for i, kind := range []string{"go-back-n", "selective"} {
		m := simulation(t, text+kind+"}\n")
		if err := m.network.Run(1 << 62); err != nil {
			t.Fatal(err)
		}
		repeated[i] = m.network.bytes.sent - 4_000_000
		if kind == "selective" && repeated[i] > m.network.bytes.dropped*11/10 {
			t.Errorf("selective recovery repeats %d bytes, and %d were lost", repeated[i], m.network.bytes.dropped)
		}
	}
	t.Logf("repeated: %d bytes by go-back-N, %d by selective recovery", repeated[0], repeated[1])
	if repeated[1] == 0 || repeated[0] < 2*repeated[1] {
		t.Errorf("go-back-N repeats %d bytes, selective recovery %d", repeated[0], repeated[1])
	}
}

// TestPFCLosesNothing: with pauses an incast that overflows the buffer without them loses nothing, and its queue stays below it.
func TestPFCLosesNothing(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 9, rate: 100G, delay: 1us}}\ncontrol: {kind: window, window: 1M}\nflows: [{from: 0-7, to: 8, size: 1M}]\nswitches: {buffer: 1M, pfc: "
	with, without := run(t, text+"true}\n"), run(t, text+"false}\n")
	if with.Drops != 0 || without.Drops == 0 || with.Queue > 1_000_000 {
		t.Errorf("with PFC %d packets are lost, and the queue has %d bytes; without, %d are", with.Drops, with.Queue, without.Drops)
	}
	// All of them at line rate: pauses cost no more than a few percent of the time.
	if last := with.TimeNS; last < 8*80_000*1.048 || last > 8*80_000*1.048*1.05 {
		t.Errorf("it takes %v ns", last)
	}
}

// TestPFCOfShortCables: nor is anything lost where a cable holds less than the packets that are begun when a pause is sent.
func TestPFCOfShortCables(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"delay: 1ns}}\n", "delay: 20ns}}\n", "delay: 200ns}}\n", "delay: 20ns}}\npackets: {payload: 9000, telemetry: p4}\n"} {
		r := run(t, "format: csig.scenario/v1\ncontrol: {kind: window, window: 1M}\nswitches: {buffer: 600k, pfc: true}\n"+
			"flows: [{from: 0-7, to: 15, size: 300k}, {from: 8-11, to: 1, size: 300k}, {from: 15, to: 0, size: 900k}]\ntopology: {fat_tree: {k: 4, rate: 100G, "+more)
		if r.Drops != 0 || r.Ended != len(r.Flows) || r.Queue < 10_000 {
			t.Errorf("%s: %d packets are lost, %d of %d flows end; the queue has %d bytes", more, r.Drops, r.Ended, len(r.Flows), r.Queue)
		}
	}
}

// TestPauseTakesItsTime: a pause waits for what is being sent, and what is sent next for the pause.
func TestPauseTakesItsTime(t *testing.T) {
	t.Parallel()
	n := star(2, 100e9, us, 0)
	back := &n.links[1]
	n.now, back.busy = 500, 1000
	n.signalPause(0, pauses)
	n.signalPause(0, resumes)
	frame := back.takes(pfcFrame)
	if frame == 0 || back.busy != 1000+2*frame || n.heap.pop().at != 1000+frame+us || n.heap.pop().at != 1000+2*frame+us {
		t.Errorf("the link back is busy until %d ps", back.busy)
	}
}

// TestECN: DCTCP keeps the queue near the threshold where packets are marked.
func TestECN(t *testing.T) {
	t.Parallel()
	const text = "format: csig.scenario/v1\ntopology: {star: {hosts: 3, rate: 100G, delay: 5us}}\ncontrol: {kind: dctcp}\nflows: [{from: 0-1, to: 2, size: 20M}]\nswitches: {queue: 2M"
	with, without := run(t, text+", ecn: {min: 100k}}\n"), run(t, text+", ecn: {min: 1G}}\n")
	if with.Drops != 0 || with.Queue < 100_000 || with.Queue > 400_000 || without.Queue < 1_900_000 {
		t.Errorf("with ECN the queue has %d bytes at most, without %d", with.Queue, without.Queue)
	}
}

// TestNoProgress: flows that nothing is acknowledged to end the simulation by their names.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	m := simulation(t, "format: csig.scenario/v1\ntopology: {star: {hosts: 3, rate: 100G, delay: 1us}}\nswitches: {queue: 1052}\nrecovery: {timeout: 10us}\ncontrol: {kind: csig}\ncsig: {switches: [{kind: native}]}\nflows: [{from: 0-1, to: 2, size: 100k}, {from: 0, to: 1, size: 100, at: 1ms}]\n")
	m.network.ports.limit = 1050 // a scenario with it is refused
	if _, err := m.Run(t.Context(), func(int, int) {}); err == nil || !strings.Contains(err.Error(), "s.yaml:7:9: scenario: flows: nothing was acknowledged from 1.004035ms to 5.750757ms: flow 0") || !strings.Contains(err.Error(), ": flow 0 (host 0 to 2, 0 of 100000 bytes), flow 1 (host 1 to 2, ") {
		t.Errorf("%v", err)
	}
}

// TestReordering: a packet counts as lost where one has come that was sent three behind it, and not before: it alone is sent again.
func TestReordering(t *testing.T) {
	t.Parallel()
	m := simulation(t, "format: csig.scenario/v1\ntopology: {star: {hosts: 2, rate: 100G, delay: 1us}}\nswitches: {queue: 1M}\nrecovery: {kind: selective}\ncontrol: {kind: window, window: 20k}\nflows: [{from: 0, to: 1, size: 20k}]\n")
	n := m.network
	if err := n.Run(2 * us); err != nil { // all is sent, and none has come
		t.Fatal(err)
	}
	f := &n.flows[0]
	ack := func(got uint64) {
		k := &packet{seq: 0, got: got, ack: true}
		n.recovery.score(n, f, k, 0)
		n.recovery.acked(n, 0, k)
	}
	ack(2000)
	ack(3000)
	if _, data := n.toSend(f); data != 0 {
		t.Fatal("a packet that two have overtaken counts as lost")
	}
	ack(5000) // nor is the one before this one lost yet
	if from, data := n.toSend(f); from != 0 || data != 1000 || f.flying(1000) != 16_000 {
		t.Errorf("%d bytes from %d on are sent next, %d are on their way", data, from, f.flying(1000))
	}
	n.make(0, 0, 1000)
	if _, data := n.toSend(f); data != 0 || f.flying(1000) != 17_000 {
		t.Errorf("it is sent twice; %d are on their way", f.flying(1000))
	}
}
