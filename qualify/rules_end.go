package qualify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// state is what a port does with tags that every bucket replaces.
type state string

// What a port can do.
const (
	writes    state = "the value that was set"
	fallsBack state = "the fallback"
	untouched state = "the tag as it came"
	elseWrong state = "something else"
	mixed     state = "not the same for all tags and ports"
	losesAll  state = "nothing: frames with a tag are lost"
)

// stateOf is what became of one frame. Where the fallback leaves tags as they came, that
// is the fallback.
func (t *Trial) stateOf(s *Seen, setup *vendors.Setup, l local) state {
	sent, got, rest := tagOf(s)
	switch {
	case rest == lost:
		return losesAll
	case rest != "" && setup.OnStale == inventory.StaleStrip:
		return fallsBack
	case rest != "":
		return elseWrong
	case wrote(sent, got, setup, l.intents(setup)):
		return writes
	case wrote(sent, got, setup, setup.Fallback()):
		return fallsBack
	case wrote(sent, got, setup, nil):
		return untouched
	}
	return elseWrong
}

// look is what ports do now: mixed, where it is not the same.
func (t *Trial) look(ctx context.Context, setup *vendors.Setup, l local, ports ...int) (state, error) {
	var now state
	for _, port := range ports {
		seen, err := t.insist(ctx, 1-port, tagged(port, setup.TPID, probes(setup)...))
		if err != nil {
			return "", err
		}
		for i := range seen {
			s := t.stateOf(&seen[i], setup, l)
			if now != "" && s != now {
				return mixed, nil
			}
			now = s
		}
	}
	return now, nil
}

// held is what the experiments about an end set.
var held = local{20, 33}

// begin programs both ports, which have to show it. A lease of before may end later than a
// new one: an experiment about its end has no other.
func (t *Trial) begin(ctx context.Context, lease time.Duration) (vendors.Setup, error) {
	setup, err := t.program(ctx, held, lease)
	if err == nil {
		err = t.shows(ctx, &setup, held, both...)
	}
	return setup, err
}

// lease is the shortest that an agent asks for.
func (t *Trial) lease() time.Duration { return max(3*t.interval(), 300*time.Millisecond) }

// late is how much later than its end a lease may be over.
const late = 2 * time.Second

// sessionLost closes the driver and waits for the fallback.
func sessionLost(ctx context.Context, t *Trial) error {
	if t.Reopen == nil {
		return Cannot("the bench cannot open a second management session")
	}
	facts, err := t.Driver.Probe(ctx)
	if err != nil {
		return Cannot("probing the device: %v", err)
	}
	lease := t.lease()
	plain := t.Setup(vlanrules.Passthrough)
	if err := t.Apply(ctx, plain); err != nil {
		return Cannot("the driver cannot apply a setup without rules: %v", err)
	}
	if err := t.undisturbed(ctx, both, probes(&plain), &plain, nil); err != nil {
		return err
	}
	setup, err := t.begin(ctx, lease)
	if err != nil {
		return err
	}
	e := ending{Trial: t, setup: &setup, leased: facts.Lease.Level != vlanrules.Refused, asked: time.Now()}
	res, err := t.write(ctx, &setup, held, lease, both...)
	if err != nil {
		return err
	}
	e.acked, e.lasts = time.Now(), max(lease, res.Lease)
	if err := t.reopened(ctx); err != nil {
		return err
	}
	s, err := t.streamed(ctx, sparse, both, probes(&setup), e.watch)
	if err != nil {
		return err
	}
	t.Measured("lease_ms", ms(e.lasts))
	for _, port := range both {
		if err := e.judge(port, s.frames); err != nil {
			return err
		}
	}
	t.Measured("resolution_ms", ms(e.gap))
	if e.fallen == len(both) {
		t.Measured("fallback_after_lease_ms", ms(e.after))
	}
	switch {
	case len(t.Faults) > 0:
		return nil
	case e.fallen < len(both):
		t.Found("without a session the device still writes the last value, as its driver says: %s", facts.Lease.Reason)
		if c := facts.ConfigUpdates; c != nil && c.DeadMan != "" {
			t.Note("the dead-man is not tried here (%s): csig apply lets it fire once on each device", c.DeadMan)
		}
	default:
		t.Found("the device falls back by itself at the end of the lease: frames out of %s have %s after %v at the latest", t.bothNames(), fallsBack, e.after.Round(time.Microsecond))
	}
	// The next session finds the setup and continues with it.
	if _, err := t.write(ctx, &setup, held, heldFor, both...); err != nil {
		t.Fault("no-takeover", "a new session does not program the ports that it finds: %v", err)
		return nil
	}
	return t.shows(ctx, &setup, held, both...)
}

