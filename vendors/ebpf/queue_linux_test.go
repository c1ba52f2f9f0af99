package ebpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// queueLab is a lab whose p2 has this root queueing discipline, and carries pd and nqd.
func queueLab(t *testing.T, qdisc ...string) (*lab, vendors.Setup) {
	t.Helper()
	l := newLab(t)
	for _, sig := range []quantize.Signal{quantize.MaxPD, quantize.MaxNQD} {
		table, err := quantize.Preset(sig, quantize.PresetNames(sig)[0])
		if err != nil {
			t.Fatal(err)
		}
		l.profile.Signals[sig] = quantize.SignalProfile{Buckets: table, Quantum: 1}
	}
	for cmd := range strings.SplitSeq(strings.Join(qdisc, " "), ";") {
		run(t, l.s, "tc", strings.Fields(cmd)...)
	}
	s := vendors.Setup{
		TPID: 0x9900, WideTPID: 0x9901, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD, quantize.MaxNQD}, OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "p2", Action: vlanrules.Update}}, Measure: l.profile,
	}
	l.apply(s)
	return l, s
}

// Frames that queue carry the delay that the backlog in front of them means. What the data
// plane read lies between what had been sent before and that less what the port can have sent
// meanwhile; the delay that frames really had is printed beside it.
func TestQueue(t *testing.T) {
	const size, count, rate, burst, limit = 1000, 40, 800_000, 1600, 60_000
	l, s := queueLab(t, fmt.Sprintf("qdisc replace dev p2 root tbf rate %d burst %d limit %d", rate, burst, limit))
	l.update(s, time.Hour)
	l.sent(0)
	type sample struct {
		before, after time.Time
	}
	var sent [count]sample
	start := time.Now()
	for i := range sent {
		f := make([]byte, size)
		copy(f, macB)
		copy(f[6:], macA)
		binary.BigEndian.PutUint16(f[12:], 0x9901)
		binary.BigEndian.PutUint32(f[16:], uint32([]quantize.Signal{quantize.MaxPD, quantize.MaxNQD}[i%2])<<28)
		f[20], f[21], f[22] = 0x88, 0xb5, byte(i)
		sent[i].before = time.Now()
		if err := l.host.Send(f); err != nil {
			t.Fatal(err)
		}
		sent[i].after = time.Now()
	}
	var errs []float64
	for n, deadline := 0, time.Now().Add(time.Minute); n < count; {
		f, _, err := l.far.Receive()
		now := time.Now()
		switch {
		case err != nil:
			t.Fatal(err)
		case f == nil && now.After(deadline):
			t.Fatalf("%d of %d frames came", n, count)
		case f == nil || len(f) != size || !bytes.Equal(f[:6], macB):
			continue
		}
		i := int(f[22])
		got := uint64(binary.BigEndian.Uint32(f[16:]) >> 8 & 0xfffff)
		// The backlog at the frame: what was sent before, less what the port let go.
		most := uint64(i) * size
		gone := burst + uint64(sent[i].after.Sub(start))*rate/8/uint64(time.Second) + size
		least := most - min(most, gone)
		lo, hi := least*8*uint64(time.Second)/rate, most*8*uint64(time.Second)/rate // ns
		if i%2 == 1 {
			lo, hi = least*1_000_000/limit, most*1_000_000/limit // ppm of the limit
		}
		if got = min(got, quantize.MaxWideS); got < min(lo, quantize.MaxWideS) || got > min(hi, quantize.MaxWideS) {
			t.Errorf("frame %d carries %d, want %d to %d", i, got, lo, hi)
		}
		if i%2 == 1 {
			errs = append(errs, float64(got)/1e6*limit*8/rate-now.Sub(sent[i].before).Seconds())
		}
		n++
	}
	slices.Sort(errs)
	t.Logf("delay by the tag less the delay of the frame: %.1f ms at least, %.1f in the middle, %.1f at most (a frame takes %.1f, the burst %.1f)",
		1e3*errs[0], 1e3*errs[len(errs)/2], 1e3*errs[len(errs)-1], 8e3*size/rate, 8e3*burst/rate)
}

// Signals of the queue are refused, with the reason, where the root does not show it, and
// the others of the port with them.
func TestQueueRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ qdisc, want string }{
		{"qdisc replace dev p2 root pfifo", "its root queueing discipline is pfifo"},
		{"qdisc replace dev p2 root handle 1: htb default 1; class add dev p2 parent 1: classid 1:1 htb rate 1mbit; class add dev p2 parent 1: classid 1:2 htb rate 1mbit", "more than one leaf"},
		{"qdisc replace dev p2 root handle 1: htb default 2; class add dev p2 parent 1: classid 1:1 htb rate 1mbit", "make its only leaf the default"},
		{"qdisc replace dev p2 root handle 1: htb default 1; class add dev p2 parent 1: classid 1:1 htb rate 1mbit ceil 2mbit", "make them equal"},
		{"qdisc replace dev p2 root handle 1: htb default 1; class add dev p2 parent 1: classid 1:1 htb rate 1mbit; qdisc add dev p2 parent 1:1 pfifo limit 10", "nqd is refused: how much its queue holds is not known"},
		{"qdisc replace dev p2 root handle 1: htb default 1; class add dev p2 parent 1: classid 1:1 htb rate 1mbit", ""},
		{"qdisc replace dev p2 root tbf rate 1mbit burst 1600 limit 60000", ""},
	} {
		l, s := queueLab(t, tc.qdisc)
		_, err := l.d.Update(t.Context(), updates(&s), time.Hour)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.qdisc, err, tc.want)
		}
		if seen := l.look(); (seen.Signal == vendors.SignalWritten) != (tc.want == "") {
			t.Errorf("%s: %+v", tc.qdisc, seen)
		}
	}
}
