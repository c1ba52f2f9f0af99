package qualify

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// changed is one change of what a port writes.
type changed struct {
	local
	began, acked time.Time
	ops          int
}

// step is the n-th value that changes lead to: neighbours differ in S and in locator, so
// that what mixes two of them is none.
func step(n int) local {
	buckets := [...]uint8{5, 20, 12, 28, 2, 17, 9, 24}
	return local{buckets[n%len(buckets)], uint16(11 + n%40)}
}

// interval is the domain's, within which a rule has to be on the wire.
func (t *Trial) interval() time.Duration { return cmp.Or(t.Profile.Interval, time.Second) }

// timed is how many changes are measured.
const timed = 16

// ruleChange measures the time of changes, and of frames behind the device's answer that
// still have the old value.
func ruleChange(ctx context.Context, t *Trial) error {
	setup, err := t.program(ctx, 1, step(0), heldFor)
	if err != nil {
		return err
	}
	if err := t.shows(ctx, &setup, step(0)); err != nil {
		return err
	}
	var list []changed
	s, err := t.streamed(ctx, dense, probes(&setup), func(ctx context.Context) error {
		for n := 1; n <= timed; n++ {
			c := changed{local: step(n), began: time.Now()}
			res, err := t.update(ctx, &setup, 1, c.local, heldFor)
			if err != nil {
				return err
			}
			c.acked, c.ops = time.Now(), res.Ops
			list = append(list, c)
			if err := t.shows(ctx, &setup, c.local); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var acks, late []time.Duration
	for i, c := range list {
		acks = append(acks, c.acked.Sub(c.began))
		late = append(late, lateness(s, &setup, step(i), c.acked))
	}
	worst := quantile(late, 1)
	t.Measured("change_median_ms", ms(quantile(acks, 0.5)))
	t.Measured("change_max_ms", ms(quantile(acks, 1)))
	t.Measured("ack_to_wire_median_ms", ms(quantile(late, 0.5)))
	t.Measured("ack_to_wire_max_ms", ms(worst))
	t.Measured("resolution_ms", ms(s.gap))
	longest := quantile(acks, 1)
	if worst > t.interval() {
		t.Fault("late-on-wire", "the device acknowledges a change, and frames that are sent up to %v later have the old value: that is more than the domain's interval of %v", worst.Round(time.Millisecond), t.interval())
		return nil
	}
	t.Found("the device acknowledges a change within %v (median of %d: %v); %s", longest.Round(time.Microsecond), len(acks), quantile(acks, 0.5).Round(time.Microsecond), soon(worst, s.gap))
	return nil
}

// soon says when frames have a new value.
func soon(worst, resolution time.Duration) string {
	if worst == 0 {
		return fmt.Sprintf("every frame that was sent after that, one every %v at least, has the new value", resolution.Round(time.Microsecond))
	}
	return fmt.Sprintf("frames that are sent up to %v after that have the old value", worst.Round(time.Microsecond))
}

// lateness is how long after the device's answer the last frame left that still has the
// value of before; 0 where none does.
func lateness(s *stream, setup *vendors.Setup, before local, acked time.Time) (d time.Duration) {
	intents := before.intents(setup)
	for i := range s.frames {
		f := &s.frames[i]
		if !f.Left.After(acked) {
			continue
		}
		if sent, got, rest := tagOf(f); rest == "" && wrote(sent, got, setup, intents) {
			d = f.Left.Sub(acked)
		}
	}
	return d
}

// onWire waits until tags of every signal leave a port as they do with this value, for no
// longer than patience.
func (t *Trial) onWire(ctx context.Context, setup *vendors.Setup, port int, l local) (bool, error) {
	list := t.Listen()
	defer list.Close()
	intents := l.intents(setup)
	for until := time.Now().Add(t.patience()); ; {
		all := true
		for _, tci := range probes(setup) {
			got, err := t.one(ctx, list, 1-port, port, tci)
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

// shows is onWire for what port 1 has to show.
func (t *Trial) shows(ctx context.Context, setup *vendors.Setup, l local) error {
	all, err := t.onWire(ctx, setup, 1, l)
	if err != nil {
		return err
	}
	return t.Positive("a new value reaches the wire", all, "not within %v: see the experiments rule-key and rewrite", t.patience())
}

// one sends a tag and returns what it became; the sent one where it did not arrive.
func (t *Trial) one(ctx context.Context, l *Listener, from, to int, tci uint16) (uint16, error) {
	f := Frame{To: to, Tags: VLAN(t.Profile.TPID, tci)}
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

// changes is how many of them hitless makes.
const changes = 40

// hitless changes what a port writes under traffic.
func hitless(ctx context.Context, t *Trial) error {
	setup, err := t.program(ctx, 1, step(0), heldFor)
	if err != nil {
		return err
	}
	if err := t.shows(ctx, &setup, step(0)); err != nil {
		return err
	}
	tags := probes(&setup)
	for _, sig := range setup.Signals { // tags that some values replace, and others leave
		for _, s := range []uint8{3, 10, 18, 26} {
			tags = append(tags, uint16(sig)<<13|setup.Layout.VID(s, probeLM))
		}
	}
	if err := t.undisturbed(ctx, tags, &setup, step(0)); err != nil {
		return err
	}
	list := []changed{{local: step(0)}}
	s, err := t.streamed(ctx, dense, tags, func(ctx context.Context) error {
		for n := 1; n <= changes; n++ {
			c := changed{local: step(n), began: time.Now()}
			res, err := t.update(ctx, &setup, 1, c.local, heldFor)
			if err != nil {
				return err
			}
			c.acked, c.ops = time.Now(), res.Ops
			list = append(list, c)
			if err := t.wait(ctx, 4*time.Millisecond); err != nil { // some frames before the next
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	lostFrames, third := 0, 0
	for i := range s.frames {
		f := &s.frames[i]
		sent, got, rest := tagOf(f)
		switch {
		case rest == lost:
			if lostFrames++; lostFrames == 1 {
				t.Fault("change-loses-frames", "a frame is lost while rules change, %v after the last change began", sinceChange(list, f.Left))
			}
		case rest != "" || !t.among(list, &setup, f, sent, got):
			if third++; third == 1 {
				t.Fault("change-not-hitless", "%v after a change began, the tag %04x left as %04x%s: neither the old nor the new value gives that", sinceChange(list, f.Left), sent, got, rest)
			}
		}
	}
	t.Measured("changes", float64(len(list)-1))
	t.Measured("frames_lost", float64(lostFrames))
	t.Measured("frames_wrong", float64(third))
	t.Measured("frames_per_s", float64(len(s.frames))/s.took.Seconds())
	t.Measured("resolution_ms", ms(s.gap))
	if lostFrames == 0 && third == 0 {
		t.Found("each of %d frames during %d changes arrived, with a value that was set; what lasts less than %v may go unnoticed", len(s.frames), len(list)-1, s.gap.Round(time.Microsecond))
	}
	return nil
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
