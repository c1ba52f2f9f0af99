package ebpf

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/linux/packets"
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
	o := loaded(t)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Minute)
	b.sent(0)
	const minute = uint64(time.Minute)
	for _, tc := range []struct {
		name        string
		capacity    uint64
		ago         uint64 // the interval that is open began so long ago; 0: none is
		last, total uint64 // of which 100 had been before
		closed      bool
		start       uint64 // now that of the interval that is open, so long ago
	}{
		{"no frame came yet", 0, 0, 7, 100, false, 0},
		{"it is not over", 0, minute / 2, 7, 100, false, minute / 2},
		{"it is over", 0, minute * 3 / 2, 500, 600, true, minute / 2},
		{"one was idle in between", 0, minute * 5 / 2, 0, 600, true, minute / 2},
		{"a hundred were", 0, minute*100 + minute/2, 0, 600, true, minute / 2},
		{"a link that sends more", 600, minute * 3 / 2, 500, 600, true, minute / 2},
		{"as much", 500, minute * 3 / 2, 500, 600, true, minute / 2},
		{"less", 200, minute * 3 / 2, 200, 300, true, minute / 2},
		{"less, and another interval", 200, minute * 5 / 2, 200, 500, true, minute / 2},
		{"less, and two others", 200, minute * 7 / 2, 100, 600, true, minute / 2},
		{"less, and three others", 200, minute * 9 / 2, 0, 600, true, minute / 2},
		{"much less", 1, minute*100 + minute/2, 1, 200, true, minute / 2},
		{"for weeks", 1 << 50, minute*100_000 + minute/2, 0, 600, true, minute / 2},
	} {
		b.port.Capacity = tc.capacity
		if err := o.poke(b.index, &b.port); err != nil {
			t.Fatal(err)
		}
		s := planeState{Bytes: 500, Segmented: 500, Last: 7, Total: 100}
		if tc.ago != 0 {
			s.Start = monotonic() - tc.ago
		}
		if err := o.CsigState.Put(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.CsigEgress.Test(plain(100)); err != nil {
			t.Fatal(err)
		}
		got := o.state(t)
		ago := monotonic() - got.Start
		if got.Last != tc.last || got.Total != tc.total || (got.Closed != 0) != tc.closed || ago < tc.start || ago > tc.start+minute/4 {
			t.Errorf("%s: %+v, begun %v ago", tc.name, got, time.Duration(ago))
		}
		if open := 500 + 100 - tc.total; got.Bytes != open+100 { // a test's port has no overhead
			t.Errorf("%s: %d bytes are open, want %d", tc.name, got.Bytes, open+100)
		}
		if n := tc.ago / minute; n > 0 {
			if last := lastOf(500, 500, n, tc.capacity); last != tc.last {
				t.Errorf("%s: read as %d, want %d", tc.name, last, tc.last)
			}
		}
	}
}

// Frames that are sent as they are count where they leave, whatever the link can send.
func TestWholeFrames(t *testing.T) {
	o := loaded(t)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Minute)
	b.port.Capacity = 200
	b.sent(0)
	for n, want := range map[uint64]uint64{1: 500, 2: 0, 3: 0} {
		s := planeState{Bytes: 500, Start: monotonic() - n*uint64(time.Minute) - uint64(time.Second)}
		if err := o.CsigState.Put(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.CsigEgress.Test(plain(100)); err != nil {
			t.Fatal(err)
		}
		if got := o.state(t); got.Last != want || got.Bytes != 100 || got.Total != 500 || lastOf(500, 0, n, 200) != want {
			t.Errorf("after %d intervals: %+v, read as %d", n, got, lastOf(500, 0, n, 200))
		}
	}
}

// A frame whose bytes no link can have sent is bounded: what waits for the link ends.
func TestAhead(t *testing.T) {
	o := loaded(t)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Minute)
	b.port.Capacity = 1000
	b.sent(0)
	s := planeState{Start: monotonic() - uint64(time.Minute)*3/2, Bytes: 1 << 40, Segmented: 1 << 40}
	if err := o.CsigState.Put(uint32(0), &s); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.CsigEgress.Test(plain(100)); err != nil {
		t.Fatal(err)
	}
	if got := o.state(t); got.Last != 1000 || got.Bytes != 1<<20+100 || got.Total != 1<<40-1<<20 {
		t.Errorf("%+v", got)
	}
}

// TestDroppedSegments: a tbf that segments what is larger than its bucket counts each segment that
// it drops: no more is taken back than it dropped.
func TestDroppedSegments(t *testing.T) {
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
	var c *net.UDPConn
	err := w.h1.Do(func() (err error) {
		c, err = net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 9})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1400) }); errors.Join(e, err) != nil {
		t.Fatal(e, err)
	}
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
