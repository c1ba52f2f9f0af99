package gnmi

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/memnet"
)

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("Ethernet%d/1", i+1)
	}
	return list
}

// rounds are samples of all ports, one notification a port, that can be sent again and
// again with a later time.
func round(ports []string) []*pb.Notification {
	var list []*pb.Notification
	for _, p := range ports {
		list = append(list, leafNote(1, p, outOctets, 1, outUnicast, 1, outMulticast, 1, outBroadcast, 1, outDiscards, 1, lastClear, 1))
	}
	return list
}

// next moves a round on by one interval, in which each port sent a frame.
func next(notes []*pb.Notification, at int64) {
	for _, n := range notes {
		n.Timestamp = at
		n.Update[0].Val.Value.(*pb.TypedValue_UintVal).UintVal += 1250
		n.Update[1].Val.Value.(*pb.TypedValue_UintVal).UintVal++
	}
}

func TestTakingAndReadingAllocateNothing(t *testing.T) {
	ports := names(64)
	b := newBench(t, Config{Ports: ports})
	for _, p := range ports {
		b.take(leafNote(b.clock(), p, operStatus, "UP", portSpeed, "SPEED_10GB"))
	}
	b.sync()
	notes := round(ports)
	var dst []counters.Sample
	step := func() {
		b.pass(time.Second)
		next(notes, b.clock())
		for _, n := range notes {
			b.take(n)
		}
		dst = b.s.samples(dst[:0], b.now)
		if s := &dst[63]; s.Err != nil || s.At.UnixNano() != b.clock() {
			t.Fatalf("%+v", s)
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for a round of 64 ports, want none", n)
	}
}

// A Source leaves nothing behind: no goroutine, whatever state it is closed in.
func TestCloseLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen(address)
		serveOn(t, l, newDevice(t, "e1"))
		synctest.Wait()
		before, _ := inBubble()
		never := open(t, Config{Config: gnmi.Config{Dial: l.DialContext}, Ports: []string{"e1"}})
		reading := open(t, Config{Config: gnmi.Config{Dial: l.DialContext}, Ports: []string{"e1"}})
		read(t, reading)
		closed := memnet.Listen(address)
		closed.Close()
		failing := open(t, Config{Config: gnmi.Config{Dial: closed.DialContext, Backoff: time.Hour, MaxBackoff: time.Hour}, Ports: []string{"e1"}})
		if _, err := tryRead(failing); err == nil {
			t.Error("something answers where nothing listens")
		}
		waiting := open(t, Config{Config: gnmi.Config{Dial: l.DialContext}, Ports: []string{"nowhere"}, Interval: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, _ = waiting.Read(ctx, nil)
		for _, s := range []*Source{never, reading, failing, waiting} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n, stacks := inBubble(); n > before {
			t.Fatalf("%d goroutines, were %d:\n%s", n, before, stacks)
		}
	})
}

// inBubble counts the goroutines of the caller's bubble alone: in the process those of other tests come and go.
func inBubble() (int, string) {
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	state, _, _ := strings.Cut(stacks, "]:")
	return strings.Count(stacks, state[strings.Index(state, "synctest bubble"):]+"]:"), stacks
}

// Info may be called while a stream runs and others read.
func TestInfoBesideRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, names(8)...)
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Ports: names(8), Interval: 2 * time.Millisecond})
		var stop atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !stop.Load() {
				_ = s.Info()
				runtime.Gosched()
			}
		}()
		for range 50 {
			read(t, s)
		}
		stop.Store(true)
		<-done
	})
}

// BenchmarkTake is the cost of one sample of 512 ports once it is decoded.
func BenchmarkTake(b *testing.B) {
	for _, enc := range []string{"PROTO", "JSON_IETF"} {
		b.Run(enc, func(b *testing.B) {
			ports := names(512)
			w := newBench(b, Config{Ports: ports})
			for _, p := range ports {
				w.take(leafNote(w.clock(), p, operStatus, "UP", portSpeed, "SPEED_10GB"))
			}
			w.sync()
			notes := round(ports)
			if enc == "JSON_IETF" {
				for i, p := range ports {
					notes[i] = jsonCounters(b, p)
				}
			}
			var dst []counters.Sample
			b.ReportAllocs()
			for b.Loop() {
				w.pass(time.Second)
				if enc == "PROTO" {
					next(notes, w.clock())
				}
				for _, n := range notes {
					n.Timestamp = w.clock()
					w.take(n)
				}
				dst = w.s.samples(dst[:0], w.now)
			}
			if dst[511].Err != nil {
				b.Fatal(dst[511].Err)
			}
		})
	}
}

// jsonCounters is a container of counters as targets without PROTO send it.
func jsonCounters(b *testing.B, port string) *pb.Notification {
	m := map[string]string{}
	for _, dir := range []string{"in", "out"} {
		for _, c := range []string{"octets", "pkts", "unicast-pkts", "multicast-pkts", "broadcast-pkts", "discards", "errors"} {
			m[dir+"-"+c] = "1234567890123"
		}
	}
	js, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	return &pb.Notification{Update: []*pb.Update{{Path: interfacePath("", port, "state/counters"),
		Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}}}}
}

// BenchmarkStream is one sample of 512 ports from the target's Send to the samples that Read
// returns, over gRPC on the loopback interface; one a second is what a device costs. The
// target's half is in it.
func BenchmarkStream(b *testing.B) {
	ports := names(512)
	rounds := make(chan struct{})
	srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
		at := time.Now()
		for _, p := range ports {
			if err := send(stream, leafNote(at.UnixNano(), p, operStatus, "UP", portSpeed, "SPEED_10GB")); err != nil {
				return err
			}
		}
		notes := round(ports)
		next(notes, at.UnixNano())
		if err := send(stream, notes...); err != nil {
			return err
		}
		if err := sendSync(stream); err != nil {
			return err
		}
		for range rounds {
			at = at.Add(time.Second)
			next(notes, at.UnixNano())
			if err := send(stream, notes...); err != nil {
				return err
			}
		}
		return nil
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	serveOn(b, l, srv)
	s := open(b, Config{Config: gnmi.Config{Address: l.Addr().String()}, Ports: ports, Interval: time.Second})
	dst := read(b, s)
	first := dst[511].At
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		rounds <- struct{}{}
		for want := first.Add(time.Duration(n) * time.Second); !dst[511].At.Equal(want); {
			<-s.wake
			s.mu.Lock()
			last := s.ports[511].leaves[outOctets].at
			s.mu.Unlock()
			if last == want.UnixNano() {
				dst = read(b, s)
			}
		}
	}
	close(rounds)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/512, "ns/port")
}
