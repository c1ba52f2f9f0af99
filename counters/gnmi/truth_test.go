package gnmi

import (
	"errors"
	"slices"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"pgregory.net/rapid"
)

// TestEverySampleIsTrue lets targets of all kinds sample ports whose truth is
// known, and holds each sample against the truth at its At.
func TestEverySampleIsTrue(t *testing.T) {
	t.Parallel()
	type state struct{ octets, unicast, multicast uint64 }
	rapid.Check(t, func(rt *rapid.T) {
		const interval = time.Second
		ports := []string{"e1", "e2", "e3"}[:rapid.IntRange(1, 3).Draw(rt, "ports")]
		apart := rapid.Bool().Draw(rt, "a notification a leaf")
		suppress := rapid.Bool().Draw(rt, "unchanged ones left out")
		b := newBench(rt, Config{Ports: ports, Interval: interval})
		begin := b.now

		// What was sampled of each port, and when it arrives.
		truth := make(map[string]map[int64]state)
		type event struct {
			at   time.Duration // arrival, since begin
			note *pb.Notification
		}
		var events []event
		const samples = 12
		for i, p := range ports {
			phase := time.Duration(i) * time.Duration(rapid.IntRange(0, 30).Draw(rt, "spread")) * time.Millisecond
			truth[p] = make(map[int64]state)
			var now, sent state
			for k := range samples {
				if k > 0 && rapid.IntRange(0, 2).Draw(rt, "busy") > 0 {
					u, m := uint64(rapid.IntRange(0, 50).Draw(rt, "unicast")), uint64(rapid.IntRange(0, 5).Draw(rt, "multicast"))
					now.unicast += u
					now.multicast += m
					now.octets += 100 * (u + m)
				}
				since := phase + time.Duration(k)*interval
				at := begin.Add(b.offset + since).UnixNano()
				truth[p][at] = now
				var leaves []any
				add := func(id leafID, v, before uint64) {
					if !suppress || k == 0 || v != before {
						leaves = append(leaves, id, v)
					}
				}
				add(outOctets, now.octets, sent.octets)
				add(outUnicast, now.unicast, sent.unicast)
				add(outMulticast, now.multicast, sent.multicast)
				if k == 0 {
					leaves = append(leaves, outBroadcast, 0, operStatus, "UP", portSpeed, "SPEED_10GB")
				}
				sent = now
				delay := since + time.Duration(rapid.IntRange(0, 30).Draw(rt, "delay"))*time.Millisecond
				if !apart {
					if len(leaves) > 0 {
						events = append(events, event{delay, leafNote(at, p, leaves...)})
					}
					continue
				}
				n := len(leaves) / 2
				for _, j := range rapid.Permutation(slices.Collect(func(yield func(int) bool) {
					for j := range n {
						if !yield(j) {
							return
						}
					}
				})).Draw(rt, "order") {
					events = append(events, event{delay, leafNote(at, p, leaves[2*j:2*j+2]...)})
					delay += time.Duration(rapid.IntRange(0, 10).Draw(rt, "gap")) * time.Millisecond
				}
			}
		}
		slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })

		last := make(map[string]int64)
		next := time.Duration(rapid.IntRange(300, 900).Draw(rt, "first read")) * time.Millisecond
		read := func(until time.Duration) {
			for ; next <= until; next += time.Duration(rapid.IntRange(40, 900).Draw(rt, "pause")) * time.Millisecond {
				b.now = begin.Add(next)
				for _, s := range b.read() {
					if s.Err != nil {
						if errors.Is(s.Err, ErrSilent) {
							continue // everything idle
						}
						rt.Fatalf("at %v: %v", next, s.Err)
					}
					want, ok := truth[s.Port][s.At.UnixNano()]
					if !ok {
						rt.Fatalf("at %v: %s has a sample of an instant at which it was not sampled: %v", next, s.Port, s.At)
					}
					if s.Octets != want.octets || s.Packets != want.unicast+want.multicast {
						rt.Fatalf("at %v: %s octets %d packets %d, were %+v", next, s.Port, s.Octets, s.Packets, want)
					}
					if s.At.UnixNano() < last[s.Port] {
						rt.Fatalf("at %v: %s went back in time", next, s.Port)
					}
					last[s.Port] = s.At.UnixNano()
				}
			}
		}
		for _, e := range events {
			read(e.at)
			b.now = begin.Add(e.at)
			b.take(e.note)
			if e.at >= 200*time.Millisecond && b.s.synced.IsZero() {
				b.sync()
			}
		}
		read(samples * interval)
	})
}
