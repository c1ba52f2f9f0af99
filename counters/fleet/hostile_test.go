package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
)

// Beside agents that flood, lie, are late or silent, the healthy ones are read at every
// slot.
func TestHostileAgentsDelayNoOther(t *testing.T) {
	const (
		interval = time.Second
		enough   = 4 // readings
	)
	var cfg Config
	cfg.Interval = interval
	add := func(name string, do snmptest.Behaviour) {
		a := snmptest.Start(t, 4, do)
		cfg.Devices = append(cfg.Devices, Device{Name: name, Open: func(context.Context) (counters.Source, error) {
			return snmp.New(snmp.Config{
				Device: name, Address: "127.0.0.1", Port: a.Port, Community: snmptest.Community, Ports: a.Ports, Within: interval,
			})
		}})
	}
	healthy := map[string]int{}
	for name, do := range snmptest.Hostile() {
		add(name, do)
		good := fmt.Sprint("healthy ", len(healthy))
		add(good, nil)
		healthy[good] = 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	left := len(healthy)
	cfg.Sink = func(r *Reading) {
		mu.Lock()
		defer mu.Unlock()
		n, ours := healthy[r.Device]
		if !ours {
			return
		}
		if r.Err != nil {
			t.Errorf("%v", r.Err)
		}
		for _, s := range r.Samples {
			if s.Err != nil {
				t.Errorf("%v", s.Err)
			}
		}
		if healthy[r.Device] = n + 1; n+1 == enough {
			if left--; left == 0 {
				cancel()
			}
		}
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if left > 0 {
		t.Errorf("%d healthy devices have not been read %d times in a minute", left, enough)
	}
	for i, d := range cfg.Devices {
		if _, ours := healthy[d.Name]; !ours {
			continue
		}
		// The machine may be busy, but the others are no reason for a slot to be missed.
		if st := f.Device(i); st.Failed > 0 || st.Missed > 1 || st.Late.Quantile(0.5) > interval/4 {
			t.Errorf("%s: %d failed, %d missed, late %v in the median", d.Name, st.Failed, st.Missed, st.Late.Quantile(0.5))
		}
	}
}
