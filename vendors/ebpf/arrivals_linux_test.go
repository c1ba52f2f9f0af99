package ebpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	linkRate  = 100_000_000 // of the shaper that stands for the link
	probeSize = 64
	probeTag  = 1<<13 | 31<<7 | 126 // T 1: ABW/C, S 31
)

// probeKind is the ethertype of probes, of which the number follows.
const probeKind = 0x88b5

// maxLate is how far the load may be behind its schedule before that starts from there.
const maxLate = 2 * time.Millisecond

// stall is how much later than by its rate the shaper may send, where its timer is not a processor's
// that the machine has stopped.
const stall = time.Millisecond

// onItsWay is how much longer than its bytes take a frame is between the data plane and its arrival.
const onItsWay = 25 * time.Microsecond

// traffic is what the faster port sends beside probes.
type traffic struct {
	name     string
	tbf      string
	interval time.Duration
	// next returns the next frame and when it is sent, from the beginning.
	next func(r *rand.Rand, n int) (size int, at time.Duration)
}

// bursts are frames of a millisecond at 1 Gbit/s, every 12 ms.
func bursts(r *rand.Rand, n int) (size int, at time.Duration) {
	const frame, each = 1400, 88
	return frame, time.Duration(n/each)*12*time.Millisecond + time.Duration(n%each)*11392*time.Nanosecond
}

// steady is 60 Mbit/s of equal frames.
func steady(r *rand.Rand, n int) (size int, at time.Duration) {
	return 1400, time.Duration(n) * 189867 * time.Nanosecond
}

// mixed are frames of any size, in bursts of any length.
func mixed() func(r *rand.Rand, n int) (int, time.Duration) {
	var at time.Duration
	left := 0
	return func(r *rand.Rand, n int) (int, time.Duration) {
		if left--; left < 0 {
			left = r.IntN(150)
			at += time.Duration(r.IntN(20_000)) * time.Microsecond
		}
		size := probeSize + r.IntN(1400)
		at += time.Duration(8 * (size + fabric.L1Overhead)) // at 1 Gbit/s
		return size, at
	}
}

// TestNeverBetterThanWhatArrived sends bursts, and a steady load, from a faster port to a shaped
// one, with probes between them. No probe's S is better by more than a bucket than what arrived
// behind the shaper in the last two intervals that had ended when the probe passed.
// CSIG_PROBES=100000 sends as many in place of the few of CI.
func TestNeverBetterThanWhatArrived(t *testing.T) {
	probes := 1000
	if v := os.Getenv("CSIG_PROBES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1000 {
			t.Fatalf("CSIG_PROBES=%s: want a number from 1000", v)
		}
		probes = n
	}
	const deep, shallow = "burst 15kb limit 1mb", "burst 3kb limit 60kb"
	for _, ld := range []traffic{
		{"bursts, 1 ms", deep, time.Millisecond, bursts},
		{"bursts that the queue drops, 1 ms", shallow, time.Millisecond, bursts},
		{"bursts, 10 ms", deep, 10 * time.Millisecond, bursts},
		{"mixed, 1 ms", shallow, time.Millisecond, mixed()},
		{"steady, 1 ms", deep, time.Millisecond, steady},
	} {
		t.Run(ld.name, func(t *testing.T) { neverBetter(t, &ld, probes) })
	}
}

// newShaped is a lab whose port p2 has a tbf of a rate in bit/s for a link, and updates ABW/C.
func newShaped(t testing.TB, rate int, tbf string, interval time.Duration) *lab {
	t.Helper()
	l := newLab(t)
	run(t, l.s, "tc", strings.Fields("qdisc replace dev p2 root tbf rate "+strconv.Itoa(rate)+"bit overhead 24 "+tbf)...)
	l.profile.Interval = interval
	l.apply(vendors.Setup{
		TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABWC}, OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "p2", Action: vlanrules.Update}}, Measure: l.profile,
	})
	u := vendors.PortUpdate{Port: "p2", Rate: uint64(rate), Intents: []vlanrules.Intent{{Signal: quantize.MinABWC, Action: vlanrules.Update, LM: 21}}}
	if _, err := l.d.Update(t.Context(), []vendors.PortUpdate{u}, time.Hour); err != nil {
		t.Fatal(err)
	}
	return l
}

