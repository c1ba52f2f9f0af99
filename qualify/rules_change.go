package qualify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// changed is one change of what a port writes.
type changed struct {
	local
	began, acked time.Time
}

// step is the n-th value that changes lead to: neighbours differ in S and in locator, so
// that what mixes two of them is none.
func step(n int) local {
	buckets := [...]uint8{5, 20, 12, 28, 2, 17, 9, 24}
	return local{buckets[n%len(buckets)], uint16(11 + n%40)}
}

// interval is the domain's, within which a rule has to be on the wire.
func (t *Trial) interval() time.Duration { return cmp.Or(t.Profile.Interval, time.Second) }

// timed is how many changes are measured in a round.
const timed = 16

// ruleChange measures the time of changes, and of frames behind the device's answer that
// still have the old value.
func ruleChange(ctx context.Context, t *Trial) error {
	setup, err := t.program(ctx, step(0), heldFor)
	if err != nil {
		return err
	}
	m := timing{}
	for _, port := range both {
		if err := m.changes(ctx, t, &setup, port); err != nil {
			return err
		}
		if len(t.Faults) > 0 {
			break
		}
	}
	t.Measured("changes", float64(len(m.acks)))
	t.Measured("changes_counted", float64(len(m.bounds)))
	longest, worst, bound := quantile(m.acks, 1), quantile(m.late, 1), quantile(m.bounds, 1)
	t.Measured("change_median_ms", ms(quantile(m.acks, 0.5)))
	t.Measured("change_max_ms", ms(longest))
	t.Measured("late_max_ms", ms(worst))
	t.Measured("ack_to_wire_median_ms", ms(quantile(m.bounds, 0.5)))
	t.Measured("ack_to_wire_max_ms", ms(bound))
	t.Measured("resolution_ms", ms(m.gap))
	if len(t.Faults) == 0 {
		t.Found("changes at %s are acknowledged within %v (median of %d: %v); %s", t.bothNames(), longest.Round(time.Microsecond), len(m.acks), quantile(m.acks, 0.5).Round(time.Microsecond), soon(worst, bound))
	}
	return nil
}

// timing is what ruleChange has measured.
type timing struct {
	acks, late, bounds []time.Duration
	gap                time.Duration
}

