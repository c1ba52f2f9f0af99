package snmp

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
)

// dirty reports whether a text is fit for a terminal and not too long.
func dirty(text string) bool {
	return len(text) > 2000 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Whatever an agent does, a reading ends, takes no memory to speak of, says nothing that a
// terminal must not get, and no load is further off than it says.
func TestHostileAgents(t *testing.T) {
	const load = 1000 * 8 * (1000 + 20) // of each port
	// Values of another instant, or another value, under the right id: it cannot be noticed.
	lies := map[string]bool{"the answer before, with this id": true, "flipped bits": true}
	for name, behave := range snmptest.Hostile() {
		bubble(t, name, func(t *testing.T) {
			_, cfg := inMemory(t, 4, behave)
			cfg.Timeout, cfg.Retries = 40*time.Millisecond, 1
			s := open(t, cfg)
			refresh := counters.NewRefresh(counters.RefreshConfig{})
			est := counters.NewEstimator(counters.EstimatorConfig{})
			for n := range 12 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				began := time.Now()
				list, err := s.Read(ctx, nil)
				cancel()
				if took := time.Since(began); took > 200*time.Millisecond {
					t.Errorf("a reading of 200 ms took %v", took)
				}
				if err != nil {
					if dirty(err.Error()) {
						t.Errorf("%.300q", err)
					}
					continue
				}
				for _, smp := range list {
					if smp.Err != nil && dirty(smp.Err.Error()) || dirty(smp.Degraded) {
						t.Errorf("%.300q, %.300q", smp.Err, smp.Degraded)
					}
				}
				refresh.Observe(list)
				e := est.Update(list[0])
				if low, high := e.LoadRange(); e.State == counters.OK && !lies[name] && (low > load+load/20 || high < load-load/20) {
					t.Errorf("reading %d: load in [%d, %d], want %d; %+v", n, low, high, load, e)
				}
				time.Sleep(20 * time.Millisecond)
			}
			if details, _ := s.Details(); dirty(details[0]) {
				t.Errorf("description %.300q", details[0])
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if lags, err := s.Members(ctx); err != nil && dirty(err.Error()) || len(lags) > 0 {
				t.Errorf("%d groups, %.300q", len(lags), err)
			}
		})
	}
	runtime.GC()
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > 128<<20 {
		t.Errorf("%d MiB in use", m.HeapAlloc>>20)
	}
}

// An agent that answers as it should is read, so that the others' failures mean something.
func TestAgentOfThePackage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cfg := inMemory(t, 3, nil)
		for _, smp := range mustRead(t, open(t, cfg)) {
			if smp.Octets != 1000*smp.Packets || smp.Packets < 3_600_000 || smp.Speed != 1e9 || !smp.Up || smp.Bits != 64 {
				t.Errorf("%+v", smp)
			}
		}
		if a.Requests() == 0 {
			t.Error("no request")
		}
	})
}
