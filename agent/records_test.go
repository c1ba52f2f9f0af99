package agent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
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

// TestRecordsAreBounded: the last ones stay, in order, whatever the number of ports.
func TestRecordsAreBounded(t *testing.T) {
	for _, ports := range []int{0, 1, 64, 512, 100_000} {
		r := newRecords(ports)
		if r.most < fewestRecord || r.most > mostRecords {
			t.Errorf("%d ports: %d records each", ports, r.most)
		}
		for i := range 3*r.most + 1 {
			r.add(outcome{signals: [4]told{{set: true, lm: uint16(i)}}}, moment{at: int64(i)}, "", "", "", "")
		}
		next := int64(2*r.most + 1)
		r.each(func(one *record) {
			if one.first.at != next || one.cycles != 1 {
				t.Fatalf("%d ports: %+v, want that of %d", ports, one.first, next)
			}
			next++
		})
		if next != int64(3*r.most+1) {
			t.Errorf("%d ports: the newest is of %d", ports, next-1)
		}
		if n := testing.AllocsPerRun(100, func() { next++; r.add(outcome{held: next%2 == 0}, moment{at: next}, "", "", "", "") }); n != 0 {
			t.Errorf("%v allocations for a record", n)
		}
	}
}
