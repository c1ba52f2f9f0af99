package trace

import (
	"os"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
)

// A recording of a real net-snmp (5.9, its cache of 3 s) that was read each second while
// the loopback sent steadily. Its true rate is that between the first and the last
// counter, which the cache cannot touch.
func TestRecordedNetSNMP(t *testing.T) {
	file, err := os.ReadFile("testdata/netsnmp-1s.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAll(t, file)
	if err != nil || len(all) != 100 {
		t.Fatalf("%d readings, %v", len(all), err)
	}
	// Two readings at which the cache was fresh.
	var fresh []*counters.Sample
	for i := 1; i < len(all); i++ {
		if s := &all[i].Samples[0]; s.Octets != all[i-1].Samples[0].Octets {
			fresh = append(fresh, s)
		}
	}
	a, b := fresh[1], fresh[len(fresh)-1]
	truth := 8 * float64(b.Octets-a.Octets+uint64(a.Overhead)*(b.Packets-a.Packets)) / b.At.Sub(a.At).Seconds()

	cfg := counters.PipelineConfig{Ports: reader(t, file).Header().ports(&Settings{SpeedsBPS: map[string]uint64{"lo": 1e9}, Overrides: []string{"lo"}})}
	valid := 0
	sum, err := Play(reader(t, file), cfg, func(s *Step) error {
		e := &s.Ports[0].Now
		if e.State != counters.OK {
			return nil
		}
		valid++
		if off := float64(e.Load())/truth - 1; off < -0.01 || off > 0.01 {
			t.Errorf("%v: load %d, truth %.0f, Δt %v ±%v", s.Read, e.Load(), truth, e.End.Sub(e.Start), e.Error)
		}
		return nil
	})
	st := sum.Refresh
	if err != nil || valid < 30 || (st.Period-3*time.Second).Abs() > st.PeriodError || st.PeriodError > 1010*time.Millisecond { // there are no readings between two of the schedule
		t.Errorf("%v, %d valid, %+v", err, valid, st)
	}
	t.Logf("%d estimates within 1 %% of %.3f Mb/s, refreshed every %v ±%v (%v)", valid, truth/1e6, st.Period, st.PeriodError, st.Kind)

	if zero := zeroAsRead(t, file, counters.EstimatorConfig{Interval: reader(t, file).Header().Interval(), Speed: 1e9}); zero < 60 {
		t.Errorf("without learning %d readings say zero", zero)
	}
}