// loadAndProbe are a frame of the load and a probe, and what sends one with a number.
func (l *lab) loadAndProbe(t testing.TB, size int) (load, probe []byte, send func(f []byte, number uint32)) {
	load = make([]byte, size)
	copy(load, macB)
	copy(load[6:], macA)
	probe = bytes.Clone(load[:probeSize])
	load[12], load[13] = 0x88, 0xb6
	binary.BigEndian.PutUint16(probe[12:], 0x9900)
	binary.BigEndian.PutUint16(probe[14:], probeTag)
	binary.BigEndian.PutUint16(probe[16:], probeKind)
	return load, probe, func(f []byte, number uint32) {
		binary.BigEndian.PutUint32(f[18:], number)
		if err := l.host.Send(f); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
}

func neverBetter(t *testing.T, ld *traffic, probes int) {
	l := newShaped(t, linkRate, ld.tbf, ld.interval)
	j := &arrivals{table: l.profile.Signals[quantize.MinABWC].Buckets, length: uint64(ld.interval), windows: map[uint64]uint64{}, held: map[uint64]bool{}, frames: map[uint32]*crossed{}}
	j.open(t, l)
	r := rand.New(rand.NewPCG(14, 1))
	// As many again while the machine stood still for most of them, which are not judged.
	for sent, all := 0, probes; ; all += probes {
		for sent < all {
			sent = l.sendLoad(t, ld, r, sent, min(sent+1000, all))
			j.read(t)
		}
		var state planeState
		if err := l.d.plane.CsigState.Lookup(l.d.byName["p2"].entry.Slot, &state); err != nil {
			t.Fatal(err)
		}
		j.phase = state.Start % j.length
		judged := j.verdict(t)
		if judged > probes/2 {
			return
		}
		if all >= 20*probes {
			t.Fatalf("the machine stood still for %d probes, and not for %d", all-judged, judged)
		}
	}
}

// sendLoad sends the load and probes until so many probes have been sent, and returns their number.
func (l *lab) sendLoad(t *testing.T, ld *traffic, r *rand.Rand, sent, until int) int {
	t.Helper()
	frame, probe, send := l.loadAndProbe(t, 2000)
	begin, n := time.Now(), 0
	size, at := ld.next(r, n)
	first := at // of a load that goes on
	for nextProbe := time.Duration(0); sent < until; {
		now := time.Since(begin)
		switch {
		case now >= nextProbe:
			send(probe, uint32(sent))
			sent++
			nextProbe = now + 50*time.Microsecond + time.Duration(r.IntN(300))*time.Microsecond
		case now >= at-first:
			if late := now - (at - first); late > maxLate { // the machine did not let it send
				first -= late
			}
			l.loads++
			send(frame[:size], isLoad|l.loads)
			n++
			size, at = ld.next(r, n)
		}
	}
	return sent
}

// isLoad is in the numbers of frames that are no probes.
const isLoad = 1 << 31

// crossed is one frame: when it came to the data plane, when that was done with it, and when it
// had left the shaper, by CLOCK_MONOTONIC in ns; 0: it has not.
type crossed struct {
	at    [3]uint64
	bytes uint64 // on the wire
	s     uint8  // behind the shaper
}

// arrivals judges probes by what arrived behind the shaper.
type arrivals struct {
	table         quantize.Buckets
	phase, length uint64
	recorder      *fabric.Recorder
	tap           *fabric.Tap
	frames        map[uint32]*crossed
	held          map[uint64]bool   // intervals in which the machine held the shaper up, or a frame on its way to it
	windows       map[uint64]uint64 // bytes that arrived in each interval, without frames that were on the link when it began
	passed        []fabric.Passed
	left          []fabric.Left
}

// open has the recorders note what crosses the shaped port, until the test ends.
func (j *arrivals) open(t *testing.T, l *lab) {
	t.Helper()
	var err error
	if j.recorder, err = l.p2.Record(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.recorder.Close() })
	if j.tap, err = l.p2.Tap(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.tap.Close() })
}

// read takes in what the recorders have, until nothing more comes.
func (j *arrivals) read(t *testing.T) {
	t.Helper()
	lead := uint64(wallLead())
	of := func(head *[fabric.RecordHead]byte, size uint32) *crossed {
		if !bytes.Equal(head[:6], macB) {
			return nil // the kernel's own
		}
		number := binary.BigEndian.Uint32(head[18:])
		if j.frames[number] == nil {
			j.frames[number] = &crossed{bytes: uint64(size) + fabric.L1Overhead}
		}
		return j.frames[number]
	}
	for more := true; more; {
		var err error
		if j.passed, err = j.recorder.Read(j.passed[:0]); err != nil {
			t.Fatal(err)
		}
		j.left = j.tap.Read(j.left[:0])
		for i := range j.passed {
			f := &j.passed[i]
			if c := of(&f.Head, f.Bytes); c != nil {
				c.at[0], c.at[1] = f.At, f.Until
			}
		}
		for i := range j.left {
			f := &j.left[i]
			if c := of(&f.Head, f.Bytes); c != nil {
				c.at[2], c.s = uint64(f.At)-lead, uint8(binary.BigEndian.Uint16(f.Head[14:])>>7&31)
			}
		}
		more = len(j.passed)+len(j.left) > 0
	}
	lost, err := j.recorder.Lost()
	missed, also := j.tap.Lost()
	if err := errors.Join(err, also); err != nil || lost+missed != 0 {
		t.Fatalf("%d records lost, %d frames missed: %v", lost, missed, err)
	}
}

