package qualify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors"
)

// Bytes of a frame on the wire beyond those of the bench.
const (
	checkSum = 4  // the FCS
	gapBytes = 20 // preamble and gap
)

// refreshes is how many refreshes of a counter are awaited.
const refreshes = 3

// counterPatience is how long a counter may take to show traffic: a minute, unless the bench
// has another Patience.
func (t *Trial) counterPatience() time.Duration { return 30 * t.Patience }

// burst is how many frames of one size are counted at a time.
const burst = 64

// counterAge sends bursts of frames and reads how counters show them.
func counterAge(ctx context.Context, t *Trial) error {
	if t.Counters == nil {
		return Cannot("the switch's counters cannot be read from here: the fleet file names no source that works")
	}
	r := reading{t: t}
	var err error
	if r.now, err = r.read(ctx); err != nil {
		return err
	}
	// What the port sends without us has to be nothing, or no count is ours.
	if err := vendors.Wait(ctx, still); err != nil {
		return err
	}
	// Of counters that stand still nothing else is a control.
	if _, err := t.Exchange(ctx, 0, []Frame{{To: 1}}); err != nil {
		return err
	}
	if stuck, err := r.age(ctx); err != nil || stuck {
		return err
	}
	if err := r.bytes(ctx); err != nil {
		return err
	}
	if len(t.Faults) == 0 && t.Result.Found == "" {
		how := fmt.Sprintf("about every %v", r.period.Round(time.Millisecond))
		if r.period <= 2*r.resolution {
			how = fmt.Sprintf("every %v or more often, and were not read more often", r.period.Round(time.Millisecond))
		}
		t.Found("counters of %s are refreshed %s; they count %s", t.Ports[1].Name, how, r.what)
	}
	return nil
}

// reading is how the counters of port 1 are read.
type reading struct {
	t      *Trial
	now    counters.Sample
	period time.Duration
	what   string // of a frame is counted
	buf    []counters.Sample

	resolution time.Duration // how often they are read while period is measured
}

func (r *reading) read(ctx context.Context) (s counters.Sample, err error) {
	for began := time.Now(); ; {
		r.buf, err = r.t.Counters.Read(ctx, r.buf)
		if !errors.Is(err, counters.ErrUnfinished) || ctx.Err() != nil || time.Since(began) > r.t.counterPatience() {
			break
		}
	}
	at := slices.IndexFunc(r.buf, func(s counters.Sample) bool { return s.Port == r.t.Ports[1].Name })
	switch {
	case err != nil:
	case at < 0:
		err = errors.New("their source does not have the port")
	default:
		err = r.buf[at].Err
	}
	if err != nil {
		return s, Cannot("reading the counters of %s: %v", r.t.Ports[1].Name, err)
	}
	return r.buf[at], nil
}

// refresh is how long a counter took until it was refreshed: least is for how long it was seen
// not to be while a frame that had left the port was not counted, and most what lies between two
// readings that found it changed. They differ where the bench, or the path, is late.
type refresh struct{ least, most time.Duration }

// longest are the longest of both.
func longest(list []refresh) (r refresh) {
	for _, one := range list {
		r.least, r.most = max(r.least, one.least), max(r.most, one.most)
	}
	return r
}

