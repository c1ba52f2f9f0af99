package nxos

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
)

// idle is a source whose ports carry nothing.
type idle struct{}

func (idle) Close() error { return nil }
func (idle) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	for _, port := range []string{eth1, eth2} {
		dst = append(dst, counters.Sample{Port: port, Speed: 10e9, Up: true, At: time.Now(), Bits: 64, Overhead: 20, Live: true})
	}
	return dst, nil
}

// TestAgentReasserts has an agent run when hardware loses the TPID, which the configuration keeps: the port has it
// again within little more than a minute, and the agent counts one repair. An agent that ends without a word leaves
// the setup; another driver takes it away.
func TestAgentReasserts(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		before := b.Running()
		type change struct {
			at   time.Time
			tpid uint16
		}
		var mu sync.Mutex
		var tpids []change // of the port, each time that it changes
		b.Changed = func(list []nxostest.Port) {
			mu.Lock()
			defer mu.Unlock()
			if now := list[1].TPID; len(tpids) == 0 || tpids[len(tpids)-1].tpid != now {
				tpids = append(tpids, change{time.Now(), now})
			}
		}
		logger := logrus.New()
		logger.SetOutput(io.Discard)
		d := agent.NewDaemon(agent.Config{
			File: filepath.Join(t.TempDir(), "tor1.yaml"), Wait: true, Log: logrus.NewEntry(logger),
			OpenSource: func(context.Context, *inventory.Fleet, *inventory.Device) (counters.Source, error) {
				return idle{}, nil
			},
			OpenDriver: func(*inventory.Device) (vendors.Driver, error) { return b.open(t, true), nil },
		})
		if err := errors.Join(d.Open(t.Context()), d.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- d.Run(ctx) }()
		if err := d.Configure(t.Context(), []byte(`format: csig.fleet/v1
profile: {name: nxos, tpid: 0x9100, interval: 10s, signals: {abw: {buckets: log-10G, initial_s: 30}}}
vlan_tpids: [0x8100]
devices:
  - name: tor1
    platform: nxos
    local: true
    ports:
      - {name: Ethernet1/1, speed: 10G, action: passthrough}
      - {name: Ethernet1/2, speed: 10G, action: passthrough}
`), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		b.Flap(eth2)
		flapped := time.Now()
		time.Sleep(5 * time.Minute)
		mu.Lock()
		seen := slices.Clone(tpids)
		mu.Unlock()
		if n := len(seen); n < 3 || seen[n-3].tpid != 0x9100 || seen[n-2].tpid != 0x8100 || seen[n-1].tpid != 0x9100 || seen[n-1].at.Sub(flapped) > 3*time.Minute {
			t.Errorf("since %v: %+v", flapped, seen)
		}
		if s := d.Status(); s.Cycle.Repairs != 1 {
			t.Errorf("%d repairs", s.Cycle.Repairs)
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if !strings.Contains(b.Running(), "ethertype 0x9100") {
			t.Error(b.Running())
		}
		if err := errors.Join(b.open(t, true).Remove(t.Context()), d.Close()); err != nil || b.Running() != before || b.Saves() != 0 {
			t.Errorf("%v: it leaves\n%s", err, b.Running())
		}
	})
}
