package integration

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

const (
	truthEvery = 10 * time.Millisecond // how often the kernel's counters are read
	truthKept  = 30 * time.Second
	judgeAfter = 300 * time.Millisecond // by then the truth of a frame's time is known

	// truthGap is how far readings of the truth may be apart: a machine that was held up longer
	// does not know it. One in unknownPart of the frames may have no truth.
	truthGap    = 5 * truthEvery
	unknownPart = 20

	// slack is what lies between a rule and a captured frame: the queue behind the rule, and how
	// well the truth is known.
	slack = fabric.MaxQueue + 2*truthEvery

	// standstill is how long no frame may come through a link that nothing has cut.
	standstill = 300 * time.Millisecond
)

// wireBits is what a port has sent, by the kernel's own counters, also of devices that took its place.
type wireBits struct {
	mu          sync.Mutex
	port        *fabric.Port
	reader      *fabric.Reader
	last, total uint64
	points      []point
}

type point struct {
	at   time.Time
	bits uint64
}

// of changes the device that is read.
func (w *wireBits) of(p *fabric.Port) error {
	r, err := p.Counters()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reader != nil {
		w.reader.Close()
	}
	w.port, w.reader, w.last = p, r, 0
	return nil
}

func (w *wireBits) read() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reader == nil {
		return
	}
	c, err := w.reader.Read()
	if err != nil { // the port is removed: it sends nothing
		w.points = append(w.points, point{time.Now(), w.total})
		return
	}
	if b := c.L1Bits(); b >= w.last {
		w.total += b - w.last
		w.last = b
	}
	w.points = append(w.points, point{c.At, w.total})
	if old := len(w.points) / 2; len(w.points) > 1000 && c.At.Sub(w.points[old].at) > truthKept {
		w.points = slices.Delete(w.points, 0, old)
	}
}

// at is what had been sent by a time, between two readings in proportion. w.mu is held.
func (w *wireBits) at(t time.Time) float64 {
	i, _ := slices.BinarySearchFunc(w.points, t, func(p point, t time.Time) int { return p.at.Compare(t) })
	if i == 0 || i == len(w.points) {
		return float64(w.points[max(i-1, 0)].bits)
	}
	a, b := w.points[i-1], w.points[i]
	return float64(a.bits) + float64(t.Sub(a.at))/float64(b.at.Sub(a.at))*float64(b.bits-a.bits)
}

// known reports whether readings were close together from one time to another.
func (w *wireBits) known(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.points, from, func(p point, t time.Time) int { return p.at.Compare(t) })
	for i = max(i, 1); i < len(w.points); i++ {
		if w.points[i].at.Sub(w.points[i-1].at) > truthGap {
			return false
		}
		if w.points[i].at.After(to) {
			return true
		}
	}
	return false
}

// windowsOf are the lengths of windows that an agent may have averaged over, in halves of Δt: its
// readings come late, and one may be missing.
var windowsOf = []time.Duration{2, 1, 4, 6}

// stale is how long ago the newest window ended whose bandwidth was in that bucket, or in a better
// one; false where there was none for so long. within is how far readings may be off their times.
func (w *wireBits) stale(sig quantize.Signal, buckets quantize.Buckets, s uint32, at time.Time, interval, within, most time.Duration) (time.Duration, bool) {
	if s == 0 {
		return 0, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.points) == 0 {
		return 0, false
	}
	for back := time.Duration(0); back <= most; back += truthEvery {
		for _, n := range windowsOf {
			length := n * interval / 2
			end := at.Add(-back)
			load := (w.at(end) - w.at(end.Add(-length))) / (length + within).Seconds()
			free := min(max(capacity-load, 0)+capacity/100, capacity) // a hundredth: edges of buckets
			value := uint64(free)
			if sig == quantize.MinABWC {
				value = value * 1_000_000 / capacity
			}
			if uint32(buckets.Bucket(value)) >= s {
				return back, true
			}
		}
	}
	return most, false
}

// recent is what was sent in tenths of a second before a time.
func (w *wireBits) recent(at time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "Mbit/s in the tenths of a second before:"
	for i := range 15 {
		to := at.Add(-time.Duration(i) * interval)
		text += fmt.Sprintf(" %.1f", (w.at(to)-w.at(to.Add(-interval)))/interval.Seconds()/1e6)
	}
	return text
}

