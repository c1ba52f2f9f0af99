package qualify

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// stream are frames with tags, sent one after another while something else is done.
type stream struct {
	frames []Seen // in the order they were sent
	took   time.Duration
}

// Times between two frames of a stream. flying is how many of them may be under way: no
// queue of this machine overflows, and none of a switch.
const (
	dense  = 100 * time.Microsecond
	sparse = time.Millisecond
	flying = 64

	// stalled is how long frames under way may take until they count as lost.
	stalled = 100 * time.Millisecond
)

// sent is a frame of a stream.
type sent struct {
	to    int
	seq   uint64
	bytes []byte
	tags  []byte
	left  time.Time
}

// streamed sends a frame with one of these tags every pace, for as long as during takes: out
// of each of these ports, in turn. Its controls: the first is kept back, which must be missed;
// and frames behind the last must arrive.
func (t *Trial) streamed(ctx context.Context, pace time.Duration, ports []int, tcis []uint16, during func(ctx context.Context) error) (*stream, error) {
	if _, err := t.drops(); err != nil { // those of before
		return nil, err
	}
	l := t.Listen()
	defer l.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type ended struct {
		list []sent
		err  error
	}
	flows, stop, done := make(chan struct{}), make(chan struct{}), make(chan ended, 1)
	go func() {
		list, err := t.sendStream(l, pace, ports, tcis, flows, stop)
		if err != nil {
			cancel(err)
		}
		done <- ended{list, err}
	}()
	select { // on a busy machine it may take long to begin
	case <-flows:
	case <-ctx.Done():
	}
	began := time.Now()
	err := during(ctx)
	close(stop)
	e := <-done
	took := time.Since(began)
	switch {
	case e.err != nil:
		return nil, e.err
	case err != nil:
		return nil, err
	}
	for _, to := range ports {
		if err := t.Sync(ctx, 1-to, to); err != nil {
			return nil, t.Positive(untagged, false, "%v", err)
		}
	}
	if err := t.Positive(untagged, true, ""); err != nil {
		return nil, err
	}
	if err := vendors.Wait(ctx, t.Settle); err != nil {
		return nil, err
	}
	s := &stream{frames: make([]Seen, len(e.list)), took: took}
	index := make(map[uint64]int, len(e.list))
	for i, f := range e.list {
		s.frames[i] = Seen{Frame: Frame{To: f.to, Tags: f.tags}, Sent: f.bytes, Left: f.left}
		index[f.seq] = i
	}
	for _, a := range l.Take() {
		if i, ok := index[a.Seq]; ok && a.Port != 1-s.frames[i].To {
			s.frames[i].Where = append(s.frames[i].Where, a)
		}
	}
	if n, err := t.drops(); err != nil || n > 0 {
		return nil, Cannot("this machine itself lost %d frames (%v): a quieter machine is needed", n, err)
	}
	if len(s.frames) < 2 {
		return nil, Cannot("no frame was sent in %v: a quieter machine is needed", took.Round(time.Microsecond))
	}
	// The first is the one that was kept back.
	if err := t.Negative("a frame that is kept back is missed", s.frames[0].Fate() == lost, "%s", s.frames[0].Fate()); err != nil {
		return nil, err
	}
	s.frames = s.frames[1:]
	t.Frames.Sent += len(s.frames)
	for i := range s.frames {
		if s.frames[i].Count(s.frames[i].To) > 0 {
			t.Frames.Arrived++
		}
	}
	if t.sending += took; t.sending > 0 {
		t.Frames.PerSecond = float64(t.Frames.Sent) / t.sending.Seconds()
	}
	return s, nil
}