// changes makes changes at a port until enough of them count.
func (m *timing) changes(ctx context.Context, t *Trial, setup *vendors.Setup, port int) error {
	if err := t.shows(ctx, setup, step(0), port); err != nil {
		return err
	}
	made, counted, worst := 0, 0, time.Duration(0)
	for range series {
		list := []changed{{local: step(made)}}
		s, err := t.streamed(ctx, dense, []int{port}, probes(setup), func(ctx context.Context) error {
			for range timed {
				made++
				c := changed{local: step(made), began: time.Now()}
				if _, err := t.write(ctx, setup, c.local, heldFor, port); err != nil {
					return err
				}
				c.acked = time.Now()
				list = append(list, c)
				if err := t.shows(ctx, setup, c.local, port); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, c := range list[1:] {
			m.acks = append(m.acks, c.acked.Sub(c.began))
			l, bound := lateness(s.frames, setup, list[i].local, c)
			if l > t.interval() || bound > 0 && bound-l <= widest {
				m.late, m.bounds, m.gap = append(m.late, l), append(m.bounds, max(bound, l)), max(m.gap, bound-l)
				counted, worst = counted+1, max(worst, l)
			}
		}
		if enough(counted, timed) {
			break
		}
	}
	switch {
	case worst > t.interval():
		t.Fault("late-on-wire", "the device acknowledges a change, and frames that are sent up to %v later leave %s with the old value: that is more than the domain's interval of %v", worst.Round(time.Millisecond), t.Ports[port].Name, t.interval())
	case !enough(counted, timed):
		return Cannot("around %d of %d changes at %s no frame was under way for more than %v: how late they are was not seen; a quieter machine is needed", made-counted, made, t.Ports[port].Name, widest)
	}
	return nil
}

// widest is how long around a change no frame may be under way for it to count, and
// rounds how often changes are made until enough of them count.
const (
	widest = 20 * time.Millisecond
	series = 8
)

// enough tells whether so many changes count of those that should.
func enough(counted, of int) bool { return 4*counted >= 3*of }

// soon says when frames have a new value.
func soon(worst, bound time.Duration) string {
	seen := "no frame that is sent after that has the old value"
	if worst > 0 {
		seen = fmt.Sprintf("frames that are sent up to %v after that have the old value", worst.Round(time.Microsecond))
	}
	return fmt.Sprintf("%s, and after %v at the latest one has the new value", seen, bound.Round(time.Microsecond))
}

// lateness is how long after the device's answer the last frame left that still has the
// value of before, 0 where none does; and how long after the answer the first one left
// from which on the value is the new one, 0 where none was seen.
func lateness(frames []Seen, setup *vendors.Setup, before local, c changed) (late, bound time.Duration) {
	old, now := before.intents(setup), c.intents(setup)
	for i := range frames {
		f := &frames[i]
		if !f.Left.After(c.acked) {
			continue
		}
		sent, got, rest := tagOf(f)
		switch {
		case rest != "":
		case wrote(sent, got, setup, old):
			late, bound = f.Left.Sub(c.acked), 0
		case bound == 0 && wrote(sent, got, setup, now):
			bound = f.Left.Sub(c.acked)
		}
	}
	return late, bound
}

// onWire waits until tags of every signal leave a port as they do with this value, for no
// longer than patience.
func (t *Trial) onWire(ctx context.Context, setup *vendors.Setup, l local, port int) (bool, error) {
	list := t.Listen()
	defer list.Close()
	intents := l.intents(setup)
	for until := time.Now().Add(t.patience()); ; {
		all := true
		for _, tci := range probes(setup) {
			got, err := t.one(ctx, list, port, tci)
			if err != nil {
				return false, err
			}
			all = all && wrote(tci, got, setup, intents)
		}
		if all || time.Now().After(until) {
			return all, nil
		}
	}
}

// patience is how long a new value may take to reach the wire: more than it should.
func (t *Trial) patience() time.Duration { return max(4*t.interval(), time.Second) }

// shows is onWire for what ports have to show.
func (t *Trial) shows(ctx context.Context, setup *vendors.Setup, l local, ports ...int) error {
	for _, port := range ports {
		all, err := t.onWire(ctx, setup, l, port)
		if err == nil {
			err = t.Positive("a new value reaches the wire", all, "not at %s within %v: see the experiments rule-key and rewrite", t.Ports[port].Name, t.patience())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one sends a tag out of a port and returns what it became; the sent one where it did not
// arrive.
func (t *Trial) one(ctx context.Context, l *Listener, to int, tci uint16) (uint16, error) {
	from, f := 1-to, Frame{To: to, Tags: VLAN(t.Profile.TPID, tci)}
	seq, bytes, err := t.Build(from, f)
	if err == nil {
		err = t.Send(from, bytes)
	}
	if err == nil {
		err = t.Sync(ctx, from, to)
	}
	if err != nil {
		return tci, err
	}
	for _, a := range l.Take() {
		if a.Seq == seq && a.Port == to {
			_, got, _ := tagOf(&Seen{Frame: f, Sent: bytes, Where: []Arrival{a}})
			return got, nil
		}
	}
	return tci, nil
}

// changes is how many of them hitless makes in a round.
const changes = 40

// asInUse has the driver wait behind the device's answers for as long as rule-change has
// measured, as it does with the facts of this run: without that, its steps overtake each other.
func (t *Trial) asInUse(ctx context.Context) (back func() error, err error) {
	back = func() error { return nil }
	if t.Waits == nil || t.Reopen == nil || t.runner == nil {
		return back, nil
	}
	r := t.runner.report.Result("rule-change")
	if r == nil || r.Outcome == NotTested {
		return back, nil
	}
	delay := r.duration("ack_to_wire_max_ms")
	if delay == nil {
		return back, nil
	}
	t.Waits(*delay)
	t.Note("the driver waits %v behind each answer of the device, as rule-change has measured", *delay)
	return func() error {
		t.Waits(0)
		return t.reopened(context.WithoutCancel(ctx))
	}, t.reopened(ctx)
}

// hitless changes what ports write under traffic.
func hitless(ctx context.Context, t *Trial) (err error) {
	back, err := t.asInUse(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back()) }()
	setup, err := t.program(ctx, step(0), heldFor)
	if err == nil {
		err = t.shows(ctx, &setup, step(0), both...)
	}
	if err != nil {
		return err
	}
	tags := probes(&setup)
	for _, sig := range setup.Signals { // tags that some values replace, and others leave
		for _, s := range []uint8{3, 10, 18, 26} {
			tags = append(tags, uint16(sig)<<13|setup.Layout.VID(s, probeLM))
		}
	}
	if err := t.undisturbed(ctx, both, tags, &setup, step(0).intents(&setup)); err != nil {
		return err
	}
	w := watched{}
	for _, port := range both {
		if err := w.changes(ctx, t, &setup, port, tags); err != nil {
			return err
		}
		if len(t.Faults) > 0 {
			break
		}
	}
	t.Measured("changes", float64(w.made))
	t.Measured("changes_counted", float64(w.counted))
	t.Measured("frames_lost", float64(w.lost))
	t.Measured("frames_wrong", float64(w.third))
	t.Measured("frames_per_s", float64(w.frames)/w.took.Seconds())
	t.Measured("resolution_ms", ms(w.gap))
	if len(t.Faults) == 0 {
		t.Found("each of %d frames out of %s arrived, with a value that was set; during %d of %d changes one was under way every %v or more often, and what lasts less may go unnoticed", w.frames, t.bothNames(), w.counted, w.made, w.gap.Round(time.Microsecond))
	}
	return nil
}

// changes makes changes at a port until enough of them count, or a fault is found there. What
// may be chance (a frame that is lost, doubled or altered elsewhere than in its tag) is a fault
// where it happens again, and not while nothing changes.
func (w *watched) changes(ctx context.Context, t *Trial, setup *vendors.Setup, port int, tags []uint16) error {
	list := []changed{{local: step(0)}} // of all rounds: a value may be late
	counted, frames := w.counted, 0
	w.odd = nil
	for range series {
		before := len(list)
		s, err := t.streamed(ctx, dense, []int{port}, tags, func(ctx context.Context) error {
			for range changes {
				c := changed{local: step(len(list)), began: time.Now()}
				if _, err := t.write(ctx, setup, c.local, heldFor, port); err != nil {
					return err
				}
				c.acked = time.Now()
				list = append(list, c)
				if err := vendors.Wait(ctx, 4*time.Millisecond); err != nil { // some frames before the next
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		w.see(t, s, list, before, setup)
		frames += len(s.frames)
		if len(t.Faults) == 0 && len(w.odd) > 0 {
			if err := w.same(ctx, t, port, tags, len(s.frames)); err != nil {
				return err
			}
		}
		if len(w.odd) >= recurs {
			t.Faults = append(t.Faults, w.odd[0])
		}
		if len(t.Faults) > 0 || len(w.odd) == 0 && enough(w.counted-counted, changes) {
			return nil
		}
	}
	if n := len(w.odd); n > 0 {
		return Cannot("%d of %d frames were lost or altered during changes, which is too few to tell from chance: %s", n, frames, w.odd[0].Text)
	}
	return Cannot("during %d of %d changes at %s no frame was under way for more than %v, or a twentieth of the change: what they do was not seen; a quieter machine is needed", len(list)-1-(w.counted-counted), len(list)-1, t.Ports[port].Name, near)
}

// recurs is how often something has to happen during changes before it is no chance.
const recurs = 3

// same is the error of a path that loses or alters frames while nothing changes, too: of as
// many frames as there were during changes.
func (w *watched) same(ctx context.Context, t *Trial, port int, tags []uint16, frames int) error {
	s, err := t.quiet(ctx, []int{port}, tags, frames)
	if err != nil {
		return err
	}
	for i := range s.frames {
		if _, _, rest := tagOf(&s.frames[i]); rest != "" {
			return Cannot("a frame %s while nothing changes, too: what happens during changes cannot be told from that: look at cables, queues and the load of both machines", rest)
		}
	}
	return nil
}

// near is how long during a change no frame may be under way for it to count; of one that
// takes long a twentieth of that.
const near = 5 * time.Millisecond

// watched is what hitless has seen.
type watched struct {
	made, counted       int // changes
	frames, lost, third int
	took, gap           time.Duration
	odd                 []Fault // of the port: what may be chance
}

// see judges the frames of a stream, and how closely they followed each other during the
// changes made under it, which are those of the list from since on.
func (w *watched) see(t *Trial, s *stream, list []changed, since int, setup *vendors.Setup) {
	for i := range s.frames {
		f := &s.frames[i]
		sent, got, rest := tagOf(f)
		switch {
		case rest == lost:
			w.lost++
			w.odd = append(w.odd, Fault{"change-loses-frames", fmt.Sprintf("a frame to %s is lost while its rules change, %v after the last change began", t.Ports[f.To].Name, sinceChange(list, f.Left))})
		case rest != "":
			w.third++
			w.odd = append(w.odd, Fault{"change-not-hitless", fmt.Sprintf("%v after a change of %s began, a frame with the tag %04x %s", sinceChange(list, f.Left), t.Ports[f.To].Name, sent, rest)})
		case !t.among(list, setup, f, sent, got):
			w.third++
			t.faultOnce("change-not-hitless", "%v after a change of %s began, the tag %04x left as %04x: neither the old nor the new value gives that", sinceChange(list, f.Left), t.Ports[f.To].Name, sent, got)
		}
	}
	w.made += len(list) - since
	w.frames, w.took = w.frames+len(s.frames), w.took+s.took
	for _, c := range list[since:] {
		if gap, ok := gapDuring(s.frames, c); ok && gap <= max(near, c.acked.Sub(c.began)/20) {
			w.counted, w.gap = w.counted+1, max(w.gap, gap)
		}
	}
}

// gapDuring is the longest time between two frames from the last before a change to the
// first after it; false where there is none before or after.
func gapDuring(frames []Seen, c changed) (gap time.Duration, ok bool) {
	for i := 1; i < len(frames); i++ {
		a, b := frames[i-1].Left, frames[i].Left
		if b.Before(c.began) || i == 1 && a.After(c.began) {
			continue
		}
		gap = max(gap, b.Sub(a))
		if !b.Before(c.acked) {
			return gap, !frames[0].Left.After(c.began)
		}
	}
	return gap, false
}

func sinceChange(list []changed, at time.Time) string {
	for i := len(list) - 1; i > 0; i-- {
		if !at.Before(list[i].began) {
			return fmt.Sprint(at.Sub(list[i].began).Round(10 * time.Microsecond))
		}
	}
	return "none"
}

// among tells whether a value gives this that may have been in force: it was set before
// the frame arrived, and replaced no longer before the frame left than patience. How late a
// value is, is for the experiment rule-change.
func (t *Trial) among(list []changed, setup *vendors.Setup, f *Seen, sent, got uint16) bool {
	for i, c := range list {
		replaced := i+1 < len(list) && list[i+1].acked.Add(t.patience()).Before(f.Left)
		if replaced || c.began.After(f.Where[0].At) {
			continue
		}
		if wrote(sent, got, setup, c.intents(setup)) {
			return true
		}
	}
	return false
}