// settle computes what arrived in each interval.
func (j *arrivals) settle() {
	clear(j.windows)
	clear(j.held)
	var all []*crossed
	for _, c := range j.frames {
		if c.at[2] != 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *crossed) int { return cmp.Compare(a.at[2], b.at[2]) })
	free, due := uint64(0), uint64(0) // when the link was free, and when by its rate
	for _, c := range all {
		from, to := (c.at[1]-j.phase)/j.length, (c.at[2]-j.phase)/j.length
		takes := c.bytes * 8e9 / linkRate
		// What found the link free, and was on it when an interval ended, counts where it began.
		if late := c.at[2] > c.at[1]+takes+uint64(onItsWay); from == to || c.at[1] < free || late {
			j.windows[to] += c.bytes
			still := c.at[2] > max(due, c.at[1])+takes+uint64(stall)
			for w := from; w <= to && (late && c.at[1] >= free || still); w++ {
				j.held[w] = true
			}
		}
		free, due = c.at[2], max(due, c.at[1])+takes
	}
}

// best is S of what arrived in an interval.
func (j *arrivals) best(window uint64) uint8 {
	return j.table.Bucket(floor(truth(quantize.MinABWC, j.windows[window], linkRate, j.length)))
}

// verdict judges all probes for which the machine did not stand still, and returns how many.
func (j *arrivals) verdict(t *testing.T) (judged int) {
	t.Helper()
	j.settle()
	var apart, better, worse, full int
	var by [quantize.NumBuckets]int
	for _, number := range slices.Sorted(maps.Keys(j.frames)) {
		c := j.frames[number]
		if number&isLoad != 0 || c.at[2] == 0 {
			continue
		}
		// The last two intervals that had ended when the data plane looked at its clock.
		from, to := (c.at[0]-j.phase)/j.length-2, (c.at[1]-j.phase)/j.length
		most, least, held := uint8(0), uint8(quantize.NumBuckets), false
		for w := from; w < to; w++ {
			most, least, held = max(most, j.best(w)), min(least, j.best(w)), held || j.held[w]
		}
		if held {
			apart++
			continue
		}
		judged++
		if most == 0 {
			full++
		}
		switch {
		case c.s > most+1:
			if by[c.s-most]++; better < 5 {
				t.Logf("probe %d, %v after its interval began (%v in the program): S=%d, by what arrived %d; %d, %d, %d bytes", number, time.Duration((c.at[0]-j.phase)%j.length), time.Duration(c.at[1]-c.at[0]), c.s, most, j.windows[from], j.windows[from+1], j.windows[from+2])
			}
			better++
		case c.s+1 < least:
			worse++
		}
	}
	t.Logf("%d probes: %d better than what arrived by more than a bucket, %d worse; %d on a full link; %d apart, where the machine stood still; better by %v", judged, better, worse, full, apart, by)
	if better != 0 {
		t.Errorf("%d of %d probes are better than what arrived", better, judged)
	}
	return judged
}

// TestSegmentedFrameDrains: a frame that is segmented behind the data plane finds the link free, and takes
// it for longer than an interval: no probe behind it has a capacity that is not there.
func TestSegmentedFrameDrains(t *testing.T) {
	const segments, enough = 42, 10
	l := newShaped(t, linkRate, "burst 5kb limit 200kb", time.Millisecond)
	l.offload(t)
	c := l.segmenter(t, 1400)
	j := &arrivals{frames: map[uint32]*crossed{}}
	j.open(t, l)
	_, probe, send := l.loadAndProbe(t, probeSize)
	big := make([]byte, segments*1400)
	behind := map[uint32]bool{}
	sent := uint32(0)
	for end := time.Now().Add(time.Minute); len(behind) < enough; {
		if time.Now().After(end) {
			t.Fatalf("%d of %d probes came while the frame was sent", len(behind), sent)
		}
		for range enough {
			if _, err := c.Write(big); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
				t.Fatal(err)
			}
			for at := time.Now(); time.Since(at) < 2500*time.Microsecond; { // half of its time
			}
			send(probe, sent)
			sent++
			time.Sleep(20 * time.Millisecond) // until the link is free
		}
		j.read(t)
		for n, c := range j.frames {
			if n >= sent || c.at[2] == 0 || c.at[2]-c.at[1] < uint64(500*time.Microsecond) {
				continue // it did not wait: the machine sent it late
			}
			if behind[n] = true; c.s > 1 {
				t.Errorf("probe %d waited for %v behind one frame, and carries S %d", n, time.Duration(c.at[2]-c.at[1]), c.s)
			}
		}
	}
}
