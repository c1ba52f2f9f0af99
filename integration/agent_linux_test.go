package integration

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// expected is compare-and-replace as the draft words it, apart from the rules
// under test: the TCI a frame leaves with.
func expected(b *bed, tci quantize.TCI, load uint64) quantize.TCI {
	t, s := uint8(tci>>13), uint8(tci>>7&31)
	uec := b.fleet.Profile.Layout == quantize.UEC
	if t > 1 || uec && tci&1 == 1 {
		return tci
	}
	lm := map[uint8]uint16{0: lmABW, 1: lmABWC}[t]
	own := b.want(quantize.Signal(t), load)
	if s <= own {
		return tci
	}
	if uec {
		return tci&0xf000 | quantize.TCI(own)<<7 | quantize.TCI(lm<<1)
	}
	return tci&0xf000 | quantize.TCI(own)<<7 | quantize.TCI(lm)
}

// midLoads are loads whose buckets of both signals have no edge near: a
// reading's noise does not change S.
func midLoads(t testing.TB, b *bed, n int) []uint64 {
	t.Helper()
	const margin = capacity / 150
	var out []uint64
	for load := uint64(capacity / 20); load < capacity*19/20; load += capacity / 200 {
		mid := true
		for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC} {
			mid = mid && b.want(sig, load-margin) == b.want(sig, load+margin)
		}
		if mid {
			out = append(out, load)
		}
	}
	if len(out) < n {
		t.Fatalf("only %d loads stand clear of bucket edges, want %d", len(out), n)
	}
	picked := make([]uint64, 0, n)
	for i := range n {
		picked = append(picked, out[i*(len(out)-1)/(n-1)])
	}
	return picked
}

func TestKnownLoadGivesExactSAndLM(t *testing.T) {
	t.Parallel()
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		t.Run(layout.String(), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, layout)
			a := b.start(t)
			p := b.probes(t)
			for _, load := range midLoads(t, b, 3) {
				b.setLoad(t, load)
				a.eventually(func() error { return p.expectAll(load) })
			}
		})
	}
}

// expectAll sends ten probes of each signal and compares what arrives with
// what a load should make of them.
func (p *probes) expectAll(load uint64) error {
	for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC} {
		for range 10 {
			if _, err := p.tx.Send(sig); err != nil {
				return err
			}
			f := p.next()
			lm := map[quantize.Signal]uint16{quantize.MinABW: lmABW, quantize.MinABWC: lmABWC}[sig]
			if p.b.want(sig, load) == sig.InitialBucket() {
				lm = p.b.fleet.Profile.Layout.LMNone() // the port has no value to write
			}
			if !f.Tagged || f.Tag.T != sig || f.Tag.S != uint32(p.b.want(sig, load)) || f.Tag.LM != lm {
				return fmt.Errorf("load %d bit/s, %s: the receiver reads %+v, want S=%d LM=%d", load, sig, f.Tag, p.b.want(sig, load), lm)
			}
		}
	}
	return nil
}

