package simulate

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const fat = "format: csig.scenario/v1\ntopology: {clos: {pods: 5, tors: 4, aggs: 4, cores: 16, hosts: 16, rate: 100G, uplink: 400G, delay: 1us}}\n" +
	"workloads: [{kind: poisson, sizes: websearch, load: 50, for: 2ms}]\nswitches: {buffer: 32M, pfc: true, ecn: {min: 400k, max: 1600k, chance: 20}}\n"

// plainHeap is a 4-ary heap of the same entries as one writes it, with branches.
type plainHeap []event

func (h *plainHeap) push(e event) {
	*h = append(*h, e)
	all := *h
	i := len(all) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !plainBefore(&e, &all[up]) {
			break
		}
		all[i] = all[up]
		i = up
	}
	all[i] = e
}

func plainBefore(a, b *event) bool { return a.at < b.at || a.at == b.at && a.what < b.what }

func (h *plainHeap) pop() event {
	all := *h
	first, n := all[0], len(all)-1
	e := all[n]
	all = all[:n]
	*h = all
	i := 0
	for {
		down := 4*i + 1
		if down >= n {
			break
		}
		least := down
		for c := down + 1; c < min(down+4, n); c++ {
			if plainBefore(&all[c], &all[least]) {
				least = c
			}
		}
		if !plainBefore(&all[least], &e) {
			break
		}
		all[i] = all[least]
		i = least
	}
	all[i] = e
	return first
}

// plainTime is bareHeap's with a plainHeap.
func plainTime(b *testing.B, entries int, events uint64) time.Duration {
	var h plainHeap
	r := rand.New(rand.NewPCG(1, 1))
	for i := range entries {
		h.push(event{r.Int64N(us), uint64(i)})
	}
	made := uint64(entries)
	begin := threadTime(b)
	for range events {
		e := h.pop()
		made++
		h.push(event{e.at + int64(made*2654435761%us), made})
	}
	return threadTime(b) - begin
}

// BenchmarkNetwork is 320 hosts with the flow sizes of WebSearch at half load, under several controls. It has events a second, and
// how much that is of what a bare heap of as many entries does, in turns with it in the same run: its own, and one as one writes it.
func BenchmarkNetwork(b *testing.B) {
	for _, x := range []struct{ name, more string }{
		{"window", "control: {kind: window, window: 100k}\n"},
		{"dctcp", "control: {kind: dctcp}\n" + unmarked},
		{"hpcc", "control: {kind: hpcc}\npackets: {telemetry: p4}\n"},
		{"csig", "control: {kind: hpcc-csig}\ncsig: {switches: [{kind: native}]}\n"},
	} {
		b.Run(x.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var events, entries uint64
			var took, bare, plain time.Duration
			for b.Loop() {
				m := simulationOf(b, fat+x.more)
				n := m.network
				if err := n.Run(300 * us); err != nil { // it is filled
					b.Fatal(err)
				}
				for range 20 {
					before, begin := n.Events, threadTime(b)
					if err := n.Run(n.now + 20*us); err != nil {
						b.Fatal(err)
					}
					took += threadTime(b) - begin
					events += n.Events - before
					size := uint64(n.heap.len())
					entries = max(entries, size)
					bare += bareHeap(b, int(size), n.Events-before)
					plain += plainTime(b, int(size), n.Events-before)
				}
			}
			b.ReportMetric(float64(events)/took.Seconds()/1e6, "Mevents/s")
			b.ReportMetric(float64(events)/bare.Seconds()/1e6, "Mheap/s")
			b.ReportMetric(100*bare.Seconds()/took.Seconds(), "%ofheap")
			b.ReportMetric(100*plain.Seconds()/took.Seconds(), "%ofplain")
			b.ReportMetric(float64(entries), "entries")
		})
	}
}

// bareHeap is how long a heap of so many entries takes for so many pops and pushes.
func bareHeap(b *testing.B, entries int, events uint64) time.Duration {
	var h heap
	r := rand.New(rand.NewPCG(1, 1))
	for range entries {
		h.push(r.Int64N(us), 0, 0)
	}
	begin := threadTime(b)
	for range events {
		e := h.pop()
		h.push(e.at+int64(e.what>>24*2654435761%us), 0, 0)
	}
	return threadTime(b) - begin
}

// threadTime is processor time of this thread: others on the machine do not count.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

func simulationOf(b testing.TB, text string) *Simulation {
	b.Helper()
	s, err := ParseScenario("s.yaml", []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	m, err := New(s)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// TestLongNoAllocations: in the steady state nothing is allocated, whatever control, switches and recovery.
func TestLongNoAllocations(t *testing.T) { // not in parallel: others' allocations would count
	const flows = "flows:\n  - {from: 0, to: 8, size: 1G}\n  - {from: 1, to: 9, size: 1G}\n  - {from: 2, to: 9, size: 1G}\n  - {from: 9, to: 0, size: 1G}\n"
	for _, more := range []string{
		"control: {kind: window, window: 100k}\n",
		"control: {kind: hpcc}\npackets: {telemetry: p4}\n",
		"control: {kind: dctcp}\nswitches: {buffer: 1M, ecn: {min: 50k}}\n",
		"control: {kind: cubic}\nswitches: {queue: 100k}\nrecovery: {kind: selective}\n",
		"control: {kind: window, window: 300k}\nswitches: {buffer: 300k, pfc: true}\n",
		"control: {kind: hpcc-csig}\ncsig: {switches: [{kind: native}]}\n",
		"control: {kind: csig}\nswitches: {queue: 100k}\ncsig: {switches: [{kind: software, interval: 50us}]}\n",
		"control: {kind: dcqcn}\nswitches: {buffer: 1M, pfc: true, ecn: {min: 50k, max: 200k}}\n",
		"control: {kind: dctcp}\nswitches: {queue: 100k, ecn: {min: 50k}}\npaths: {choice: spray}\nrecovery: {kind: selective}\n",
	} {
		n := simulationOf(t, "format: csig.scenario/v1\ntopology: {fat_tree: {k: 4, rate: 100G, delay: 1us}}\n"+flows+more).network
		if err := n.Run(ms); err != nil {
			t.Fatal(err)
		}
		events := n.Events
		allocated := testing.AllocsPerRun(5, func() {
			if err := n.Run(n.now + ms/20); err != nil {
				t.Fatal(err)
			}
		})
		if allocated != 0 || n.Events < events+500 {
			t.Errorf("%s%v allocations in %d events", more, allocated, n.Events-events)
		}
	}
}

// TestLongMemory: a scenario takes no more than it says that it takes, and not less than a third of that. It prints what a flow takes.
func TestLongMemory(t *testing.T) { // not in parallel: others' memory would count
	for _, control := range []string{"kind: window, window: 100k", "kind: hpcc", "kind: swift", "kind: cubic"} {
		s := scenario(t, "format: csig.scenario/v1\ntopology: {fat_tree: {k: 4, rate: 100G, delay: 1us}}\nworkloads: [{kind: poisson, sizes: rpc, load: 8, for: 2ms}]\ncontrol: {"+control+"}\n")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.network.Run(2 * ms); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		took, said := after.HeapAlloc-before.HeapAlloc, s.Memory()
		t.Logf("%s: %d flows take %d bytes each; %d bytes in all, and %d are said", control, len(m.network.flows), took/uint64(len(m.network.flows)), took, said)
		if took > said || took < said/3 {
			t.Errorf("%s: it takes %d bytes and says %d", control, took, said)
		}
		runtime.KeepAlive(m)
	}
}
