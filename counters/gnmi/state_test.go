package gnmi

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// bench is a Source without a target: notifications go straight into its state,
// on a clock that the test moves.
type bench struct {
	t   interface{ Fatalf(string, ...any) }
	s   *Source
	now time.Time // ours
	// clock is the target's, ns since 1970, at ours.
	offset time.Duration
}

func newBench(t interface {
	Fatalf(string, ...any)
	Cleanup(func())
}, cfg Config) *bench {
	b := &bench{t: t, now: time.Unix(1_800_000_000, 0), offset: -37 * time.Minute}
	cfg.Address, cfg.Plaintext = "127.0.0.1:9339", true
	s, err := New(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b.s = s
	b.open()
	return b
}

// open begins a new stream.
func (b *bench) open() { b.s.opened(shape{mode: Sample}, b.now) }

// sync lets the stream have sent everything.
func (b *bench) sync() { b.s.synced = b.now }

func (b *bench) clock() int64 { return b.now.Add(b.offset).UnixNano() }

// take brings in a notification as from a stream that is complete.
func (b *bench) take(n *pb.Notification) {
	b.s.refresh = !b.s.synced.IsZero()
	b.s.take(n, b.now)
}

func (b *bench) read() []counters.Sample { return b.s.samples(nil, b.now) }

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

// leafNote is one notification with the given leaves of a port.
func leafNote(at int64, port string, leaves ...any) *pb.Notification {
	n := &pb.Notification{Timestamp: at}
	for i := 0; i < len(leaves); i += 2 {
		v := &pb.TypedValue{}
		switch x := leaves[i+1].(type) {
		case int:
			v.Value = &pb.TypedValue_UintVal{UintVal: uint64(x)}
		case uint64:
			v.Value = &pb.TypedValue_UintVal{UintVal: x}
		case string:
			v.Value = &pb.TypedValue_StringVal{StringVal: x}
		case bool:
			v.Value = &pb.TypedValue_BoolVal{BoolVal: x}
		}
		n.Update = append(n.Update, &pb.Update{Path: interfacePath("", port, leafPaths[leaves[i].(leafID)]), Val: v})
	}
	return n
}

// begin brings in the first sample of a port, which is up.
func (b *bench) begin(port string, octets, packets int) {
	b.take(leafNote(b.clock(), port, operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, octets, outPkts, packets))
}

func (b *bench) want(port string, s counters.Sample, octets, packets uint64, at int64) {
	if s.Err != nil {
		b.t.Fatalf("port %s: %v", port, s.Err)
	}
	if s.Port != port || s.Octets != octets || s.Packets != packets || s.At.UnixNano() != at {
		b.t.Fatalf("sample %s octets %d packets %d at %d, want %s %d %d %d (%v later)",
			s.Port, s.Octets, s.Packets, s.At.UnixNano(), port, octets, packets, at, time.Duration(s.At.UnixNano()-at))
	}
}

func TestSampleOfALeafAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 1000, 10)
	b.sync()
	first := b.clock()
	s := b.read()[0]
	b.want("e1", s, 1000, 10, first)
	if s.Speed != 10e9 || !s.Up || s.Bits != 64 || s.Overhead != 20 || s.Degraded != "" || s.Live || !s.Local.Equal(b.now) {
		t.Errorf("sample %+v", s)
	}
	b.pass(time.Second)
	second := b.clock()
	b.take(leafNote(second, "e1", outOctets, 2000))
	b.want("e1", b.read()[0], 1000, 10, first) // the packets are on their way
	b.pass(5 * time.Millisecond)
	b.take(leafNote(second, "e1", outPkts, 20))
	b.want("e1", b.read()[0], 2000, 20, second)
}

func TestAnUnchangedLeafIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.take(leafNote(b.clock(), "e1", operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, 1000, outUnicast, 7, outMulticast, 2, outBroadcast, 1))
	b.sync()
	b.pass(time.Second)
	second := b.clock()
	b.take(leafNote(second, "e1", outOctets, 2000))
	b.take(leafNote(second, "e1", outUnicast, 17))
	if s := b.read()[0]; s.Octets != 1000 {
		t.Errorf("octets %d without the multicasts, which may still come", s.Octets)
	}
	b.pass(101 * time.Millisecond)
	b.want("e1", b.read()[0], 2000, 20, second)

	b.pass(time.Second)
	third := b.clock()
	b.take(leafNote(third, "e1", outOctets, 3000, outUnicast, 27))
	b.want("e1", b.read()[0], 3000, 30, third) // what came together is all there is
}

