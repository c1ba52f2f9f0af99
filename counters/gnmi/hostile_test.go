package gnmi

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// heap is how many bytes of memory are in use.
func heap() uint64 {
	m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(m)
	return m[0].Value.Uint64()
}

// hostile is a subtest for each hostile target: on virtual time, but for a flood, which comes over
// the loopback interface, as it is bounded by the time that it takes.
func hostile(t *testing.T, f func(t *testing.T, target gnmitest.Target, cfg Config)) {
	for _, target := range gnmitest.Hostile() {
		if target.Flood {
			t.Run(target.Name, func(t *testing.T) { f(t, target, Config{Config: gnmi.Config{Address: target.Serve(t, "e1", "e2")}}) })
			continue
		}
		bubble(t, target.Name, func(t *testing.T) {
			l := memnet.Listen(address)
			target.ServeOn(t, l, "e1", "e2")
			f(t, target, Config{Config: gnmi.Config{Address: address, Dial: l.DialContext}})
		})
	}
}

// Whatever a target does: each reading ends, nothing grows, and what it says is fit to
// print. One that sends its ports' counters beside it is still read.
func TestLongHostileTargets(t *testing.T) {
	hostile(t, func(t *testing.T, target gnmitest.Target, cfg Config) {
		cfg.Ports, cfg.Timeout, cfg.Interval = []string{"e1", "e2"}, 300*time.Millisecond, 50*time.Millisecond
		s := open(t, cfg)
		runtime.GC()
		before, most := heap(), uint64(0)
		printable := func(what, text string) {
			if len(text) > 1000 || untrusted.Text(text, len(text)+1) != text {
				t.Errorf("%s is not fit to print: %d bytes, %.200q", what, len(text), text)
			}
		}
		seen := false
		// No deadline of the caller's: a reading has its own.
		for begin := time.Now(); time.Since(begin) < 100*time.Millisecond || target.Alive && !seen && time.Since(begin) < patience; {
			samples, err := s.Read(context.Background(), nil)
			if err != nil {
				printable("the error", err.Error())
			}
			for i := range samples {
				if err := samples[i].Err; err != nil {
					printable("a port's error", err.Error())
				} else if seen = true; !target.Alive {
					t.Errorf("a sample of %s", samples[i].Port)
				}
			}
			most = max(most, heap())
			select {
			case <-s.wake:
			case <-time.After(5 * time.Millisecond):
			}
		}
		if target.Alive && !seen {
			t.Error("its ports were never read")
		}
		info := s.Info()
		for _, text := range []string{info.LastError, info.LastInvalid, info.Version, info.Request} {
			printable("information", text)
		}
		if grown := int64(most) - int64(before); grown > 100<<20 {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
		t.Logf("%d MiB, %d invalid; %s", int64(most-before)>>20, info.Invalid, info.LastError)
	})
}
