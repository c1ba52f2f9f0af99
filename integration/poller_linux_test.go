package integration

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp"
	"github.com/csig-agent/csig/counters/trace"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
)

// traceFile is how docs/counters.trace was made: go test -run TestLongOnTime -record FILE.
var traceFile = flag.String("record", "", "record what TestLongOnTime reads as v2c into this file")

// poller is the whole chain from an agent to buckets.
type poller struct {
	name   string
	source counters.Source
	pipe   *counters.Pipeline
	tables []*quantize.Buckets
	begin  time.Time // not before then
	every  time.Duration
	got    []polled
	fails  []error
}

// polled is what one reading led to on one port.
type polled struct {
	port    string
	read    time.Time
	est     counters.Estimate
	status  counters.RefreshStatus
	buckets []counters.BucketRange // beside the tables; while the estimate is valid
}

func newPoller(t *testing.T, name string, cfg snmp.Config) *poller {
	t.Helper()
	var src counters.Source
	src, err := snmp.New(cfg)
	if err == nil && name == "v2c" && *traceFile != "" {
		src, err = recorded(t, src, cfg.Ports)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &poller{name: name, source: src, every: time.Second}
	t.Cleanup(func() { p.source.Close() })
	for sig, preset := range map[quantize.Signal]string{quantize.MinABW: "log-100M", quantize.MinABWC: "log"} {
		table, err := quantize.Preset(sig, preset)
		if err != nil {
			t.Fatal(err)
		}
		p.tables = append(p.tables, &table)
	}
	how := counters.PipelineConfig{Interval: time.Second, Least: time.Second / 2, Tables: p.tables} // as an agent
	for _, port := range cfg.Ports {
		how.Ports = append(how.Ports, counters.PipelinePort{Name: port, Speed: pollSpeed})
	}
	if p.pipe, err = counters.NewPipeline(how); err != nil {
		t.Fatal(err)
	}
	return p
}

// recorded is a source whose readings go into traceFile as well.
func recorded(t *testing.T, src counters.Source, ports []string) (counters.Source, error) {
	file, err := os.Create(*traceFile)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { // after the source has been closed
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return trace.NewRecorder(src, file, trace.RecorderConfig{Header: trace.Header{
		Device: "s1", Source: "snmp", IntervalNS: time.Second.Nanoseconds(), Ports: ports,
		Note: "net-snmp and its cache of 3 s, read each second; steady, stepped and idle load",
	}})
}

// poll reads each second, or as set, and between as an agent does, until ctx ends.
func (p *poller) poll(ctx context.Context, in *fabric.Node) {
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	var samples []counters.Sample
	due := time.NewTimer(0)
	defer due.Stop()
	for next, look := p.begin, (time.Time{}); ; {
		if look.IsZero() {
			due.Reset(time.Until(next))
		} else {
			due.Reset(time.Until(look))
		}
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		if look.IsZero() {
			next = next.Add(p.every)
		}
		err := in.Do(func() (err error) { // where the source opens its socket
			samples, err = p.source.Read(ctx, samples[:0])
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.fails = append(p.fails, err)
		default:
			p.take(samples)
		}
		look = p.pipe.Look(next)
	}
}

func (p *poller) take(samples []counters.Sample) {
	p.pipe.Observe(samples)
	for i := range samples {
		s := &samples[i]
		if s.Err != nil {
			p.fails = append(p.fails, s.Err)
		}
		state := p.pipe.Take(i, s)
		out := polled{port: s.Port, read: time.Now(), est: state.Now, status: p.pipe.Refresh()}
		if out.est.State.Valid() {
			for j := range state.Signals {
				out.buckets = append(out.buckets, state.Signals[j].Range)
			}
		}
		p.got = append(p.got, out)
	}
}

// gap is the longest time between two readings: what comes between them is known no better. A busy
// machine makes it longer than it is to be.
func (p *poller) gap() (most time.Duration) {
	most, last := p.every, time.Time{}
	for i := range p.got {
		if at := p.got[i].read; p.got[i].port == steadyPort {
			if !last.IsZero() {
				most = max(most, at.Sub(last))
			}
			last = at
		}
	}
	return most
}

// exact reports whether the load over all windows is right but for what their ends are uncertain by.
func (p *poller) exact(v verdict) bool { return abs(v.overall)*v.length <= 1.2*p.gap().Seconds() }

// verdict is what the readings of one port amount to, from some time on.
type verdict struct {
	windows, doubtful, wrong int
	worst                    float64 // relative error of a window's load
	overall                  float64 // that of all windows together
	length                   float64 // of these, in seconds
}

// judge compares every window that began after from with the kernel.
func (p *poller) judge(t *testing.T, port string, tr *truth, from time.Time) (v verdict) {
	t.Helper()
	var bits, truly float64
	var last time.Time
	for i := range p.got {
		g := &p.got[i]
		if g.port != port || g.est.State != counters.OK || g.est.Start.Before(from) {
			continue
		}
		v.windows++
		want := tr.nearest(g.est.Start, g.est.End, float64(g.est.Load()))
		if want > 0 {
			v.worst = max(v.worst, abs(float64(g.est.Load())/want-1))
		}
		if !g.est.Start.Before(last) { // windows may overlap; the sum takes none twice
			bits += float64(g.est.Bits)
			truly += tr.bits(g.est.End) - tr.bits(g.est.Start)
			v.length += g.est.End.Sub(g.est.Start).Seconds()
			last = g.est.End
		}
		low, high := g.est.LoadRange()
		if float64(high) < 0.99*want || float64(low) > 1.01*want {
			t.Errorf("%s %s: load %d…%d in %v ±%v, but the kernel sent %.0f", p.name, port, low, high, g.est.End.Sub(g.est.Start), g.est.Error, want)
		}
		for j, b := range g.buckets {
			value := max(0, pollSpeed-want)
			if p.tables[j].Signal == quantize.MinABWC {
				value = value / pollSpeed * 1e6
			}
			truth := p.tables[j].Bucket(uint64(value))
			doubtful := b.Doubtful()
			if doubtful {
				v.doubtful++
			}
			if b.S != truth {
				v.wrong++
				t.Logf("%s %s, read at %s: S(%s) = %d (%d…%d) and in truth %d; Δt %v ±%v", p.name, port, g.read.Format("05.000"),
					p.tables[j].Signal, b.S, b.Worst, b.Best, truth, g.est.End.Sub(g.est.Start), g.est.Error)
				if !doubtful {
					t.Errorf("%s %s: S(%s) = %d without a doubt, but the load was %.0f bit/s: %d", p.name, port, p.tables[j].Signal, b.S, want, truth)
				}
			}
		}
	}
	if truly > 0 {
		v.overall = bits/truly - 1
	}
	return v
}

func abs(x float64) float64 { return max(x, -x) }
