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

// enough reports whether so many changes count of those that should.
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
	for a := within(t.patience()); ; {
		all := true
		for _, tci := range probes(setup) {
			got, err := t.one(ctx, list, port, tci)
			if err != nil {
				return false, err
			}
			all = all && wrote(tci, got, setup, intents)
		}
		if all || a.over() {
			return all, nil
		}
		if err := vendors.Wait(ctx, t.Settle); err != nil {
			return false, err
		}
	}
}

// patience is how long a new value may take to reach the wire: more than it should.
func (t *Trial) patience() time.Duration { return max(4*t.interval(), time.Second) }

// attempts are those within patience, and fewest at least: a machine that was held up for all of
// it has hardly asked.
type attempts struct {
	until time.Time
	made  int
}

const fewest = 5

func within(patience time.Duration) attempts { return attempts{until: time.Now().Add(patience)} }

// over is called after each one.
func (a *attempts) over() bool {
	a.made++
	return a.made >= fewest && time.Now().After(a.until)
}

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