func TestOnlyWhatIsWorseAndOursChanges(t *testing.T) {
	t.Parallel()
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		t.Run(layout.String(), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, layout)
			const load = roomy
			b.setLoad(t, load)
			a := b.start(t)
			a.settle()
			p := b.probes(t)

			vlan := func(tpids ...uint16) (out []probe.VLAN) {
				for i, tpid := range tpids {
					out = append(out, probe.VLAN{TPID: tpid, TCI: 0x2000 | uint16(100+i)})
				}
				return out
			}
			stacks := [][]probe.VLAN{nil, vlan(0x8100), vlan(0x88a8), vlan(0x88a8, 0x8100), vlan(0x8100, 0x8100), vlan(0x88a8, 0x88a8, 0x8100), vlan(0x88a8, 0x8100, 0x88a8, 0x8100)}
			var seq uint64
			once := func(name string, f probe.Frame, data []byte) error {
				f.Payload.Seq = seq
				seq++
				sent, got := p.exchange(f)
				want := sent
				if data != nil {
					// The expected tag, everything else as it was sent.
					pos, err := quantize.FindTag(sent, b.fleet.Profile.TPIDs())
					if err != nil {
						t.Fatal(err)
					}
					want = append(append(append([]byte(nil), sent[:pos.Offset+2]...), data...), sent[pos.EtherType:]...)
				}
				if !bytes.Equal(got.Bytes, want) {
					return fmt.Errorf("%s: arrived as\n%x, want\n%x", name, got.Bytes, want)
				}
				return nil
			}
			check := func(name string, f probe.Frame, data []byte) {
				t.Helper()
				if err := once(name, f, data); err != nil {
					t.Log(err)
					a.eventually(func() error { return once(name, f, data) })
				}
			}
			for depth, stack := range stacks {
				for tsig := range 8 {
					for _, low := range []quantize.TCI{0x000, 0x07f, 0x380, 0x7fe, 0x800, 0xffe, 0xfff} {
						for r := range 2 {
							tci := quantize.TCI(tsig)<<13 | quantize.TCI(r)<<12 | low
							tag, err := quantize.DecodeTag([]byte{0x99, 0x00, byte(tci >> 8), byte(tci)}, layout, false)
							if err != nil {
								t.Fatal(err)
							}
							want := expected(b, tci, load)
							check(fmt.Sprintf("TCI 0x%04x in stack %d", tci, depth), probe.Frame{VLANs: stack, Tagged: true, Tag: tag}, []byte{byte(want >> 8), byte(want)})
						}
					}
				}
				check(fmt.Sprintf("untagged in stack %d", depth), probe.Frame{VLANs: stack}, nil)
			}
		})
	}
}

// isStale reports whether a tag is the data plane's own fallback.
func isStale(b *bed, f *probe.Received) bool {
	return f.Tagged && f.Tag.S == 0 && f.Tag.LM == b.fleet.Profile.Layout.LMStale()
}

// streamBPS is what a stream takes of the cable.
const streamBPS = 1000 * 8 * (probe.MinSize + fabric.L1Overhead)

// stream sends probes of both signals every millisecond until the test ends.
func (p *probes) stream() {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.tx.Run(ctx, time.Millisecond, 0) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
	})
}

// ofPort reports whether a frame has a value of the port, by its locators: what S is beside them may be
// another load for a window or two, which a machine that stalls makes of its own.
func (p *probes) ofPort(f *probe.Received) bool {
	return f.Tagged && f.Tag.LM == map[quantize.Signal]uint16{quantize.MinABW: lmABW, quantize.MinABWC: lmABWC}[f.Tag.T]
}

// ofIdlePort reports whether a frame is of a port without traffic for a window, which writes nothing.
func (p *probes) ofIdlePort(f *probe.Received) bool {
	return f.Tagged && f.Tag.S == 31 && f.Tag.LM == p.b.fleet.Profile.Layout.LMNone()
}

// allowed wants of a frame a value of the port, the fallback, or that the port is idle.
func (p *probes) allowed(when string, f *probe.Received) {
	p.t.Helper()
	if !p.ofPort(f) && !isStale(p.b, f) && !p.ofIdlePort(f) {
		p.t.Fatalf("%s: %+v", when, f.Tag)
	}
}

// awaitRight waits for a frame with what a load makes of it; those before are allowed ones.
func (p *probes) awaitRight(when string, load uint64) (f probe.Received) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if f = p.next(); p.ofPort(&f) && f.Tag.S == uint32(p.b.want(f.Tag.T, load)) {
			return f
		}
		p.allowed(when, &f)
		if time.Now().After(deadline) {
			p.t.Fatalf("%s the value never becomes right: %+v", when, f.Tag)
		}
	}
}

func TestKilledAgentFallsBackAndRestartTakesOver(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	const load = roomy
	b.setLoad(t, load)
	a := b.start(t)
	p := b.probes(t)
	p.stream()
	a.settle()
	for now := time.Now(); p.next().At.Before(now); { // what came before
	}
	p.awaitRight("before", load)
	lease := time.Duration(a.await("a lease", func(s *api.Status) bool { return s.LeaseNS > 0 }).LeaseNS)

	_ = a.signal(syscall.SIGKILL) // its exit status does not matter
	killed := time.Now()
	var f probe.Received
	last := map[quantize.Signal]uint32{} // what it left behind
	for f = p.next(); !isStale(b, &f); f = p.next() {
		p.allowed("after the kill", &f)
		// A frame that was under way when it was killed may have an older value.
		if s, seen := last[f.Tag.T]; seen && s != f.Tag.S {
			t.Fatalf("after the kill: %+v, and S=%d before", f.Tag, s)
		}
		if f.Payload.Sent.After(killed) {
			last[f.Tag.T] = f.Tag.S
		}
		// By when it was sent: on its way it may have waited for a processor.
		if late := f.Payload.Sent.Sub(killed); late > lease+100*time.Millisecond {
			t.Fatalf("%v after the kill the rules still advertise %+v; the lease is %v", late, f.Tag, lease)
		}
	}
	t.Logf("fallback %v after SIGKILL; lease %v", f.At.Sub(killed).Round(time.Millisecond), lease)
	b.start(t).live()
	p.awaitRight("after the restart", load)
}

