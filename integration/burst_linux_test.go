package integration

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/counters/chart"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vlanrules"
)

// A port has an agent that polls every 100 ms, and behind its rules a data plane that measures
// every millisecond: both see the same traffic. A probe's tag between the two is the agent's.
const (
	burstLen   = 2 * time.Millisecond
	burstFrame = fabric.LoadFrame
	around     = 12 * time.Millisecond // how long probes are sent before and after a burst
	probeGap   = 200 * time.Microsecond
	nativeLM   = 40
)

// seen is one probe of a burst's surroundings, and one frame of them.
type seen struct {
	at               time.Duration // from the burst's beginning, when it passed the port
	software, native uint32        // S
	lm               uint16
}

// TestBurst sends bursts of 2 ms at the line's rate, which an average over 100 ms does not
// show, and an interval of 1 ms does. With -update it draws one, in docs/burst.svg.
func TestBurst(t *testing.T) {
	if !mayLoad(t, "--mixed") {
		return
	}
	b := newBed(t, quantize.Draft00)
	b.setLoad(t, roomy)
	a := b.start(t)
	a.live()
	native := b.native(t, time.Millisecond)
	a.settle()
	rec, err := b.egress.Record()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	steady := uint32(b.want(quantize.MinABW, roomy))
	proper, reported := 0, 0
	for try, end := 0, time.Now().Add(patience); proper < 3; try++ {
		if time.Now().After(end) {
			t.Fatalf("the machine sent %d of %d bursts in time: %v", proper, try, errBusy)
		}
		if err := native(); err != nil {
			t.Fatal(err)
		}
		probes, frames := b.burst(t, rec)
		if len(probes) == 0 {
			continue // it was kept from its turn
		}
		proper++
		worst := slices.MinFunc(probes, func(a, b seen) int { return int(a.native) - int(b.native) })
		if worst.native == 0 && worst.lm == nativeLM {
			reported++
			if *update && proper == 1 {
				drawBurst(t, probes, frames, steady)
			}
		}
		for _, p := range probes {
			if p.software+1 < steady {
				t.Errorf("the agent writes S=%d, its load says %d: it sees a burst of %v over 100 ms", p.software, steady, burstLen)
				break
			}
		}
	}
	t.Logf("%d of %d bursts were reported by the data plane with S=0; the agent wrote S=%d throughout", reported, proper, steady)
	if reported != proper {
		t.Errorf("the data plane reported %d of %d bursts", reported, proper)
	}
}