// sendStream sends until stop; the first frame is built and kept back, and with the second
// it flows.
func (t *Trial) sendStream(l *Listener, pace time.Duration, ports []int, tcis []uint16, flows chan<- struct{}, stop <-chan struct{}) (list []sent, err error) {
	under, arrived := 0, 0
	for i := 0; ; i++ {
		select {
		case <-stop:
			return list, nil
		default:
		}
		for since := time.Now(); ; pause(time.Now(), dense) {
			if n := l.count(); n > arrived {
				under, arrived, since = max(0, under-(n-arrived)), n, time.Now()
			}
			if under < flying {
				break
			}
			if time.Since(since) > stalled {
				under = 0
			}
		}
		to, tags := ports[i%len(ports)], VLAN(t.Profile.TPID, tcis[i/len(ports)%len(tcis)])
		seq, bytes, err := t.Build(1-to, Frame{To: to, Tags: tags})
		if err != nil {
			return list, err
		}
		f := sent{to, seq, bytes, tags, time.Now()}
		if i > 0 {
			if err := t.Send(1-to, bytes); err != nil {
				return list, err
			}
			under++
		}
		if list = append(list, f); i == 1 {
			close(flows)
		}
		if pace >= sparse {
			time.Sleep(pace)
			continue
		}
		pause(f.left, pace)
	}
}

// pause waits until so long after a time, and yields meanwhile: a sleep this short takes
// milliseconds on many machines. It sleeps where the clock is too coarse for that and stands
// still.
func pause(since time.Time, d time.Duration) {
	for at := since; ; {
		runtime.Gosched()
		now := time.Now()
		switch {
		case now.Sub(since) >= d:
			return
		case now.Equal(at):
			time.Sleep(d - now.Sub(since))
			return
		}
		at = now
	}
}

// count is how many frames the listener has.
func (l *Listener) count() int {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return len(l.got)
}

// undisturbed sends a stream while nothing changes: all of it has to arrive as it should.
// A switch that caches its flows corrects them one by one after a change, so that one tag
// may be late where another is not: such a stream is repeated for as long as patience.
func (t *Trial) undisturbed(ctx context.Context, ports []int, tcis []uint16, setup *vendors.Setup, intents []vlanrules.Intent) error {
	var wrong string
	p := patient{Trial: t}
	err := p.try(ctx, func() (bool, error) {
		s, err := t.quiet(ctx, ports, tcis, judges)
		if err != nil {
			return false, err
		}
		wrong = ""
		if n := s.lost(); n > 0 {
			wrong = fmt.Sprintf("the path loses frames: %d of %d with the tag do not arrive", n, len(s.frames))
			return true, nil
		}
		for i := range s.frames {
			sent, got, rest := tagOf(&s.frames[i])
			if rest == "" && !wrote(sent, got, setup, intents) {
				rest = "is not as the rule has it"
			}
			if rest != "" {
				wrong = fmt.Sprintf("the tag %04x %s: see the experiments tpid and rewrite", sent, rest)
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	return t.Positive("a stream arrives right while nothing changes", wrong == "", "%s", wrong)
}

// quiet is a stream of so many frames at least, while nothing changes.
func (t *Trial) quiet(ctx context.Context, ports []int, tcis []uint16, frames int) (*stream, error) {
	return t.streamed(ctx, dense, ports, tcis, func(ctx context.Context) error {
		return t.flow(ctx, still, frames)
	})
}

// flow waits for so long, and again until so many more frames were sent: of a busy machine
// that may be few in that time.
func (t *Trial) flow(ctx context.Context, wait time.Duration, frames int) error {
	for first := t.last(); t.last() < first+uint64(frames); {
		if err := vendors.Wait(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// lost is how many frames did not arrive whose tag did so in others.
func (s *stream) lost() (n int) {
	came, gone := map[string]bool{}, map[string]int{}
	for i := range s.frames {
		if f := &s.frames[i]; f.Fate() == lost {
			gone[string(f.Tags)]++
		} else {
			came[string(f.Tags)] = true
		}
	}
	for tags, times := range gone {
		if came[tags] {
			n += times
		}
	}
	return n
}

// An undisturbed stream takes so long, and longer until it has so many frames.
const (
	still  = 50 * time.Millisecond
	judges = 250
)

// last is the number of the last frame.
func (b *Bench) last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// quantile is the value below which a share q of a list are; the list is sorted for it.
func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
