package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/protocol/memnet"
)

// Beside agents that flood, lie, are late or silent, the healthy ones are read at every
// slot.
func TestHostileAgentsDelayNoOther(t *testing.T) {
	synctest.Test(t, testHostileAgentsDelayNoOther)
}

func testHostileAgentsDelayNoOther(t *testing.T) {
	const (
		interval = time.Second
		enough   = 4 // readings
	)
	var cfg Config
	cfg.Interval = interval
	add := func(name string, do snmptest.Behaviour) {
		network := &memnet.Packets{Path: func(_, _ netip.AddrPort, _ []byte) (time.Duration, bool) { return time.Millisecond, false }}
		conn, err := network.Listen("192.0.2.1:161")
		if err != nil {
			t.Fatal(err)
		}
		a := snmptest.Serve(t, conn, 4, do)
		cfg.Devices = append(cfg.Devices, Device{Name: name, Open: func(context.Context) (counters.Source, error) {
			return snmp.New(snmp.Config{
				Device: name, Address: "192.0.2.1", Dial: network.Dial, Community: snmptest.Community, Ports: a.Ports, Within: interval,
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
		if st := f.Device(i); st.Failed > 0 || st.Missed > 0 || st.Late.Max() > interval/10 {
			t.Errorf("%s: %d failed, %d missed, late by up to %v", d.Name, st.Failed, st.Missed, st.Late.Max())
		}
	}
}
