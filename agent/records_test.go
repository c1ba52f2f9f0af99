package agent

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// TestWhy: each change of what a port writes is a record with the window, the value and the
// bucket behind it, whether damping held it, and whether the device took it; cycles that change
// nothing are counted in one.
func TestWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{rate: 400e6}, &recorder{}
		cfg := testConfig(t, src, drv)
		cfg.Policy.Damping = inventory.Damping{Hold: 3}
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		cycles(t, a, 6) // the first one has no window
		src.rate = 100e6
		cycles(t, a, 2) // better, and held
		drv.portErr = &vendors.PermanentError{Port: "swp1", Err: errors.New("the table is full")}
		cycles(t, a, 1)
		drv.portErr, src.device = nil, errors.New("no answer")
		cycles(t, a, 2)

		abw := cfg.Profile.Signals[quantize.MinABW].Buckets
		busy, idle := int(abw.Bucket(600e6)), int(abw.Bucket(900e6))
		w, err := a.Why("swp1")
		if err != nil {
			t.Fatal(err)
		}
		type short struct {
			state            string
			cycles           uint64
			s, first, last   int // bucket written, and of the values
			written          bool
			failure, refused string
		}
		want := []short{
			{api.StateWaiting, 1, -1, -1, -1, false, "", ""},
			{api.StateLive, 7, busy, busy, idle, true, "", ""},
			{api.StateLive, 1, idle, idle, idle, false, "", "the table is full"},
			{api.StateLive, 2, -1, -1, -1, false, "device s1: reading counters: no answer", ""},
		}
		if len(w.Records) != len(want) {
			t.Fatalf("%d records, want %d: %+v", len(w.Records), len(want), w.Records)
		}
		for i, r := range w.Records {
			got := short{r.State, r.Cycles, -1, -1, -1, r.Written, r.Failure, r.Refused}
			if len(r.Signals) > 0 {
				got.s, got.first, got.last = int(r.Signals[0].Bucket), r.First.Buckets[0], r.Last.Buckets[0]
			}
			if got != want[i] {
				t.Errorf("record %d: %+v, want %+v", i, got, want[i])
			}
		}
		r := w.Records[1]
		if !r.First.At.Equal(began.Add(2*interval)) || !r.First.WindowStart.Equal(began.Add(interval)) || !r.First.WindowEnd.Equal(r.First.At) || r.First.ABWBPS != 600e6 || r.First.Bits != 40e6 {
			t.Errorf("first: %+v", r.First)
		}
		if !r.Last.At.Equal(began.Add(8*interval)) || r.MinABW != 600e6 || r.MaxABW != 900e6 || r.Last.Octets == 0 || r.Last.LeaseEnds.IsZero() {
			t.Errorf("last: %+v, of %d to %d bit/s", r.Last, r.MinABW, r.MaxABW)
		}
		if _, err := a.Why("swp2"); err == nil {
			t.Error("a port that is not there is explained")
		}
	})
}

// TestRecordsAreBounded: the last ones stay, in order, whatever the number of ports, and take no
// more memory than they may.
func TestRecordsAreBounded(t *testing.T) {
	for ports, least := range map[int]int{0: 500, 1: 500, 64: 150, 512: 18, 100_000: 7} {
		r := newRecords(ports, new([]byte))
		if r.most < fewestBytes || r.most > mostBytes {
			t.Errorf("%d ports: %d bytes each", ports, r.most)
		}
		now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).UnixNano()
		next := 0
		add := func() { // what a port of 10 Gbit/s has whose bucket changes all the time
			next++
			now += int64(interval)
			r.add(outcome{state: "live", written: true, signals: [4]told{{true, uint8(next % 32), 5}, {true, 30, 9}}},
				moment{at: now, read: now - 3e6, start: now - 103e6, end: now - 3e6, lease: now + 300e6, readNS: 700e3, programNS: 14e6, errorNS: 30e3,
					octets: 1e15, bits: 5e8, capacity: 1e10, load: 5e9, abw: uint64(next), abwc: 5e5, ops: 6144, estimate: counters.OK}, "", "", "", "")
		}
		for range 1200 {
			add()
		}
		var list []int
		r.each(func(one *record) {
			if one.cycles != 1 || one.last != one.first {
				t.Fatalf("%d ports: %+v", ports, one)
			}
			list = append(list, int(one.first.abw))
		})
		if len(list) < least || list[0] != next-len(list)+1 || list[len(list)-1] != next || !slices.IsSorted(list) {
			t.Errorf("%d ports: %d records, want %d and more: %d to %d of %d", ports, len(list), least, list[0], list[len(list)-1], next)
		}
		if len(r.packed) > r.most || cap(r.packed) != r.most {
			t.Errorf("%d ports: %d of %d bytes, want at most %d", ports, len(r.packed), cap(r.packed), r.most)
		}
		if n := testing.AllocsPerRun(100, add); n != 0 {
			t.Errorf("%v allocations for a record", n)
		}
	}
}

// TestPackedRecords: what is kept of a record is what it was, also where its texts are those of
// one that is gone, and whatever its numbers are.
func TestPackedRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 1))
	number := func() uint64 { return random.Uint64() >> random.IntN(64) }
	at := func() (m moment) {
		m = moment{
			at: int64(number()), read: int64(number()), start: int64(number()), end: -int64(number()), readNS: int64(number()), programNS: int64(number()), errorNS: int64(number()),
			octets: number(), bits: number(), capacity: number(), load: number(), abw: number(), abwc: uint32(number()), ops: uint32(number()), estimate: counters.State(random.IntN(8)),
		}
		for k := range m.buckets {
			m.buckets[k] = uint8(number())
		}
		return m
	}
	words := []string{"", "", "", "live", "a reason", strings.Repeat("long", 25)}
	text := func() string { return words[random.IntN(len(words))] }
	r := newRecords(512, new([]byte))
	var all []record
	for range 300 {
		o := outcome{state: text(), code: findings.Code(text()), failed: random.IntN(2) == 0, refuses: random.IntN(2) == 0, held: random.IntN(2) == 0, written: random.IntN(2) == 0}
		for k := range o.signals {
			if random.IntN(2) == 0 {
				o.signals[k] = told{true, uint8(number()), uint16(number())}
			}
		}
		repaired := text() // another record begins
		r.add(o, at(), text(), text(), text(), repaired+".")
		for range random.IntN(3) {
			r.add(o, at(), text(), text(), text(), "")
		}
		all = append(all, *r.now)
		var have []record
		r.each(func(one *record) { have = append(have, *one) })
		if want := all[len(all)-len(have):]; !reflect.DeepEqual(have, want) {
			t.Fatalf("after %d records:\n%+v\nwant\n%+v", len(all), have, want)
		}
	}
	// The longest record fits.
	r = newRecords(100_000, new([]byte))
	for i := range 3 {
		m, long := moment{at: -1 << 63, octets: 1<<64 - 1}, strings.Repeat(string(rune('a'+i)), 5000)
		r.add(outcome{state: "passthrough", signals: [4]told{{true, 31, 4095}}}, m, long, long, long, long)
		r.add(r.now.outcome, m, long, long, long, "")
		n := 0
		r.each(func(*record) { n++ })
		if len(r.packed) > r.most || n != min(i+1, 2) { // the one that goes on, and one before it
			t.Errorf("%d records in %d bytes", n, len(r.packed))
		}
	}
}
