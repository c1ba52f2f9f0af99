package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vlanrules"
)

// mayBeNative is an error where native hops are wanted and this kernel or user cannot have them.
func (o *Options) mayBeNative(ctx context.Context) (err error) {
	if o.Native == nil {
		return nil
	}
	d, err := ebpf.Open(ebpf.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	facts, err := d.Probe(ctx)
	if err == nil && facts.Update.Level == vlanrules.Refused {
		err = errors.New(facts.Update.Reason)
	}
	if err != nil {
		return fmt.Errorf("native hops: %w (csig demo without --native and --mixed needs neither)", err)
	}
	return nil
}

// native judges a hop whose kernel measures by itself. It has a record of every frame, and
// from the data plane only where its intervals begin.
type native struct {
	profile  *quantize.Profile
	recorder *fabric.Recorder
	port     *fabric.Port
	begin    ebpf.Intervals

	mu sync.Mutex
	intervals
	probes map[probeKey]span // when they were in the data plane
	wall   int64             // what the hop's clock lacks to the wall clock, ns
	gone   []fabric.Left     // that have left, and are not taken in yet
	until  int64             // up to here all that have left are known, by the wall clock
	missed bool              // some are missing
}

// probeKey tells a run's probes apart.
type probeKey struct {
	sig int
	seq uint64
}

// newNative judges a port that its agent has set up. Its record begins when it is told what has
// left: of a frame without that, all later ones would be taken to have left one too late.
func newNative(port *fabric.Port, profile *quantize.Profile, l link) (*native, error) {
	n := &native{profile: profile, port: port, probes: map[probeKey]span{}}
	begin, err := n.intervalsNow()
	if err != nil {
		return nil, err
	}
	if begin.Start == 0 || begin.Length <= 0 {
		return nil, fmt.Errorf("%s: its data plane does not measure yet", port)
	}
	n.begin, n.link = begin, l
	n.phase, n.length = int64(begin.Start%uint64(begin.Length)), int64(begin.Length)
	return n, nil
}

func (n *native) intervalsNow() (in ebpf.Intervals, err error) {
	err = n.port.Node().Do(func() (err error) {
		in, err = ebpf.IntervalsOf(n.port.Index())
		return err
	})
	return in, err
}

// check wants the intervals to be those that were judged by.
func (n *native) check() error {
	now, err := n.intervalsNow()
	if err != nil {
		return err
	}
	if now.Length != n.begin.Length || int64(now.Start%uint64(n.length)) != n.phase {
		return fmt.Errorf("%s: its data plane restarted while it was judged", n.port)
	}
	return nil
}

// watch takes frames in until ctx ends.
func (n *native) watch(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, n.recorder.Close()) }()
	var frames []fabric.Passed
	var lost uint64
	for ctx.Err() == nil {
		now, wall := clocks() // what came until then is in the record, or a processor is late with it
		if frames, err = n.recorder.Read(frames[:0]); err != nil {
			return err
		}
		total, err := n.recorder.Lost()
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.wall = wall
		for i := range frames {
			n.record(&frames[i])
		}
		known := min(int64(now), n.until-wall)
		taken := 0
		for taken < len(n.gone) && n.gone[taken].At-wall < known-int64(late)/2 {
			n.leaves(n.gone[taken].At-wall, n.gone[taken].L1Bits())
			taken++
		}
		n.gone = slices.Delete(n.gone, 0, taken)
		if n.missed {
			n.queue, n.missed = nil, false // which of them left is not known
			n.vague = max(n.vague, known+int64(fabric.MaxQueue))
		}
		n.close(known, total != lost)
		n.mu.Unlock()
		lost = total
	}
	return nil
}

// left takes in frames that have left the hop's shaper: all of those until an instant of the
// wall clock, unless some are missing.
func (n *native) left(frames []fabric.Left, until int64, missing bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = append(n.gone, frames...)
	n.until, n.missed = until, n.missed || missing
}

// told reports whether the watcher behind the shaper has said what has left.
func (n *native) told() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.until > 0
}

func (n *native) record(f *fabric.Passed) {
	at := span{int64(f.At), int64(f.Until)}
	n.passed(at, f.L1Bits())
	if k, ok := probeOf(f.Bytes, f.Head[:], n.profile); ok {
		n.probes[k] = at
	}
}

// probeOf returns which probe a frame is, if it is one of ours.
func probeOf(size uint32, head []byte, profile *quantize.Profile) (probeKey, bool) {
	if size != probeSize {
		return probeKey{}, false
	}
	p, err := probe.Parse(head[:probeSize], profile.TPIDs(), profile.Layout)
	if err != nil {
		return probeKey{}, false
	}
	i := slices.Index(signals[:], p.Payload.Signal)
	return probeKey{i, p.Payload.Seq}, i >= 0
}

// passage is when a probe was in the data plane, which is asked once for each.
func (n *native) passage(k probeKey) (span, bool) {
	at, ok := n.probes[k]
	delete(n.probes, k)
	return at, ok
}

// ended is the end of the interval that had closed last.
func (n *native) ended(at int64) (time.Time, bool) {
	i := n.completed(at)
	if i == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, n.windows[i-1].end+n.wall), true
}

// ready reports whether the judge can judge.
func (n *native) ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.windows) >= 2
}

// clocks are the monotonic clock in ns and what it lacks to the wall clock, of the closest of
// a few readings.
func clocks() (mono uint64, wall int64) {
	best := time.Duration(1<<63 - 1)
	for range 5 {
		before, now, after := monotonic(), time.Now().UnixNano(), monotonic()
		if d := time.Duration(after - before); d < best {
			best, mono, wall = d, after, now-int64(before+(after-before)/2)
		}
	}
	return mono, wall
}

func monotonic() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // it cannot fail
	}
	return uint64(ts.Nano())
}
