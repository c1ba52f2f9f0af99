package qualify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/vendors"
)

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
	if len(t.Faults) > 0 {
		t.Measured("wrong_max_ms", ms(w.wrong))
	} else {
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
				if err := t.flow(ctx, 4*time.Millisecond, 1); err != nil { // some frames before the next
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
		if len(t.Faults) > 0 {
			t.Faults[0].Text += fmt.Sprintf("; frames with such a tag were wrong or missing for up to %v at a time", w.wrong.Round(10*time.Microsecond))
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

// way is that of frames with a tag.
type way struct {
	to  int
	tci uint16
}

// watched is what hitless has seen.
type watched struct {
	made, counted       int // changes
	frames, lost, third int
	took, gap           time.Duration
	wrong               time.Duration // the longest that frames with one tag were wrong or missing, from the last before that were not to the first after
	odd                 []Fault       // of the port: what may be chance
}

// see judges the frames of a stream, and how closely they followed each other during the
// changes made under it, which are those of the list from since on.
func (w *watched) see(t *Trial, s *stream, list []changed, since int, setup *vendors.Setup) {
	right := map[way]time.Time{} // when the last frame left that was right
	open := map[way]time.Time{}  // the same of those that are not right now
	for i := range s.frames {
		f := &s.frames[i]
		sent, got, rest := tagOf(f)
		wrong := true
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
		default:
			wrong = false
		}
		to := way{f.To, sent}
		from, is := open[to]
		switch {
		case wrong && !is:
			open[to] = right[to]
			if right[to].IsZero() {
				open[to] = f.Left
			}
		case is:
			w.wrong = max(w.wrong, f.Left.Sub(from))
		}
		if !wrong {
			delete(open, to)
			right[to] = f.Left
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

// among reports whether a value gives this that may have been in force: it was set before
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
