package gnmi

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
)

// Over ten seconds each sample that comes through OpenConfig's server is the truth, each rate is
// exact, and a port that falls idle is seen to be.
func TestAgainstOpenConfigServer(t *testing.T) {
	synctest.Test(t, testAgainstOpenConfigServer)
}

func testAgainstOpenConfigServer(t *testing.T) {
	const interval = 100 * time.Millisecond
	ca := newAuthority(t)
	cert, key := ca.issue("127.0.0.1", time.Now().Add(time.Hour))
	g, srv := gnmitest.NewGateway(t, "")
	s := open(t, Config{
		Config:   gnmi.Config{Device: "leaf1", Dial: serve(t, srv, ca.server(cert, key, true)), Target: "leaf1", TLS: gnmi.TLS{CAFile: ca.file, CertFile: cert, KeyFile: key}},
		Interval: interval, Ports: []string{"busy", "bursty", "absent"},
	})

	type state struct{ octets, packets uint64 }
	var mu sync.Mutex
	truth := map[string]map[int64]state{"busy": {}, "bursty": {}}
	// The bursty port sends 1.25 MB an interval (100 Mbit/s) in every other second.
	const frames = 1000
	active := func(k int) bool { return k/10%2 == 0 }
	const samples = 100
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var busy, bursty state
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for k := range samples {
			at := start.Add(time.Duration(k) * interval).UnixNano()
			if k > 0 {
				busy.octets, busy.packets = busy.octets+frames*1250, busy.packets+frames
				if active(k) {
					bursty.octets, bursty.packets = bursty.octets+frames*1250, bursty.packets+frames
				}
			}
			mu.Lock()
			truth["busy"][at], truth["bursty"][at] = busy, bursty
			mu.Unlock()
			for port, st := range map[string]state{"busy": busy, "bursty": bursty} {
				n := leafNote(at, port, outOctets, st.octets, outUnicast, st.packets)
				if k == 0 {
					n = leafNote(at, port, operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, st.octets, outUnicast, st.packets, outMulticast, 0, outBroadcast, 0)
				}
				g.Update(n)
			}
			<-tick.C
		}
	}()

	est := map[string]*counters.Estimator{}
	for port := range truth {
		est[port] = counters.NewEstimator(counters.EstimatorConfig{})
	}
	load := uint64(frames * (1250 + 20) * 8 * int(time.Second/interval))
	seen := map[string]map[uint64]int{"busy": {}, "bursty": {}}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-ticker.C:
		}
		for _, sample := range read(t, s) {
			if sample.Port == "absent" {
				if !errors.Is(sample.Err, gnmi.ErrMissing) {
					t.Errorf("absent: %v", sample.Err)
				}
				continue
			}
			if sample.Err != nil {
				t.Errorf("%s: %v", sample.Port, sample.Err)
				continue
			}
			mu.Lock()
			want, ok := truth[sample.Port][sample.At.UnixNano()]
			mu.Unlock()
			if !ok || sample.Octets != want.octets || sample.Packets != want.packets {
				t.Errorf("%s at %v: %d octets in %d packets, were %+v (sampled then: %t)", sample.Port, sample.At.Sub(start), sample.Octets, sample.Packets, want, ok)
			}
			if age := time.Since(sample.At); running && age > 4*interval {
				t.Errorf("%s: a sample of %v ago", sample.Port, age)
			}
			if e := est[sample.Port].Update(sample); e.State == counters.OK {
				seen[sample.Port][e.Load()]++
			} else if e.State != counters.First && e.State != counters.NoProgress {
				t.Errorf("%s: %v: %s", sample.Port, e.State, e.Reason)
			}
		}
	}
	if len(seen["busy"]) != 1 || seen["busy"][load] < samples*9/10 {
		t.Errorf("busy: loads %v, want %d and nothing else", seen["busy"], load)
	}
	if n := seen["bursty"]; n[load] < samples/4 || n[0] < samples/4 {
		t.Errorf("bursty: loads %v, want %d and 0 about equally often", n, load)
	}
	info := s.Info()
	if info.Repeats || info.Request != "sample, PROTO" || info.Invalid != 0 || info.OutOfOrder != 0 {
		t.Errorf("info %+v", info)
	}
}

func TestOpenConfigServerDropsTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, srv := gnmitest.NewGateway(t, "openconfig")
		s := open(t, Config{Config: gnmi.Config{Device: "leaf1", Dial: serve(t, srv), Target: "leaf1", MaxBackoff: 20 * time.Millisecond}, Ports: []string{"e1"}})
		g.Update(portNote(time.Now(), "e1", 1000, 1))
		until(t, s, "a first sample comes", octets(1000))
		g.Cache.Remove("leaf1")
		until(t, s, "the target's absence shows", func(got []counters.Sample, err error) bool { return err != nil })
		g.Cache.Add("leaf1")
		g.Cache.Connect("leaf1")
		g.Cache.Sync("leaf1")
		g.Update(portNote(time.Now(), "e1", 2000, 2))
		until(t, s, "it is back", octets(2000))
	})
}

// A gateway may keep its paths under the origin openconfig, and then knows nothing of those
// without one.
func TestOpenConfigServerManyPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, srv := gnmitest.NewGateway(t, "openconfig")
		var ports []string
		for i := range 512 {
			ports = append(ports, fmt.Sprintf("Ethernet%d", i))
			g.Update(portNote(time.Now(), ports[i], 1000*i, i))
		}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Target: "leaf1"}, Ports: ports, Interval: 5 * time.Second})
		for i, sample := range read(t, s) {
			if sample.Err != nil || sample.Octets != uint64(1000*i) || sample.Speed != 10e9 {
				t.Fatalf("%+v", sample)
			}
		}
		if got := s.Info().Request; got != "sample, PROTO, all interfaces, origin openconfig" {
			t.Errorf("asked for %q", got)
		}
	})
}