// TestSamplesSoonerThanAsked: a target that sends leaf by leaf, more often than it was asked
// and always shortly before a reading, is read one sample behind, and never not at all.
func TestSamplesSoonerThanAsked(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][2]leafID{"octets first": {outOctets, outUnicast}, "packets first": {outUnicast, outOctets}} {
		b := newBench(t, Config{Ports: []string{"e1"}, Interval: 6 * time.Second})
		b.take(leafNote(b.clock(), "e1", operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, 0, outUnicast, 0, outMulticast, 0, outBroadcast, 0))
		b.sync()
		var last int64
		for n := 1; n <= 300; n++ {
			b.pass(500 * time.Millisecond)
			at := b.clock()
			values := map[leafID]int{outOctets: 1000 * n, outUnicast: 10 * n}
			b.take(leafNote(at, "e1", order[0], values[order[0]]))
			b.take(leafNote(at, "e1", order[1], values[order[1]]))
			if n > 2 && n%2 == 0 {
				b.pass(20 * time.Millisecond)
				got := b.read()[0]
				b.want("e1", got, uint64(1000*(n-1)), uint64(10*(n-1)), last)
				if got.Degraded != "" {
					t.Fatalf("%s: %s", name, got.Degraded)
				}
				b.pass(-20 * time.Millisecond)
			}
			last = at
		}
	}
}

func TestWhichPacketsCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		leaves   []any
		want     uint64
		degraded string
		err      error
	}{
		{"out-pkts", []any{outPkts, 5, outUnicast, 50, outMulticast, 50, outBroadcast, 50}, 5, "", nil},
		{"the sum", []any{outUnicast, 50, outMulticast, 5, outBroadcast, 1}, 56, "", nil},
		{"out-pkts that does not count", []any{outPkts, 0, outUnicast, 50, outMulticast, 5, outBroadcast, 1}, 56, "", nil},
		{"nothing sent yet", []any{outPkts, 0, outUnicast, 0, outMulticast, 0, outBroadcast, 0}, 0, "", nil},
		{"unicast only", []any{outUnicast, 50}, 50, partialPackets, nil},
		{"unicast and multicast", []any{outUnicast, 50, outMulticast, 5}, 50, partialPackets, nil},
		{"none", nil, 0, "", gnmi.ErrMissing},
		{"of the wrong type", []any{outPkts, "x"}, 0, "", gnmi.ErrType},
		{"of the wrong type, and the sum", []any{outPkts, "x", outUnicast, 50, outMulticast, 5, outBroadcast, 1}, 56, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Ports: []string{"e1"}})
			b.take(leafNote(b.clock(), "e1", append([]any{operStatus, "UP", outOctets, 9000}, tt.leaves...)...))
			b.sync()
			b.pass(150 * time.Millisecond)
			s := b.read()[0]
			if !errors.Is(s.Err, tt.err) || tt.err == nil && s.Err != nil {
				t.Fatalf("error %v, want %v", s.Err, tt.err)
			}
			if s.Packets != tt.want || s.Degraded != tt.degraded {
				t.Errorf("packets %d %q, want %d %q", s.Packets, s.Degraded, tt.want, tt.degraded)
			}
		})
	}
}

func TestSumWithDiscardsIsDegradedWhileTheyMove(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	sample := func(octets, unicast, discards int) string {
		b.take(leafNote(b.clock(), "e1", outOctets, octets, outUnicast, unicast, outMulticast, 0, outBroadcast, 0, outDiscards, discards))
		s := b.read()[0]
		b.pass(time.Second)
		return s.Degraded
	}
	b.take(leafNote(b.clock(), "e1", operStatus, "UP", portSpeed, "SPEED_1GB"))
	b.sync()
	for i, want := range []string{"", "", discardsCounted, ""} {
		if got := sample(1000*i, 10*i, []int{5, 5, 8, 8}[i]); got != want {
			t.Errorf("sample %d is degraded %q, want %q", i, got, want)
		}
	}
}

func TestSpeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		leaves []any
		want   uint64
		from   string
	}{
		{"port-speed", []any{portSpeed, "SPEED_100GB"}, 100e9, "ethernet/state/port-speed"},
		{"with its module", []any{portSpeed, "openconfig-if-ethernet:SPEED_2500MB"}, 2500e6, "ethernet/state/port-speed"},
		{"negotiated below", []any{portSpeed, "SPEED_10GB", negotiatedSpeed, "SPEED_1GB"}, 1e9, "ethernet/state/negotiated-port-speed"},
		{"negotiated unknown", []any{portSpeed, "SPEED_10GB", negotiatedSpeed, "SPEED_UNKNOWN"}, 10e9, "ethernet/state/port-speed"},
		{"LAG", []any{lagSpeed, 40000}, 40e9, "aggregation/state/lag-speed"},
		{"LAG whose members are gone", []any{lagSpeed, 0}, 0, ""},
		{"one that the models do not have", []any{portSpeed, "SPEED_3200GB"}, 0, ""},
		{"none", nil, 0, ""},
		{"more than a lag-speed can be", []any{lagSpeed, uint64(1) << 60}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Ports: []string{"e1"}})
			b.take(leafNote(b.clock(), "e1", append([]any{operStatus, "UP", outOctets, 9000, outPkts, 1}, tt.leaves...)...))
			b.sync()
			if s := b.read()[0]; s.Err != nil || s.Speed != tt.want {
				t.Errorf("speed %d, %v, want %d", s.Speed, s.Err, tt.want)
			}
			want := noLeaf
			if tt.from != "" {
				want = leafID(slices.Index(leafPaths[:], tt.from))
			}
			if bps, from := b.s.ports[0].speed(); bps != tt.want || from != want {
				t.Errorf("speed %d from %v, want it from %q", bps, from, tt.from)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for e := range oc.ΛEnum["E_Interface_OperStatus"] {
		status := oc.E_Interface_OperStatus(e).String()
		b := newBench(t, Config{Ports: []string{"e1"}})
		b.begin("e1", 1, 1)
		b.take(leafNote(b.clock(), "e1", operStatus, status))
		s := b.read()[0]
		wantUp, wantDegraded := status == "UP" || status == "UNKNOWN", ""
		if status == "UNKNOWN" {
			wantDegraded = unknownStatus
		}
		if s.Err != nil || s.Up != wantUp || s.Degraded != wantDegraded {
			t.Errorf("%s: up %t %q %v", status, s.Up, s.Degraded, s.Err)
		}
	}
}

func TestWrongTypesAreThatPortsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Config: gnmi.Config{Device: "leaf1"}, Ports: []string{"e1", "e2", "e3"}})
	for _, p := range []string{"e1", "e2", "e3"} {
		b.begin(p, 1000, 10)
	}
	b.sync()
	b.take(leafNote(b.clock(), "e1", outOctets, true))
	b.take(leafNote(b.clock(), "e2", operStatus, "SIDEWAYS"))
	got := b.read()
	for i, leaf := range []string{"out-octets", "oper-status"} {
		err := got[i].Err
		if !errors.Is(err, gnmi.ErrType) {
			t.Fatalf("port %d: error %v, want ErrType", i, err)
		}
		if !strings.Contains(err.Error(), leaf) {
			t.Errorf("%v does not name %q", err, leaf)
		}
	}
	b.want("e3", got[2], 1000, 10, b.clock())
	b.pass(time.Second)
	b.take(leafNote(b.clock(), "e1", outOctets, 2000, outPkts, 20))
	b.want("e1", b.read()[0], 2000, 20, b.clock())
}

