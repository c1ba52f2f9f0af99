package fleet

import (
	"context"
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/gnmi"
	client "github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
	"github.com/csig-agent/csig/protocol/memnet"
)

// Every hostile gNMI target there is, all at once: the healthy devices beside them are read,
// and memory stays small. Floods take a processor's time, and are read over sockets alone
// (TestLongHostileTargets of counters/gnmi).
func TestLongHostileTargetsDelayNoOther(t *testing.T) {
	synctest.Test(t, testHostileTargetsDelayNoOther)
}

func testHostileTargetsDelayNoOther(t *testing.T) {
	var cfg Config
	ports := []string{"e1", "e2"}
	add := func(target gnmitest.Target, name string) {
		l := memnet.Listen("192.0.2.1:9339")
		target.ServeOn(t, l, ports...)
		cfg.Devices = append(cfg.Devices, Device{Name: name, Open: func(context.Context) (counters.Source, error) {
			return gnmi.New(gnmi.Config{
				Config: client.Config{Device: name, Address: l.Addr().String(), Dial: l.DialContext, Plaintext: true, Timeout: time.Second, MaxBackoff: time.Second},
				Ports:  ports, Interval: time.Second,
			})
		}})
	}
	const healthy = 5
	for i := range healthy {
		add(gnmitest.Healthy(), fmt.Sprintf("healthy%d", i))
	}
	for _, target := range gnmitest.Hostile() {
		if !target.Flood {
			add(target, target.Name)
		}
	}
	const enough = 2 // readings
	cfg.Interval, cfg.MaxBackoff, cfg.Concurrency, cfg.Patience = time.Second, 2*time.Second, 8, 20*time.Millisecond
	good := make([]int, len(cfg.Devices))
	done := make(chan struct{})
	readings := make(chan Reading)
	cfg.Sink = func(r *Reading) {
		select {
		case readings <- Reading{Index: r.Index, Err: r.Err, Samples: append([]counters.Sample(nil), r.Samples...)}:
		case <-done:
		}
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- f.Run(ctx) }()
	most := uint64(0)
	for left, deadline := healthy, time.After(time.Minute); left > 0; {
		select {
		case r := <-readings:
			if r.Err != nil && strings.Contains(r.Err.Error(), "\x1b") {
				t.Errorf("%s: %q", cfg.Devices[r.Index].Name, r.Err)
			}
			if r.Err == nil && r.Samples[0].Err == nil && r.Samples[1].Err == nil {
				if good[r.Index]++; r.Index < healthy && good[r.Index] == enough {
					left--
				}
			}
		case <-deadline:
			t.Fatalf("good readings after a minute: %v", good[:healthy])
		}
		m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(m)
		most = max(most, m[0].Value.Uint64())
	}
	close(done)
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	// The targets themselves are in it.
	if most > 300<<20 {
		t.Errorf("%d MiB of memory in use", most>>20)
	}
	t.Logf("%d MiB at most; good readings of the healthy ones: %v", most>>20, good[:healthy])
}