// TestLongQuickRestartShowsNoFallback: an agent that is killed and started again, at instants that are spread
// over the schedule's period, writes before the lease of the one before ends: every frame has a value.
func TestLongQuickRestartShowsNoFallback(t *testing.T) {
	t.Parallel()
	const load, every, restarts = roomy, time.Second, 3
	b := newBed(t, quantize.Draft00)
	b.pace(every)
	b.setLoad(t, load)
	a := b.start(t, "--no-self-test")
	p := b.probes(t)
	p.stream()
	lease := time.Duration(a.await("a lease", func(s *api.Status) bool { return s.LeaseNS > 0 && first(s).State == api.StateLive }).LeaseNS)
	f := p.awaitRight("before", load)
	inTime, spoiled, tries := 0, 0, 0
	for begin := time.Now(); inTime < restarts; tries++ {
		if time.Since(begin) > 2*patience { // a busy machine starts it too late now and then
			t.Fatalf("only %d of %d restarts were live within the lease of %v", inTime, tries, lease)
		}
		for at := time.Now().Add(time.Duration(tries%restarts) * every / restarts); f.At.Before(at); {
			f = p.next()
		}
		killed := time.Now()
		_ = a.signal(syscall.SIGKILL)
		a = b.start(t, "--no-self-test")
		a.live()
		quick := time.Since(killed) < lease-every // the lease was renewed an interval before, at worst
		fell, silent := false, false
		for until := time.Now(); f.At.Before(until); f = p.next() {
			p.allowed("during the restart", &f)
			fell, silent = fell || isStale(b, &f), silent || p.ofIdlePort(&f)
		}
		if quick {
			inTime++
			if fell {
				t.Errorf("restart %d: the fallback, and the agent was live again within the lease", tries)
			}
		}
		if silent {
			spoiled++
		}
		f = p.awaitRight("after the restart", load)
	}
	t.Logf("%d of %d restarts were live within the lease, during %d the port was idle", inTime, tries, spoiled)
	if spoiled > 1+tries/5 { // few, unless rules were missing
		t.Errorf("during %d of %d restarts frames left as they were sent", spoiled, tries)
	}
}

// TestSignalsEndTheAgentCleanly: what a service manager sends and what a closed terminal does leave the
// fallback, and Ctrl-C leaves nothing.
func TestSignalsEndTheAgentCleanly(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.run(t, "nft", "add", "table", "netdev", "operator")
	before := b.ruleset(t)
	b.setLoad(t, roomy)
	p := b.probes(t)

	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		_, slave := newPTY(t) // which ends with its session
		defer slave.Close()
		a := b.inSession(t, slave)
		a.live()
		if err := a.signal(sig); err != nil {
			t.Errorf("%v: the agent exits with %v", sig, err)
		}
		if _, err := p.tx.Send(quantize.MinABW); err != nil {
			t.Fatal(err)
		}
		if f := p.next(); !isStale(b, &f) {
			t.Errorf("after %v the rules still write %+v", sig, f.Tag)
		}
	}

	a := b.start(t)
	a.live()
	if err := a.signal(syscall.SIGINT); err != nil {
		t.Errorf("Ctrl-C: the agent exits with %v", err)
	}
	if after := b.ruleset(t); after != before {
		t.Errorf("Ctrl-C leaves\n%s\nbehind; before it was\n%s", after, before)
	}
	if _, err := p.tx.Send(quantize.MinABW); err != nil {
		t.Fatal(err)
	}
	if f := p.next(); f.Tag.LM != b.fleet.Profile.Layout.LMNone() {
		t.Errorf("after Ctrl-C a rule still writes: %+v", f.Tag)
	}
}