// native has the bed's port measure by itself, too, and returns what keeps it live.
func (b *bed) native(t *testing.T, interval time.Duration) (renew func() error) {
	t.Helper()
	d, err := ebpf.Open(ebpf.Config{NetNS: b.s1.FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	dev := b.fleet.Devices[0]
	dev.Interval = interval
	setup := vendors.SetupOf(&b.fleet.Profile, inventory.Policy{OnStale: inventory.StalePassthrough}, &dev)
	if err := d.Apply(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	u := vendors.PortUpdate{Port: b.egress.Name, Rate: capacity}
	for _, sig := range setup.Signals {
		u.Intents = append(u.Intents, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, LM: nativeLM})
	}
	renew = func() error {
		_, err := d.Update(t.Context(), []vendors.PortUpdate{u}, time.Minute)
		return err
	}
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	return renew
}

// burst sends one, with probes around it, and returns those that came and all frames of the
// port; nothing where the machine did not send it in time.
func (b *bed) burst(t *testing.T, rec *fabric.Recorder) (probes []seen, frames []fabric.Passed) {
	t.Helper()
	var tx *probe.Sender
	var rx *probe.Listener
	err := b.h1.Node().Do(func() (err error) {
		tx, err = probe.NewSender(probe.SenderConfig{Interface: b.h1.Name, Dst: b.h2.MAC, Profile: &b.fleet.Profile, Signals: []quantize.Signal{quantize.MinABW}, Size: fabric.RecordHead})
		return err
	})
	if err == nil {
		err = b.h2.Node().Do(func() (err error) {
			rx, err = probe.NewListener(probe.ListenerConfig{Interface: b.h2.Name, Profile: &b.fleet.Profile, RunID: tx.RunID()})
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(tx.Close(), rx.Close()); err != nil {
			t.Error(err)
		}
	}()
	if frames, err = rec.Read(nil); err != nil { // what passed before
		t.Fatal(err)
	}
	frames = frames[:0]
	f := make([]byte, burstFrame)
	copy(f, b.h2.MAC)
	copy(f[6:], b.h1.MAC)
	f[12], f[13] = 0x88, 0xb6 // local experimental 2
	gap := time.Duration(8 * (burstFrame + fabric.L1Overhead) * uint64(time.Second) / capacity)
	func() {
		defer atOnce()()
		start := time.Now().Add(around)
		nextProbe, nextFrame, sent := time.Now(), start, 0
		for now := time.Now(); now.Before(start.Add(around)); now = time.Now() {
			switch {
			case !now.Before(nextFrame) && sent < int(burstLen/gap)+1:
				if err := tx.SendFrame(f); err != nil {
					t.Fatal(err)
				}
				sent, nextFrame = sent+1, start.Add(time.Duration(sent+1)*gap)
			case !now.Before(nextProbe):
				if _, err := tx.Send(quantize.MinABW); err != nil {
					t.Fatal(err)
				}
				nextProbe = now.Add(probeGap)
			}
		}
	}()
	n := int(tx.Sent(quantize.MinABW))
	came := map[uint64]probe.Received{}
	for len(came) < n {
		r, err := rx.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		came[r.Payload.Seq] = r
	}
	for deadline := time.Now().Add(patience); len(probes) < n; {
		if frames, err = rec.Read(frames); err != nil {
			t.Fatal(err)
		}
		if probes = b.passed(frames, tx.RunID(), came); time.Now().After(deadline) {
			t.Fatalf("%d of %d probes are recorded", len(probes), n)
		}
	}
	return b.proper(probes, frames, int(burstLen/gap)+1)
}

// atOnce has this goroutine run before all else, where this user may, until what it returns is called: a
// burst is kept from its turn no more by what else the machine does.
func atOnce() (done func()) {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err == nil {
		err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	}
	return func() {
		if err == nil {
			_ = unix.SchedSetAttr(0, before, 0) // it was so before
		}
		runtime.UnlockOSThread()
	}
}

// passed are the probes of a run among the frames, with the monotonic clock as their time.
func (b *bed) passed(frames []fabric.Passed, run uint64, came map[uint64]probe.Received) (probes []seen) {
	for i := range frames {
		p, err := probe.Parse(frames[i].Head[:min(int(frames[i].Bytes), fabric.RecordHead)], b.fleet.Profile.TPIDs(), b.fleet.Profile.Layout)
		if err != nil || p.Payload.Run != run {
			continue
		}
		r := came[p.Payload.Seq]
		probes = append(probes, seen{at: time.Duration(frames[i].At), software: p.Tag.S, native: r.Tag.S, lm: r.Tag.LM})
	}
	return probes
}

// proper are probes and frames with times from the burst's first frame, where its frames passed
// at their rate and probes kept coming; else nothing.
func (b *bed) proper(probes []seen, frames []fabric.Passed, want int) ([]seen, []fabric.Passed) {
	var first, last uint64
	n := 0
	for i := range frames {
		if h := &frames[i].Head; h[12] == 0x88 && h[13] == 0xb6 {
			if n++; n == 1 {
				first = frames[i].At
			}
			last = frames[i].At
		}
	}
	if n != want || last-first > uint64(burstLen+burstLen/10) {
		return nil, nil
	}
	for i := range probes {
		probes[i].at -= time.Duration(first)
		if i > 0 && probes[i].at > 0 && probes[i].at < 2*burstLen && probes[i].at-probes[i-1].at > burstLen/4 {
			return nil, nil
		}
	}
	for i := range frames {
		frames[i].At -= first // before it: negative, as an int64
	}
	return probes, frames
}

// drawBurst writes the picture of docs/native.md.
func drawBurst(t *testing.T, probes []seen, frames []fabric.Passed, steady uint32) {
	t.Helper()
	ms := func(d time.Duration) float64 { return (d + around).Seconds() * 1000 }
	load := chart.Panel{Title: "the port's load in each millisecond: a burst of 2 ms at the rate of its link (50 Mbit/s)", X: "milliseconds", Y: "Mbit/s", MaxX: ms(around), MaxY: 100}
	bins := make([]float64, 2*around/time.Millisecond)
	for i := range frames {
		if n := int(ms(time.Duration(frames[i].At))); n >= 0 && n < len(bins) {
			bins[n] += float64(frames[i].L1Bits()) / 1000
		}
	}
	var run []chart.XY
	for i, v := range bins {
		run = append(run, chart.XY{X: float64(i), Y: min(v, load.MaxY)})
	}
	run = append(run, chart.XY{X: load.MaxX, Y: run[len(run)-1].Y})
	load.Series = []chart.Series{{Name: "load", Color: chart.Grey, Size: 1.5, Runs: [][]chart.XY{run}}}
	s := chart.Panel{Title: "S that frames left with", X: "milliseconds", Y: "bucket S", MaxX: ms(around), MaxY: quantize.NumBuckets - 1}
	software := chart.Series{Name: "an agent that polls every 100 ms", Color: chart.Colors[4], Size: 2.4, Ring: true}
	native := chart.Series{Name: "the data plane, every 1 ms", Color: chart.Colors[0], Size: 2}
	for _, p := range probes {
		if p.at < -around {
			continue
		}
		software.Points = append(software.Points, chart.XY{X: ms(p.at), Y: float64(p.software)})
		if p.lm == nativeLM {
			native.Points = append(native.Points, chart.XY{X: ms(p.at), Y: float64(p.native)})
		}
	}
	s.Series = []chart.Series{software, native}
	f, err := os.Create("../docs/burst.svg")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(chart.WriteSVG(f, 864, 240, load, s), f.Close()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("drawn: docs/burst.svg, steady S", steady)
}
