package ebpf

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/linux/netdev"
)

// counting is a port that accounts in one interval without an end, and nothing else.
func counting(t *testing.T) (*wire, *planeObjects) {
	t.Helper()
	o := loaded(t)
	w := newWire(t, o)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Hour)
	b.index, b.port.Overhead = w.index, fabric.L1Overhead
	if err := errors.Join(o.poke(w.index, &b.port), o.CsigState.Put(uint32(0), &planeState{})); err != nil {
		t.Fatal(err)
	}
	return w, o
}

func (o *planeObjects) state(t *testing.T) (s planeState) {
	t.Helper()
	if err := o.CsigState.Lookup(uint32(0), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func plain(size int) []byte {
	f := make([]byte, size)
	copy(f, macB)
	copy(f[6:], macA)
	f[12], f[13] = 0x88, 0xb5
	return f
}

// What the queueing discipline drops is not of the interval's bytes, whatever the frames' sizes.
func TestDrops(t *testing.T) {
	t.Parallel()
	w, o := counting(t)
	run(t, w.s, "tc", "qdisc", "replace", "dev", w.p2.Name, "root", "tbf", "rate", "2mbit", "burst", "1600", "limit", "8000")
	r := rand.New(rand.NewPCG(4, 5))
	for range 300 {
		if err := w.port.Send(plain(60 + r.IntN(1300))); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
	var q []struct {
		Bytes, Packets, Drops, Backlog uint64
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if err := json.Unmarshal(run(t, w.s, "tc", "-s", "-j", "qdisc", "show", "dev", w.p2.Name), &q); err != nil {
			t.Fatal(err)
		}
		if q[0].Backlog == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the queue does not drain: %+v", q[0])
		}
	}
	if q[0].Drops < 50 || q[0].Packets < 5 {
		t.Fatalf("%+v: want drops and frames that pass", q[0])
	}
	if err := w.port.Send(plain(100)); err != nil { // which sees the last drop
		t.Fatal(err)
	}
	s := o.state(t)
	want := q[0].Bytes + fabric.L1Overhead*q[0].Packets + 100 + fabric.L1Overhead
	if got := s.Bytes - s.Lost; got != want {
		t.Errorf("%d bytes less %d dropped are %d, the queue sent %d (%+v)", s.Bytes, s.Lost, got, want, q[0])
	}
	// Another queue counts from 0: nothing is taken back.
	run(t, w.s, "tc", "qdisc", "replace", "dev", w.p2.Name, "root", "pfifo")
	if err := w.port.Send(plain(100)); err != nil {
		t.Fatal(err)
	}
	if now := o.state(t); now.Bytes != s.Bytes+100+fabric.L1Overhead || now.Lost != s.Lost {
		t.Errorf("after another queue: %+v, before %+v", now, s)
	}
}

// Frames of several processors are each counted once, in intervals that roll over.
func TestSeveralProcessors(t *testing.T) {
	w, o := counting(t)
	var p planePort
	if err := o.CsigPorts.Lookup(uint32(0), &p); err != nil {
		t.Fatal(err)
	}
	p.Interval = uint64(100 * time.Microsecond)
	if err := o.poke(w.index, &p); err != nil {
		t.Fatal(err)
	}
	before, frames := o.state(t), uint64(20_000)
	var all sync.WaitGroup
	errs := make(chan error, 16)
	senders := max(runtime.NumCPU(), 2)
	for n := range senders {
		all.Go(func() {
			errs <- w.s.Do(func() error {
				var cpu unix.CPUSet
				cpu.Set(n % runtime.NumCPU())
				s, err := packets.OpenSender(w.p2.Index())
				if err != nil {
					return err
				}
				defer s.Close()
				if err := unix.SchedSetaffinity(0, &cpu); err != nil && !errors.Is(err, unix.EINVAL) { // not one of ours
					return err
				}
				f := plain(100)
				for range frames {
					if err := s.Send(f); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := o.state(t)
	got := s.Total + s.Bytes - before.Total - before.Bytes
	if want := uint64(senders) * frames * (100 + fabric.L1Overhead); got != want {
		t.Errorf("%d bytes counted, %d sent", got, want)
	}
	if s.Closed == 0 || s.Total == 0 {
		t.Errorf("no interval has closed: %+v", s)
	}
}

// The first frame after an interval closes it; one that was idle in between has no bytes, but
// those that the link cannot have sent before.
func TestIdleIntervals(t *testing.T) {
	t.Parallel()
	o := loaded(t)
	const length = uint64(20 * time.Second)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Duration(length))
	b.sent(0)
	for _, tc := range []struct {
		name        string
		capacity    uint64 // 0: not known
		ago         uint64 // the interval that is open began so long ago, with 500 bytes; 0: none is
		last, total uint64 // of which 100 had been before
		closed      bool
		start       uint64 // now that of the interval that is open, so long ago
		ahead       uint64 // bytes that the link sends later
	}{
		{"no frame came yet", 0, 0, 7, 100, false, 0, 0},
		{"it is not over", 0, length / 2, 7, 100, false, length / 2, 0},
		{"it is over", 0, length * 3 / 2, 500, 600, true, length / 2, 0},
		{"one was idle in between", 0, length * 5 / 2, 0, 600, true, length / 2, 0},
		{"a hundred were", 0, length*100 + length/2, 0, 600, true, length / 2, 0},
		{"a link that sends more", 600, length * 3 / 2, 500, 600, true, length / 2, 0},
		{"as much", 500, length * 3 / 2, 500, 600, true, length / 2, 0},
		{"less", 200, length * 3 / 2, 200, 600, true, length / 2, 300},
		{"less, and another interval", 200, length * 5 / 2, 200, 600, true, length / 2, 100},
		{"less, and two others", 200, length * 7 / 2, 100, 600, true, length / 2, 0},
		{"less, and three others", 200, length * 9 / 2, 0, 600, true, length / 2, 0},
		{"much less", 100, length * 9 / 2, 100, 600, true, length / 2, 100},
		{"for weeks", 1 << 50, length*100_000 + length/2, 0, 600, true, length / 2, 0},
	} {
		b.port.Capacity, b.port.Pace, b.port.Hold = tc.capacity, pace(tc.capacity*8/20), math.MaxUint64>>1
		if tc.capacity > 0 && tc.capacity < 1<<50 {
			b.port.Pace = length * 64 / tc.capacity << paceShift
		}
		if err := o.poke(b.index, &b.port); err != nil {
			t.Fatal(err)
		}
		s := planeState{Bytes: 500, Last: 7, Total: 100, Sent: 100}
		if tc.ago != 0 {
			s.Start = monotonic() - tc.ago
			s.Free = s.Start*64 + hold(500, b.port.Pace)
		}
		if err := o.CsigState.Put(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.CsigEgress.Test(plain(100)); err != nil {
			t.Fatal(err)
		}
		got := o.state(t)
		near := func(a, b uint64) bool { return a-b <= 1 || b-a <= 1 } // a tick is not a whole byte
		ago := monotonic() - got.Start
		if !near(got.Last, tc.last) || got.Total != tc.total || (got.Closed != 0) != tc.closed || ago < tc.start || ago > tc.start+length/4 {
			t.Errorf("%s: %+v, begun %v ago", tc.name, got, time.Duration(ago))
		}
		if !tc.closed {
			continue
		}
		if open := uint64(100); got.Bytes != open || !near(tc.total-got.Sent, tc.ahead) { // a test's port has no overhead
			t.Errorf("%s: %d bytes are open and %d ahead, want %d and %d", tc.name, got.Bytes, tc.total-got.Sent, open, tc.ahead)
		}
		if last := after(s.Free, b.port.Pace, got.Start-length) - after(s.Free, b.port.Pace, got.Start); tc.ago > 2*length && !near(last, tc.last) {
			t.Errorf("%s: read as %d, want %d", tc.name, last, tc.last)
		}
	}
}

// What the link cannot have sent yet is bounded by what the device's queues hold, however fast
// frames come.
func TestHold(t *testing.T) {
	t.Parallel()
	o := loaded(t)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Minute)
	b.port.Capacity, b.port.Pace = 1000, pace(8_000_000)
	b.port.Hold = hold(1<<20, b.port.Pace)
	b.sent(0)
	if err := o.poke(b.index, &b.port); err != nil {
		t.Fatal(err)
	}
	s := planeState{Start: monotonic(), Free: math.MaxUint64 >> 2}
	if err := o.CsigState.Put(uint32(0), &s); err != nil {
		t.Fatal(err)
	}
	before := monotonic()
	if _, _, err := o.CsigEgress.Test(plain(100)); err != nil {
		t.Fatal(err)
	}
	got := o.state(t)
	if least, most := before*64+b.port.Hold, monotonic()*64+b.port.Hold+hold(101, b.port.Pace); got.Free < least || got.Free > most || got.Waited != 1 {
		t.Errorf("%+v, want a link that is free from %d to %d", got, least, most)
	}
}

// What a shaper has not sent yet does not stay: not after an idle gap, another capacity, or another
// queue in its place.
func TestBacklogEnds(t *testing.T) {
	const interval = 20 * time.Millisecond
	slow := strings.Fields("tbf rate 1mbit burst 2kb limit 20kb") // 2,500 bytes an interval
	for _, tc := range []struct {
		name string
		then func(t *testing.T, w *wire, o *planeObjects, p *planePort)
	}{
		{"an idle gap", func(t *testing.T, w *wire, o *planeObjects, p *planePort) {}},
		{"another capacity", func(t *testing.T, w *wire, o *planeObjects, p *planePort) {
			p.Capacity, p.Pace = p.Capacity*10, p.Pace/10
			if err := o.poke(w.index, p); err != nil {
				t.Fatal(err)
			}
		}},
		{"the deadline passes", func(t *testing.T, w *wire, o *planeObjects, p *planePort) {
			p.Deadline = 1
			if err := o.poke(w.index, p); err != nil {
				t.Fatal(err)
			}
		}},
		{"no shaper any more", func(t *testing.T, w *wire, o *planeObjects, p *planePort) {
			run(t, w.s, "tc", "qdisc", "replace", "dev", w.p2.Name, "root", "pfifo")
		}},
		{"another shaper by the same name", func(t *testing.T, w *wire, o *planeObjects, p *planePort) {
			run(t, w.s, "tc", "qdisc", "del", "dev", w.p2.Name, "root")
			run(t, w.s, "tc", append([]string{"qdisc", "add", "dev", w.p2.Name, "root", "handle", "1:"}, slow...)...)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, o := counting(t)
			run(t, w.s, "tc", append([]string{"qdisc", "replace", "dev", w.p2.Name, "root", "handle", "1:"}, slow...)...)
			var p planePort
			if err := o.CsigPorts.Lookup(uint32(0), &p); err != nil {
				t.Fatal(err)
			}
			p.Interval, p.Capacity, p.Pace = uint64(interval), 2500, pace(1_000_000)
			p.Hold = hold(20_000, p.Pace)
			if err := errors.Join(o.poke(w.index, &p), o.CsigState.Put(uint32(0), &planeState{})); err != nil {
				t.Fatal(err)
			}
			send := func(size int) planeState {
				t.Helper()
				if err := w.port.Send(plain(size)); err != nil && !errors.Is(err, unix.ENOBUFS) {
					t.Fatal(err)
				}
				return o.state(t)
			}
			for range 16 { // 160 ms of the link
				send(1250)
			}
			s, deadline := send(60), time.Now().Add(time.Minute)
			for ; s.Waited == 0 || s.Last < 2500; s = send(60) {
				if time.Now().After(deadline) {
					t.Fatalf("nothing waits: %+v", s)
				}
			}
			tc.then(t, w, o, &p)
			// What is sent in the end is the one frame of an interval, and nothing of before.
			for s = send(60); s.Waited != 0 || s.Last > 1000; s = send(60) {
				if ahead := after(s.Free, p.Pace, monotonic()); ahead > 25_000 || time.Now().After(deadline) {
					t.Fatalf("it stays: %d bytes, %+v", ahead, s)
				}
				for start := s.Start; monotonic() < start+uint64(interval); { // the next one
					runtime.Gosched()
				}
			}
		})
	}
}

// Where a card sends the frame as it is, it fills short ones up; a shaper's own count is the truth.
func TestShortFrames(t *testing.T) {
	t.Parallel()
	w, o := counting(t)
	var p planePort
	if err := o.CsigPorts.Lookup(uint32(0), &p); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		qdisc       string
		shortest    uint16
		bytes, want uint64
	}{
		{"noqueue", 0, 43, 43 + 24},
		{"noqueue", 60, 43, 84},
		{"noqueue", 60, 59, 84},
		{"noqueue", 60, 60, 84},
		{"noqueue", 60, 61, 85},
		{"pfifo", 60, 43, 84},
		{"tbf rate 100mbit burst 5kb limit 100kb", 60, 43, 43 + 24},
		{"htb default 1", 60, 43, 43 + 24},
	} {
		run(t, w.s, "tc", append([]string{"qdisc", "replace", "dev", w.p2.Name, "root"}, strings.Fields(tc.qdisc)...)...)
		p.Shortest = tc.shortest
		if err := errors.Join(o.poke(w.index, &p), o.CsigState.Put(uint32(0), &planeState{})); err != nil {
			t.Fatal(err)
		}
		if err := w.port.Send(plain(int(tc.bytes))); err != nil {
			t.Fatal(err)
		}
		if got := o.state(t).Bytes; got != tc.want {
			t.Errorf("%s, frames filled up to %d: one of %d bytes counts as %d, want %d", tc.qdisc, tc.shortest, tc.bytes, got, tc.want)
		}
	}
}

// TestEgress: what a card does with frames, and what the kernel's own devices do.
func TestEgress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		is       netdev.Egress
		shortest uint16
		held     uint64
	}{
		{"card", netdev.Egress{Wire: true, MTU: 1500, TxQLen: 1000, TxQueues: 8}, 60, 8 * 1000 * 1584},
		{"veth", netdev.Egress{MTU: 1500, TxQLen: 1000, TxQueues: 8}, 0, 8 * 1000 * 1584},
		{"loopback", netdev.Egress{MTU: 65536}, 0, 1 << 20},
	} {
		if a, b := shortest(&tc.is), queueHolds(&tc.is); a != tc.shortest || b != tc.held {
			t.Errorf("%s: %d, %d, want %d, %d", tc.name, a, b, tc.shortest, tc.held)
		}
	}
	w, _ := counting(t)
	if err := w.s.Do(func() error {
		l, err := netdev.NS(0).WatchLinks()
		if err != nil {
			return err
		}
		defer l.Close()
		if err := l.Scan(); err != nil {
			return err
		}
		if e := l.Egress[w.p2.Name]; e.Wire || e.MTU == 0 || e.GSO == 0 || e.TxQueues == 0 {
			t.Errorf("a veth: %+v", e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDroppedSegments: a tbf that segments what is larger than its bucket counts each segment that
// it drops: no more is taken back than it dropped.
func TestDroppedSegments(t *testing.T) {
	t.Parallel()
	w, o := counting(t)
	run(t, w.s, "tc", "qdisc", "replace", "dev", w.p2.Name, "root", "tbf", "rate", "20mbit", "burst", "5kb", "limit", "120kb")
	w.offload(t)
	type queue struct{ Bytes, Packets, Drops, Backlog uint64 }
	look := func() queue {
		t.Helper()
		var q []queue
		if err := json.Unmarshal(run(t, w.s, "tc", "-s", "-j", "qdisc", "show", "dev", w.p2.Name), &q); err != nil {
			t.Fatal(err)
		}
		return q[0]
	}
	c := w.segmenter(t, 1400)
	big := make([]byte, 42*1400)
	for range 40 { // as long as the queue takes to drain once: nearly all are dropped
		if _, err := c.Write(big); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	q := look()
	for deadline := time.Now().Add(time.Minute); q.Backlog > 0; q = look() {
		if time.Now().After(deadline) {
			t.Fatalf("the queue does not drain: %+v", q)
		}
	}
	if q.Drops < 42 || q.Packets < 42 {
		t.Fatalf("%+v: want segments that are dropped, and others that pass", q)
	}
	if err := w.port.Send(plain(100)); err != nil { // which sees the last drop
		t.Fatal(err)
	}
	s := o.state(t)
	sent := q.Bytes + fabric.L1Overhead*q.Packets + 100 + fabric.L1Overhead
	if got := s.Bytes - min(s.Lost, s.Bytes); got < sent || got > sent+sent/50 {
		t.Errorf("%d bytes less %d dropped are %d, the queue sent %d (%+v)", s.Bytes, s.Lost, got, sent, q)
	}
}

// segmenter sends from one host to the other what is segmented behind the data plane.
func (w *wire) segmenter(t testing.TB, segment int) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := w.h1.Do(func() (err error) {
		c, err = net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 9})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment) }); errors.Join(e, err) != nil {
		t.Fatal(e, err)
	}
	return c
}