// age sends frames all the time, and measures how often the counter changes. One that is
// stuck does so once at most.
func (r *reading) age(ctx context.Context) (stuck bool, err error) {
	t := r.t
	l := t.Listen()
	defer l.Close()
	var list []refresh
	reads, changes, took := 0, 0, time.Duration(0)
	decides := func(one refresh) bool { return one.least > t.interval() || one.most <= t.interval()+r.resolution }
	err = t.steady(ctx, func(ctx context.Context) error {
		var changed, waits, unchanged time.Time // waits: since when a frame is not counted, at least
		last, left := r.now, 0                  // frames that have left the port since it changed
		for began := time.Now(); ; {
			left += len(l.Take())
			before := time.Now()
			s, err := r.read(ctx)
			if err != nil {
				return err
			}
			reads, took = reads+1, took+time.Since(before)
			r.resolution = 10*time.Millisecond + took/time.Duration(reads)
			switch {
			case s.Packets != last.Packets:
				now := time.Now()
				if changes++; changes > 1 {
					list = append(list, refresh{unchanged.Sub(waits), now.Sub(changed)})
				}
				l.Take()
				changed, waits, unchanged, last, left = now, time.Time{}, time.Time{}, s, 0
				if n := len(list); n >= refreshes && decides(longest(list[n-refreshes:])) {
					return nil
				}
			case left > 0:
				if unchanged = before; waits.IsZero() {
					waits = before
				}
			}
			if time.Since(began) > t.counterPatience() {
				return nil
			}
			if err := vendors.Wait(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return false, err
	}
	if changes < 2 {
		t.Fault("counters-stuck", "in %v of traffic the counters of %s changed %d times", t.counterPatience(), t.Ports[1].Name, changes)
		return true, nil
	}
	seen := longest(list[max(0, len(list)-refreshes):])
	if r.period = seen.most; r.period <= 2*r.resolution {
		t.Measured("refresh_at_most_ms", ms(r.period)) // that is how often the bench looks
	} else {
		t.Measured("refresh_ms", ms(r.period))
	}
	t.Measured("read_ms", ms(took/time.Duration(reads)))
	t.Measured("resolution_ms", ms(r.resolution))
	switch {
	case !decides(seen):
		return false, Cannot("the counters changed after %v, and were seen unchanged for %v of that: whether they are refreshed within the domain's interval of %v was not seen; a quieter machine is needed", seen.most.Round(time.Millisecond), seen.least.Round(time.Millisecond), t.interval())
	case seen.least > t.interval():
		t.Fault("counters-stale", "the counters are refreshed every %v: that is more than the domain's interval of %v, and samples in between repeat old values", r.period.Round(time.Millisecond), t.interval())
	}
	return false, nil
}

// steady sends a frame every few milliseconds while f runs.
func (t *Trial) steady(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-tick.C:
			}
			_, bytes, err := t.Build(0, Frame{To: 1})
			if err == nil {
				err = t.Send(0, bytes)
			}
			if err != nil {
				cancel(err)
				done <- err
				return
			}
		}
	}()
	err := f(ctx)
	close(stop)
	return errors.Join(err, <-done)
}

// patience is for how long the counters may change: slow ones get several refreshes.
func (r *reading) patience() time.Duration {
	return r.t.counterPatience() + 2*refreshes*r.period
}

// settled waits until the counters have everything that was sent, and does not change any
// more: at least one refresh behind the last change.
func (r *reading) settled(ctx context.Context, packets uint64) (counters.Sample, error) {
	t, last, changed := r.t, r.now, time.Now()
	for began := time.Now(); ; {
		s, err := r.read(ctx)
		if err != nil {
			return s, err
		}
		if s.Packets != last.Packets || s.Octets != last.Octets {
			last, changed = s, time.Now()
		}
		if time.Since(changed) > r.period+r.period/2+still && (packets == 0 || s.Packets-r.now.Packets >= packets || time.Since(began) > t.counterPatience()) {
			return s, nil
		}
		if time.Since(began) > r.patience() {
			return s, Cannot("the counters of %s still change %v after the bench sent its last frame: the switch sends by itself, e.g. LLDP or BPDUs, and no count is the bench's: stop that at the port", t.Ports[1].Name, r.patience())
		}
		if err := vendors.Wait(ctx, 5*time.Millisecond); err != nil {
			return s, err
		}
	}
}

