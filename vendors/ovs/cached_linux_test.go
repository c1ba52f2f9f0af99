package ovs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestCachedFlows changes buckets under traffic of 300 tags, one half of which
// comes when the other's cached flows are there already: what is cached follows
// every change.
func TestCachedFlows(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	half := func(lm uint16) (tags []uint16) {
		for own := uint16(1); own < 31; own++ {
			for i := range uint16(20 / vendorstest.Every(t, 4)) {
				tags = append(tags, own<<7|(lm+i))
			}
		}
		return tags
	}
	first, second := half(1), half(21)
	now := bucket(quantize.MinABW, 31, 99)
	update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{now}})
	s.settle()
	var late []time.Duration
	seen := 0
	for r := range 2 {
		for _, phase := range []struct {
			bucket uint8
			tags   []uint16
		}{
			{5, first},                 // cached as rewritten
			{uint8(31 - r%16), second}, // the other half, mostly as left alone
			{5, first},                 // a change back
			{5, second},
			{20, slices.Concat(first, second)},
		} {
			want := bucket(quantize.MinABW, phase.bucket, uint16(50+r%40))
			old, n := s.carryOver(t, now, want, phase.tags)
			late, seen, now = append(late, old), seen+n, want
		}
	}
	slices.Sort(late)
	flows, dump := s.cached(t)
	t.Logf("%d changes, %d frames, %d cached flows, through which Open vSwitch goes in %s: the last frame with the old value was sent %v after the change at the median, %v at the most",
		len(late), seen, flows, dump, late[len(late)/2].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
	// One for each tag, and for each S of them; those of values of before are no more.
	if flows > len(first)+len(second)+32+20 {
		t.Errorf("%d flows are cached", flows)
	}
}

// TestLongCachedFlows is TestCachedFlows with 1,200 tags.
func TestLongCachedFlows(t *testing.T) { TestCachedFlows(t) }

// carryOver changes a bucket while frames with the tags pass, until all of them
// have the new value. It returns when the last one with the old value was sent,
// from the change on, and how many frames there were.
func (s *sandwich) carryOver(t *testing.T, before, after vlanrules.Intent, tags []uint16) (old time.Duration, n int) {
	t.Helper()
	done := make(chan time.Time, 1)
	go func() {
		_, err := s.driver.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{after}}}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		done <- time.Now()
	}()
	var changed time.Time
	var lastOld time.Time
	sent := make([]time.Time, len(tags))
	for settled := false; !settled; {
		settled = !changed.IsZero()
		for from := 0; from < len(tags); from += window {
			to := min(from+window, len(tags))
			var frames [][]byte
			for i := from; i < to; i++ {
				frames, sent[i] = append(frames, frame(uint32(i), tag{tpidCSIG, tags[i]})), time.Now()
			}
			s.in.Send(frames...)
			for range to - from {
				got := s.out.Receive(soon)
				if got == nil {
					t.Fatalf("of frames %d to %d one does not arrive", from, to-1)
				}
				n++
				i := seqOf(got)
				value := func(in vlanrules.Intent) string {
					return string(frame(i, tag{tpidCSIG, model(quantize.Draft00, []vlanrules.Intent{in}, tags[i])}))
				}
				switch string(got) {
				case value(after):
				case value(before):
					settled = false
					if sent[i].After(lastOld) {
						lastOld = sent[i]
					}
				default:
					t.Fatalf("tag %#x leaves as %x, neither as %+v nor as %+v says", tags[i], got[:20], before, after)
				}
			}
		}
		select {
		case changed = <-done:
		default:
		}
		if late := lastOld.Sub(changed); !changed.IsZero() && late > soon {
			t.Fatalf("a frame sent %v after the change from %+v to %+v has the old value", late, before, after)
		}
	}
	return max(0, lastOld.Sub(changed)), n
}

// cached is how many flows ovs-vswitchd has in its cache, and how long it takes
// to go through them.
func (s *sandwich) cached(t *testing.T) (flows int, dump string) {
	t.Helper()
	for line := range strings.Lines(s.Appctl("upcall/show")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.TrimSpace(key) {
		case "flows":
			if _, err := fmt.Sscanf(strings.TrimSpace(value), "(current %d)", &flows); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		case "dump duration":
			dump = strings.TrimSpace(value)
			if _, err := strconv.Atoi(strings.TrimSuffix(dump, "ms")); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
	return flows, dump
}
