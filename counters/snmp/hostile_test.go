package snmp

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
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
	var all sync.WaitGroup
	for name, behave := range snmptest.Hostile() {
		a := snmptest.Start(t, 4, behave)
		s := open(t, Config{
			Device: "leaf1", Address: "127.0.0.1", Port: a.Port, Community: snmptest.Community, Ports: a.Ports,
			Timeout: 40 * time.Millisecond, Retries: 1,
		})
		all.Go(func() {
			refresh := counters.NewRefresh(counters.RefreshConfig{})
			est := counters.NewEstimator(counters.EstimatorConfig{})
			for n := range 12 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				began := time.Now()
				list, err := s.Read(ctx, nil)
				cancel()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s: a reading of 200 ms took %v", name, took)
				}
				if err != nil {
					if dirty(err.Error()) {
						t.Errorf("%s: %.300q", name, err)
					}
					continue
				}
				for _, smp := range list {
					if smp.Err != nil && dirty(smp.Err.Error()) || dirty(smp.Degraded) {
						t.Errorf("%s: %.300q, %.300q", name, smp.Err, smp.Degraded)
					}
				}
				refresh.Observe(list)
				e := est.Update(list[0])
				if low, high := e.LoadRange(); e.State == counters.OK && !lies[name] && (low > load+load/20 || high < load-load/20) {
					t.Errorf("%s: reading %d: load in [%d, %d], want %d; %+v", name, n, low, high, load, e)
				}
				// Time is the subject: the agent counts by the clock, and readings that follow each
				// other at once differ by what one frame is.
				time.Sleep(20 * time.Millisecond)
			}
			if details, _ := s.Details(); dirty(details[0]) {
				t.Errorf("%s: description %.300q", name, details[0])
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if lags, err := s.Members(ctx); err != nil && dirty(err.Error()) || len(lags) > 0 {
				t.Errorf("%s: %d groups, %.300q", name, len(lags), err)
			}
		})
	}
	all.Wait()
	runtime.GC()
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > 128<<20 {
		t.Errorf("%d MiB in use", m.HeapAlloc>>20)
	}
}

// An agent that answers as it should is read, so that the others' failures mean something.
func TestAgentOfThePackage(t *testing.T) {
	a := snmptest.Start(t, 3, nil)
	s := open(t, Config{Address: "127.0.0.1", Port: a.Port, Community: snmptest.Community, Ports: a.Ports})
	for _, smp := range mustRead(t, s) {
		if smp.Octets != 1000*smp.Packets || smp.Packets < 3_600_000 || smp.Speed != 1e9 || !smp.Up || smp.Bits != 64 {
			t.Errorf("%+v", smp)
		}
	}
	if a.Requests() == 0 {
		t.Error("no request")
	}
}