// bytes finds out which bytes of a frame are counted.
func (r *reading) bytes(ctx context.Context) error {
	t := r.t
	var err error
	if r.now, err = r.settled(ctx, 0); err != nil {
		return err
	}
	first := r.now
	quiet, err := r.settled(ctx, 0)
	if err != nil {
		return err
	}
	r.now = quiet
	if err := t.Negative("counters of a port that sends nothing stay", quiet.Packets == first.Packets, "%d frames were counted while the bench sent none: the switch sends by itself", quiet.Packets-first.Packets); err != nil {
		return err
	}
	tag := VLAN(t.Profile.TPID, 0x0785)
	beyond := map[bool]int{} // bytes counted beyond those of the frame, with tags or without
	for _, tagged := range []bool{false, true} {
		for i, size := range []int{100, 250, 1000} {
			f := Frame{To: 1, Size: size}
			if tagged {
				f.Tags = tag
			}
			got, frames, sent, err := r.count(ctx, f)
			if err != nil {
				return err
			}
			if err := t.Positive("the frames of a burst are counted, each once", frames == burst, "of %d frames of %d bytes %d were counted", burst, size, frames); err != nil {
				return err
			}
			n := (got - int64(sent)) / burst
			if (got-int64(sent))%burst != 0 || i > 0 && int(n) != beyond[tagged] {
				t.Fault("octets-uneven", "%d frames of %d bytes without FCS were counted as %d bytes: not the same for each", burst, size, got)
				return nil
			}
			beyond[tagged] = int(n)
		}
	}
	return r.judge(beyond, first, r.now)
}

// judge compares what is counted with what the source says.
func (r *reading) judge(beyond map[bool]int, first, last counters.Sample) error {
	t := r.t
	overhead := checkSum + gapBytes - beyond[false]
	names := map[int]string{0: "each byte of a frame but its FCS", checkSum: "each byte of a frame with its FCS", checkSum + gapBytes: "each byte of a frame, its FCS, preamble and gap"}
	r.what = names[beyond[false]]
	if r.what == "" {
		r.what = fmt.Sprintf("%d bytes more than a frame has without FCS", beyond[false])
	}
	t.Measured("counted_beyond_frame_bytes", float64(beyond[false]))
	t.Measured("counted_beyond_tagged_frame_bytes", float64(beyond[true]))
	if overhead < 0 || overhead > 64 {
		t.Fault("octets-wrong", "the octet counter counts %s", r.what)
		return nil
	}
	t.Measured("overhead_bytes", float64(overhead))
	if overhead != int(last.Overhead) {
		t.Fault("overhead-wrong", "the octet counter counts %s: %d bytes are to be added for each frame, and the source of the counters adds %d", r.what, overhead, last.Overhead)
	}
	if d := beyond[false] - beyond[true]; d != 0 {
		t.Fault("tag-not-counted", "of a frame with the tag %d bytes fewer are counted", d)
	}
	if last.Bits == 64 && last.Octets < first.Octets {
		t.Fault("wraps-at-32-bits", "the octet counter went from %d to %d, and its source says that it has 64 bits", first.Octets, last.Octets)
	}
	if last.Bits == 64 && last.Octets < 1<<32 {
		t.Note("the octet counter is at %d: whether it has more than 32 bits was not seen", last.Octets)
	}
	return nil
}

// count sends a burst and returns what was counted of it, after what r.now has.
func (r *reading) count(ctx context.Context, f Frame) (octets int64, frames, sent int, err error) {
	l := r.t.Listen()
	defer l.Close()
	for range burst {
		_, bytes, err := r.t.Build(0, f)
		if err == nil {
			err = r.t.Send(0, bytes)
		}
		if err != nil {
			return 0, 0, 0, err
		}
		sent += len(bytes)
	}
	// Frames that show that nothing more comes would be counted, too.
	for until := time.Now().Add(r.t.Patience); l.count() < burst && time.Now().Before(until); {
		if err := vendors.Wait(ctx, time.Millisecond); err != nil {
			return 0, 0, 0, err
		}
	}
	if n := l.count(); n != burst {
		return 0, 0, 0, Cannot("of %d frames of %d bytes with the tags %x %d arrive, and each has to: see the experiments tpid and vids", burst, f.Size, f.Tags, n)
	}
	s, err := r.settled(ctx, burst)
	if err != nil {
		return 0, 0, 0, err
	}
	octets, frames = int64(s.Octets-r.now.Octets), int(s.Packets-r.now.Packets)
	if s.Octets < r.now.Octets && s.Octets < 1<<32 && r.now.Octets < 1<<32 { // it wrapped at 32 bits
		octets += 1 << 32
	}
	r.now = s
	r.t.Frames.Sent += burst
	return octets, frames, sent, nil
}