func TestDeletes(t *testing.T) {
	t.Parallel()
	del := func(p *pb.Path) *pb.Notification { return &pb.Notification{Delete: []*pb.Path{p}} }
	for _, tt := range []struct {
		name   string
		note   *pb.Notification
		gone   []bool // e1, e2
		atomic bool
	}{
		{"a port", del(&pb.Path{Elem: interfacePath("", "e1", "x").Elem[:2]}), []bool{true, false}, false},
		{"a leaf", del(interfacePath("", "e1", leafPaths[outOctets])), []bool{true, false}, false},
		{"a container", del(interfacePath("", "e1", "state/counters")), []bool{true, false}, false},
		{"all interfaces", del(&pb.Path{Elem: []*pb.PathElem{{Name: "interfaces"}}}), []bool{true, true}, false},
		{"everything", del(&pb.Path{}), []bool{true, true}, false},
		{"a wildcard", del(interfacePath("", "*", "state")), []bool{true, true}, false},
		{"through the prefix", &pb.Notification{Prefix: interfacePath("", "e1", "state"), Delete: []*pb.Path{{Elem: []*pb.PathElem{{Name: "counters"}}}}}, []bool{true, false}, false},
		{"something else", del(interfacePath("", "e1", "subinterfaces")), []bool{false, false}, false},
		{"atomic without the octets", &pb.Notification{Atomic: true, Prefix: interfacePath("", "e1", "state/counters"),
			Update: []*pb.Update{{Path: &pb.Path{Elem: []*pb.PathElem{{Name: "out-pkts"}}}, Val: &pb.TypedValue{Value: &pb.TypedValue_UintVal{UintVal: 10}}}}}, []bool{true, false}, true},
		{"replaced", &pb.Notification{Delete: []*pb.Path{interfacePath("", "e1", "state/counters")},
			Update: leafNote(0, "e1", outOctets, 1000, outPkts, 10).Update}, []bool{false, false}, false},
		{"of before what is known", &pb.Notification{Timestamp: 1, Delete: []*pb.Path{interfacePath("", "e1", "state")}}, []bool{false, false}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Ports: []string{"e1", "e2"}})
			b.begin("e1", 1000, 10)
			b.begin("e2", 1000, 10)
			b.sync()
			before := b.read()[0].Epoch
			b.pass(time.Second)
			if tt.note.Timestamp == 0 {
				tt.note.Timestamp = b.clock()
			}
			b.take(tt.note)
			for i, s := range b.read() {
				if gone := errors.Is(s.Err, gnmi.ErrMissing); gone != tt.gone[i] {
					t.Errorf("%s: %v, want it gone %t", s.Port, s.Err, tt.gone[i])
				}
			}
			b.pass(time.Second)
			b.begin("e1", 5000, 50)
			s := b.read()[0]
			b.want("e1", s, 5000, 50, b.clock())
			if (s.Epoch != before) != tt.gone[0] {
				t.Errorf("epoch %d after %d", s.Epoch, before)
			}
		})
	}
}

func TestAtomicSamplesKeepTheirEpoch(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.begin("e1", 0, 0)
	b.sync()
	var epochs []uint64
	for i := range 4 {
		n := &pb.Notification{Timestamp: b.clock(), Atomic: true, Prefix: interfacePath("", "e1", "state/counters")}
		for _, u := range leafNote(0, "e1", outOctets, 1000*i, outPkts, 10*i).Update {
			n.Update = append(n.Update, &pb.Update{Path: &pb.Path{Elem: u.Path.Elem[4:]}, Val: u.Val})
		}
		b.take(n)
		s := b.read()[0]
		b.want("e1", s, uint64(1000*i), uint64(10*i), b.clock())
		epochs = append(epochs, s.Epoch)
		b.pass(time.Second)
	}
	if slices.Max(epochs) != slices.Min(epochs) {
		t.Errorf("epochs %v of one counter", epochs)
	}
}

func TestPortThatVanishedWhileTheStreamWasDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1", "e2"}})
	b.begin("e1", 1000, 10)
	b.begin("e2", 1000, 10)
	b.sync()
	b.pass(time.Second)
	b.open()
	b.begin("e1", 2000, 20)
	b.sync()
	if err := b.read()[1].Err; err != nil {
		t.Errorf("before a sample was due: %v", err)
	}
	b.pass(3 * time.Second)
	b.begin("e1", 3000, 30)
	got := b.read()
	b.want("e1", got[0], 3000, 30, b.clock())
	if !errors.Is(got[1].Err, gnmi.ErrMissing) {
		t.Errorf("e2: %v, want ErrMissing", got[1].Err)
	}
}
