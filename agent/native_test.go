package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors"
)

// What goes around a data plane makes its port fall back until as many readings agree as
// showed it; what its queue drops, what is on the way between the two, and a restart do not.
func TestSupervision(t *testing.T) {
	for _, tc := range []struct {
		name   string
		own    func(counted uint64, second int) uint64
		missed string // by second, or by twentieth of one
	}{
		{"equal", func(n uint64, _ int) uint64 { return n }, "............"},
		{"some are on the way", func(n uint64, _ int) uint64 { return n - min(n, 200<<10) }, "............"},
		{"the queue drops half", func(n uint64, _ int) uint64 { return 2 * n }, "............"},
		{"a tenth goes around", func(n uint64, _ int) uint64 { return n - n/10 }, ".xxxxxxxxxxx"},
		{"a tenth goes around, counters inexact", func(n uint64, _ int) uint64 { return n - n/10 }, ".xxxxxxxxxxx"},
		{"counters inflated", func(n uint64, _ int) uint64 { return n - n/10 }, "............"},
		{"a twentieth goes around", func(n uint64, _ int) uint64 { return n - n/20 }, "..xxxxxxxxxx"},
		{"twentieths of a second, and a tenth goes around", func(n uint64, _ int) uint64 { return n - n/10 }, "...........xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
		{"twentieths of a second", func(n uint64, _ int) uint64 { return n }, "........................................."},
		{"a tenth, until the fifth second", func(n uint64, s int) uint64 {
			if s < 5 {
				return n - n/10
			}
			return n - 5*1_250_000
		}, ".xxxxxx....."},
		{"the data plane restarts", func(n uint64, s int) uint64 {
			if s < 5 {
				return n
			}
			return n - 5*12_500_000
		}, "............"},
	} {
		var v supervision
		got := ""
		every := time.Second
		if strings.HasPrefix(tc.name, "twentieths") {
			every /= 20
		}
		for reading := range len(tc.missed) {
			since := every * time.Duration(reading)
			second, packets := int(since/time.Second), uint64(since/time.Millisecond)
			counted := packets * 12_500 // 100 Mbit/s
			s := counters.Sample{Octets: counted - 24*packets, Packets: packets, Overhead: 24, Speed: 1e9 / 10, Up: true, At: time.Unix(1, 0).Add(since)}
			s.Inflated = strings.HasSuffix(tc.name, "inflated")
			if s.Inflated || strings.HasSuffix(tc.name, "inexact") {
				s.Degraded = "why"
			}
			v.compare(&s, &vendors.Measurement{Bytes: tc.own(counted, second)}, s.Speed)
			if v.missed == "" {
				got += "."
				continue
			}
			got += "x"
			if !strings.Contains(v.missed, "went around the data plane") {
				t.Errorf("%s: %s", tc.name, v.missed)
			}
		}
		if got != tc.missed {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.missed)
		}
	}
}

// TestChipThatNeedsNothing: ports of a chip that measures by itself are live once it was set up, whatever their counters say. Nothing
// falls back while cycles fail: what is seen there counts, and what cannot be seen is not known.
func TestChipThatNeedsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{port: errors.New("no such counter")}, &recorder{before: true}
		drv.facts = vendors.Facts{Native: true, Lease: vendors.Refusal("the chip measures by itself")}
		a := newTest(t, src, drv)
		is := func(when, plane, state, why string) {
			t.Helper()
			s := a.Status()
			if p := &s.Ports[0]; s.DataPlane != plane || p.State != state || !strings.Contains(p.Reason+s.DataPlaneReason, why) || len(p.Signals) > 0 || s.LeaseNS != 0 || !s.Cycle.LeaseEnds.IsZero() {
				t.Errorf("%s: %s (%s), port %+v; want %s and %s: %s", when, s.DataPlane, s.DataPlaneReason, s.Ports[0], plane, state, why)
			}
		}
		is("before the first cycle", api.DataPlaneNone, api.StateWaiting, "")
		cycles(t, a, 2)
		is("without counters of the port", api.DataPlaneNative, api.StateLive, chipMeasures+"; no such counter")
		src.device = errors.New("no database")
		updates := len(drv.updates)
		log := test.NewLocal(a.log.Logger)
		cycles(t, a, 10)
		for _, e := range log.AllEntries() { // its state is that of the chip, and does not come and go with the counters
			if strings.HasSuffix(e.Message, "changed state") {
				t.Error(e.Message, e.Data)
			}
		}
		is("without counters", api.DataPlaneNative, api.StateLive, "no database")
		if n := len(drv.updates) - updates; n != 10 {
			t.Errorf("looked after %d times in ten cycles without counters", n)
		}
		src.port, src.device = nil, nil
		cycles(t, a, 5)
		is("with counters", api.DataPlaneNative, api.StateLive, "")
		if p := &a.Status().Ports[0]; p.ABWBPS == 0 || p.WindowEnd == nil || strings.Contains(p.Reason, chipMeasures) {
			t.Errorf("csig's own figures: %+v", p)
		}
		src.down = true
		cycles(t, a, 2)
		is("without a link", api.DataPlaneNative, api.StateDown, "")
		src.down = false
		cycles(t, a, 5)

		drv.update = errors.New("no orchagent")
		cycles(t, a, 100)
		is("while updates fail", api.DataPlaneNative, api.StateLive, "")
		drv.now = &vendors.Setup{TPID: a.setup.TPID, Damaged: "its objects are gone", Ports: a.setup.Ports}
		cycles(t, a, 20)
		is("while it is damaged", api.DataPlaneNative, api.StateLost, "its objects are gone")
		drv.blind = errors.New("no way there")
		cycles(t, a, 60)
		is("while it cannot be seen", api.DataPlaneUnknown, api.StateLost, "no way there")
		drv.update, drv.blind, drv.now = nil, nil, &a.setup
		cycles(t, a, 1)
		is("again", api.DataPlaneNative, api.StateLive, "")
		if err := a.release(); err != nil || drv.released > 0 || !strings.Contains(a.Left(), "goes on measuring") {
			t.Errorf("%v, released %d times: %s", err, drv.released, a.Left())
		}
	})
}
