package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/quantize"
)

// TestHostTCPAverage has a moving average of a connection's tags, and computes it from the frames.
func TestHostTCPAverage(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.text = strings.ReplaceAll(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.0.0.0/24], ewma: 1/16}")
	b.startSwitches()
	b.start(b.h1)
	b.start(b.h2)
	server := b.serve(b.h2, 5201)
	seen := b.watch(b.h2)
	c := b.dial(b.h1, "10.0.0.2:5201")
	received := func(s *tcp.Status, signal string) *tcp.Reading {
		if len(s.Flows) != 1 {
			return nil
		}
		if i := slices.IndexFunc(s.Flows[0].Received, func(r tcp.Reading) bool { return r.Signal == signal }); i >= 0 {
			return &s.Flows[0].Received[i]
		}
		return nil
	}
	written := int64(0)
	// Packets are few and short: each is one, and what is left is what the load leaves.
	until := func(what string, load uint64, ok func(r *tcp.Reading) bool) {
		t.Helper()
		if err := b.load.SetRate(load); err != nil {
			t.Fatal(err)
		}
		b.await(b.h2, what, func(s *tcp.Status) bool {
			for range 10 {
				if _, err := c.Write(make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
				written += 100
				time.Sleep(time.Millisecond) // they are packets of their own
			}
			r := received(s, "abw")
			return r != nil && r.Mean != nil && ok(r)
		})
	}
	until("the average is of 40 Mbit/s", 60_000_000, func(r *tcp.Reading) bool { return *r.Mean > 34_000_000 && *r.Mean < 45_000_000 })
	until("80 Mbit/s are left, and the average is below", 20_000_000, func(r *tcp.Reading) bool {
		return strings.HasPrefix(r.Range, "71–") && *r.Mean < 68_000_000
	})
	until("the average is there, too", 20_000_000, func(r *tcp.Reading) bool { return *r.Mean > 68_000_000 })

	// All packets have arrived, and the capture has them.
	if !within(patience, func() bool { return server.got.Load() == written }) {
		t.Fatalf("%d of %d bytes arrived", server.got.Load(), written)
	}
	last := b.await(b.h2, "it answers", func(*tcp.Status) bool { return true })
	if !within(patience, func() bool {
		n := uint64(0)
		for _, p := range seen() {
			if p.tag {
				n++
			}
		}
		return n == last.Counts.Stripped
	}) {
		t.Fatalf("the capture has %d packets, and csig removed %d tags", len(seen()), last.Counts.Stripped)
	}
	const layout = quantize.Draft00
	for signal, preset := range map[quantize.Signal]string{quantize.MinABW: "log-100M", quantize.MinABWC: "log"} {
		buckets, err := quantize.Preset(signal, preset)
		if err != nil {
			t.Fatal(err)
		}
		mean, averaged, n := uint64(0), false, 0
		for _, p := range seen() {
			tag := layout.Unpack(quantize.TCI(p.tci))
			if !p.tag || tag.T != signal {
				continue
			}
			if n++; tag.LM == layout.LMNone() || tag.LM == layout.LMStale() {
				averaged = false
				continue
			}
			low, _ := buckets.Range(uint8(tag.S))
			switch {
			case !averaged:
				mean = low
			case low > mean:
				mean += (low - mean) / 16
			default:
				mean -= (mean - low) / 16
			}
			averaged = true
		}
		r := received(last, signal.String())
		if r == nil || r.Mean == nil || *r.Mean != mean || n < 20 {
			t.Errorf("%s, %d tags: the frames have %d, and csig %+v", signal, n, mean, r)
		}
	}
	if out := exits(t, 0, b.h1.node.Command(csig, "host", "status", "--socket", b.socket(b.h1))); !strings.Contains(out, " Mbit/s, mean ") {
		t.Errorf("%s", out)
	}

	// Without ewma in the fleet file there is none, of connections that are open either.
	b.change(b.h1, ", ewma: 1/16", "")
	b.change(b.h2, ", ewma: 1/16", "")
	b.await(b.h2, "the average is gone", func(s *tcp.Status) bool {
		r := received(s, "abw")
		return r != nil && r.Mean == nil
	})
}