// ending is the end of a lease.
type ending struct {
	*Trial
	setup        *vendors.Setup
	leased       bool          // as the driver says
	lasts        time.Duration // the lease
	asked, acked time.Time

	fallen     int           // ports that have fallen back
	after, gap time.Duration // the longest
}

// watch waits until neither port has the last value any more.
func (e *ending) watch(ctx context.Context) error {
	l := e.Listen()
	defer l.Close()
	tcis, others := probes(e.setup), 0
	for i := 0; time.Since(e.acked) < e.lasts+late+e.interval(); i++ {
		tci := tcis[i/len(both)%len(tcis)]
		got, err := e.one(ctx, l, both[i%len(both)], tci)
		if err != nil {
			return err
		}
		others++
		if wrote(tci, got, e.setup, held.intents(e.setup)) {
			others = 0
		}
		if others == run {
			return vendors.Wait(ctx, 4*still)
		}
		if err := vendors.Wait(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// judge makes faults of what the frames out of a port show.
func (e *ending) judge(port int, all []Seen) error {
	var frames []*Seen
	var states []state
	for i := range all {
		if f := &all[i]; f.To == port {
			if n := len(frames); n > 0 {
				e.gap = max(e.gap, f.Left.Sub(frames[n-1].Left))
			}
			frames, states = append(frames, f), append(states, e.stateOf(f, e.setup, held))
		}
	}
	name, last := e.Ports[port].Name, lastWritten(states)
	if err := e.Positive("a frame has the value that was set before the session ends", last >= 0, "out of %s none had", name); err != nil {
		return err
	}
	if len(states)-last <= run {
		if e.leased {
			e.faultOnce("no-fallback", "the management session has ended, the lease of %v is over since %v, and frames out of %s still have the last value", e.lasts, late+e.interval(), name)
		}
		return nil
	}
	e.fallen++
	next := frames[last+1]
	after := max(0, next.Left.Sub(e.acked.Add(e.lasts))) // the gap behind the last with the value included
	e.after = max(e.after, after)
	if len(next.Where) > 0 && next.Where[0].At.Before(e.asked.Add(e.lasts)) {
		e.faultOnce("early-fallback", "frames out of %s have another value %v after the lease of %v was asked for", name, next.Left.Sub(e.asked).Round(time.Millisecond), e.lasts)
	}
	if i, st := odd(frames[last+1:], states[last+1:]); st != "" {
		e.faultOnce("wrong-fallback", "after the lease %s writes %s, and on_stale is %s: of %d frames after the last one with the value number %d, with the tag %x", name, st, e.setup.OnStale, len(states)-last-1, i+1, frames[last+1+i].Tags)
	}
	if after > late {
		e.faultOnce("late-fallback", "frames out of %s have the last value up to %v after the end of the lease", name, after.Round(time.Millisecond))
	}
	return nil
}

// run is how many frames in a row have to show something before it is believed: single
// ones are lost, delayed or doubled by chance.
const run = 8

// lastWritten is the last frame that has the value that was set, -1 for none.
func lastWritten(states []state) int {
	for i := len(states) - 1; i >= 0; i-- {
		if states[i] == writes {
			return i
		}
	}
	return -1
}

// odd is what a port does other than fall back, and with which frame first; "" for nothing.
// Every frame that arrives once has to be the fallback: none arrives with another value by
// chance. One that is lost or doubled may be; it counts where many are.
func odd(frames []*Seen, states []state) (at int, st state) {
	lost := 0
	for i, st := range states {
		switch f := frames[i]; {
		case st == fallsBack:
			continue
		case f.Count(f.To) == 1:
			return i, st
		}
		if lost++; lost > 2 && lost*12 >= len(states) {
			return i, st
		}
	}
	return 0, ""
}

// reopened ends the management session and begins another: a device may take a moment to
// notice that the first has ended.
func (t *Trial) reopened(ctx context.Context) error {
	if err := t.Driver.Close(); err != nil {
		return fmt.Errorf("ending the management session: %w", err)
	}
	for until := time.Now().Add(undoing); ; {
		d, err := t.Reopen(ctx)
		if err == nil {
			t.Driver = d
			return nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return fmt.Errorf("beginning a management session: %w", err)
		}
		if err := vendors.Wait(ctx, still); err != nil {
			return err
		}
	}
}

// linkUp is how long ports may take until they forward again: spanning tree.
const linkUp = time.Minute

// linkFlap takes the links of both cards down and up.
func linkFlap(ctx context.Context, t *Trial) error {
	for _, p := range t.Ports[:2] {
		if p.Link == nil {
			return Cannot("the link of card %s cannot be taken down from here", p.Card)
		}
	}
	setup, err := t.begin(ctx, heldFor)
	if err != nil {
		return err
	}
	for i := range 2 {
		if err := t.flap(ctx, i); err != nil {
			return err
		}
		if err := t.learn(ctx, linkUp); err != nil {
			return t.Positive("frames without a tag arrive after the links were down", false, "%v", err)
		}
		for port := range 2 {
			if err := t.after(ctx, &setup, i, port); err != nil || len(t.Faults) > 0 {
				return err
			}
		}
	}
	t.Found("the rules of %s are in effect after the links of both were down", t.bothNames())
	return nil
}

// after looks at a port's rules after the link of a port was down.
func (t *Trial) after(ctx context.Context, setup *vendors.Setup, down, port int) error {
	now, err := t.look(ctx, setup, held, port)
	if err != nil || now == writes {
		return err
	}
	t.Fault("lost-by-link-flap", "after the link of %s was down, %s writes %s", t.Ports[down].Name, t.Ports[port].Name, now)
	if _, err := t.write(ctx, setup, held, heldFor, port); err != nil {
		return err
	}
	again, err := t.look(ctx, setup, held, port)
	if err != nil {
		return err
	}
	t.Note("after the next update it writes %s", again)
	if have, err := t.Driver.Observe(ctx); err == nil && !have.Nothing() && have.Damaged == "" && again != writes {
		t.Note("the device says that the setup is as it was")
	}
	return nil
}

// flap takes a card's link down and up.
func (t *Trial) flap(ctx context.Context, port int) error {
	p := t.Ports[port]
	if err := t.downNoted(p.Card); err != nil { // before it is so: a kill in between leaves a trace
		return err
	}
	p.taken = true
	if err := p.Link(false); err != nil {
		return fmt.Errorf("taking card %s down: %w", p.Card, err)
	}
	err := vendors.Wait(ctx, still)
	if up := p.Link(true); up != nil {
		return fmt.Errorf("bringing card %s up: %w", p.Card, up)
	}
	return errors.Join(err, t.downNoted(""))
}

// downNoted writes down which card's link is down.
func (t *Trial) downNoted(card string) error {
	if t.runner == nil {
		return nil
	}
	t.runner.report.LinkDown = card
	return t.runner.save()
}