// span is from when to when something held; it still does while to is zero.
type span struct{ from, to time.Time }

// spans are safe for concurrent use.
type spans struct {
	mu   sync.Mutex
	list []span
}

// begin opens one, and returns what ends it.
func (s *spans) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.list)
	s.list = append(s.list, span{from: time.Now()})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list[i].to = time.Now()
	}
}

// touch reports whether one has a moment in common with these.
func (s *spans) touch(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.list) - 1; i >= 0; i-- {
		if l := s.list[i]; !l.from.After(to) && (l.to.IsZero() || !l.to.Before(from)) {
			return true
		}
	}
	return false
}

// tap captures what comes out of a link. hop is the switch in front of it; stripped is a link that
// no tagged frame may come out of.
type tap struct {
	c        *chaos
	hop      *chaosHop
	stripped bool

	mu      sync.Mutex
	got     []probe.Received
	stop    context.CancelFunc
	done    chan struct{}
	drops   uint64
	streams map[stream]*last
}

// stream is one sender's frames of one kind.
type stream struct {
	run uint64
	sig quantize.Signal
}

// last is the last frame of a stream.
type last struct {
	seq  uint64
	sent time.Time
	at   time.Time
}

// listen captures at a port until another call, or end.
func (p *tap) listen(at *fabric.Port) error {
	p.end()
	var rx *probe.Listener
	err := at.Node().Do(func() (err error) {
		rx, err = probe.NewListener(probe.ListenerConfig{Interface: at.Name, Profile: &p.c.profile, All: true})
		return err
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.stop, p.done = stop, done
	go func() {
		defer close(done)
		defer rx.Close()
		for ctx.Err() == nil {
			f, err := rx.Next(ctx)
			if err != nil {
				continue // the device is down, or gone: end is to come
			}
			p.mu.Lock()
			p.got = append(p.got, f)
			p.mu.Unlock()
		}
		if n, err := rx.Overruns(); err == nil {
			p.mu.Lock()
			p.drops += n
			p.mu.Unlock()
		}
	}()
	return nil
}

// end stops the capture.
func (p *tap) end() {
	if p.stop != nil {
		p.stop()
		<-p.done
		p.stop = nil
	}
}

// take are the captured frames from before a time.
func (p *tap) take(before time.Time) (frames []probe.Received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.got) && p.got[n].At.Before(before) {
		n++
	}
	frames = slices.Clone(p.got[:n])
	p.got = slices.Delete(p.got, 0, n)
	return frames
}

// judged counts frames.
type judged struct {
	measured, upstream, fallback, none, unruled, unknown uint64
	untagged, stripped                                   uint64
}

// judgeFrames judges what all taps have captured from before a time.
func (c *chaos) judgeFrames(before time.Time) {
	for _, p := range c.taps {
		for _, f := range p.take(before) {
			p.judge(&f)
		}
		for s, l := range p.streams {
			if age := before.Sub(l.at); age > 20*standstill && !p.cut(l.at, before) {
				c.violated(p.hop, l.at, "no frame of stream %x %v came out of the link behind %s for %v", s.run, s.sig, p.hop.name, age)
				delete(p.streams, s)
			}
		}
	}
}

func (p *tap) judge(f *probe.Received) {
	c := p.c
	if !f.Probe {
		c.violated(p.hop, f.At, "a tagged frame that no host sent: %x", f.Bytes)
		return
	}
	p.follow(f)
	plain := f.Payload.Run == c.plain.RunID()
	switch {
	case p.stripped && f.Tagged:
		c.violated(p.hop, f.At, "a tagged frame left the port that strips: %+v", f.Tag)
		return
	case p.stripped:
		c.counts.stripped++
		return
	case plain && f.Tagged:
		c.violated(p.hop, f.At, "a frame without a tag left with one: %+v", f.Tag)
		return
	case plain:
		c.counts.untagged++
		return
	case !f.Tagged:
		c.violated(p.hop, f.At, "a frame has lost its tag")
		return
	}
	h := p.hop
	if f.Tag.T != f.Payload.Signal || f.Tag.R != 0 {
		c.violated(h, f.At, "T or R has changed: %+v", f.Tag)
	}
	own, where := false, &c.counts.none
	switch by := c.locates(f.Tag.T, f.Tag.LM); {
	case by == h:
		own, where = true, &c.counts.measured
	case by != nil && by.index < h.index:
		where = &c.counts.upstream
	case f.Tag.LM == c.profile.Layout.LMStale() && f.Tag.S == 0:
		where = &c.counts.fallback
	case f.Tag.LM == c.profile.Layout.LMNone() && f.Tag.S == uint32(f.Tag.T.InitialBucket()):
	default:
		c.violated(h, f.At, "a tag that nothing writes: %+v", f.Tag)
		return
	}
	*where++
	if !own && h.unruled.touch(f.At.Add(-slack), f.At) {
		c.counts.unruled++
		return
	}
	bound := h.bound(f.At)
	sp := c.profile.Signals[f.Tag.T]
	stale, ok := h.truth.stale(f.Tag.T, sp.Buckets, f.Tag.S, f.At, h.interval, h.within, bound)
	switch {
	case ok:
		h.noteStale(f.At, stale)
	case !h.truth.known(f.At.Add(-bound-windowsOf[len(windowsOf)-1]*h.interval/2), f.At):
		c.counts.unknown++
	case own:
		c.violated(h, f.At, "S=%d of %s with its own locator %d is better than any window of the last %v had", f.Tag.S, f.Tag.T, f.Tag.LM, bound)
	default:
		c.violated(h, f.At, "S=%d of %s (locator %d) passed %s, which had no such window in the last %v", f.Tag.S, f.Tag.T, f.Tag.LM, h.name, bound)
	}
}

// follow notices where frames stop coming although no link is cut.
func (p *tap) follow(f *probe.Received) {
	key := stream{f.Payload.Run, f.Payload.Signal}
	l := p.streams[key]
	if l == nil {
		l = &last{seq: f.Payload.Seq, sent: f.Payload.Sent}
		p.streams[key] = l
	}
	if f.Payload.Seq > l.seq+1 {
		missing, gap := f.Payload.Seq-l.seq-1, f.Payload.Sent.Sub(l.sent)
		p.c.lost += missing
		if gap > standstill && !p.cut(l.sent, f.Payload.Sent) {
			p.c.violated(p.hop, f.At, "%d frames in a row did not come out of the link behind %s, for %v", missing, p.hop.name, gap.Round(time.Millisecond))
		}
	}
	l.seq, l.sent, l.at = f.Payload.Seq, f.Payload.Sent, f.At
}

// cut reports whether a link up to here was cut meanwhile.
func (p *tap) cut(from, to time.Time) bool {
	for _, h := range p.c.hops[:p.hop.index+1] {
		if h.cuts.touch(from.Add(-standstill), to.Add(standstill)) {
			return true
		}
	}
	return false
}

// violated reports an invariant that does not hold, with the fault that may be why.
func (c *chaos) violated(h *chaosHop, at time.Time, format string, args ...any) {
	if c.violations++; c.violations > 20 {
		return
	}
	c.t.Errorf("seed %d, %s after the beginning, %s: %s", c.seed, at.Sub(c.began).Round(time.Millisecond), h.during(at), fmt.Sprintf(format, args...))
	if c.violations <= 3 {
		why, _ := exec.Command(csig, "why", "swp3", "--socket", h.socket, "--at", at.Format(time.RFC3339Nano)).CombinedOutput() // an agent may be dead
		c.t.Logf("%s\n%s", h.truth.recent(at), why)
	}
}

// watchTruth reads all counters until ctx ends.
func (c *chaos) watchTruth(ctx context.Context) {
	for ctx.Err() == nil {
		for _, h := range c.hops {
			h.truth.read()
		}
		now := time.Now()
		ts := unix.NsecToTimespec(int64(now.Truncate(truthEvery).Add(truthEvery).Sub(now)))
		_ = unix.Nanosleep(&ts, nil) // a signal may cut it short: one reading more
	}
}
