package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// eachDevice opens devices, Parallel at a time, and has f read something there; stop is
// as for SideBySide.
func (r *Run) eachDevice(ctx context.Context, names []string, stop bool, f func(ctx context.Context, t Target, name string) error) error {
	return SideBySide(ctx, r.Parallel, names, stop, func(name string) error {
		return with(ctx, r.Open, r.Limit, name, func(ctx context.Context, t Target) error { return f(ctx, t, name) })
	})
}

// fresh refuses a plan that was made for another state of the fleet: every
// device has to have the setup that the plan was made against, or the one that
// this journal gave it. It keeps what each had before.
func (r *Run) fresh(ctx context.Context) error {
	if err := r.reliedOn(ctx, false); err != nil {
		return err
	}
	return r.eachDevice(ctx, r.Journal.state.names, true, func(ctx context.Context, t Target, name string) error {
		have, known, err := r.unchanged(ctx, t, name)
		if err != nil || known {
			return err
		}
		return r.record(Record{Event: EventBefore, Device: name, Setup: &have}, Progress{Device: name})
	})
}

// verify reads back every device that was changed so far: what comes next relies
// on all of them.
func (r *Run) verify(ctx context.Context) error {
	r.report(Progress{Event: EventVerify})
	var changed []string
	for _, name := range r.Journal.state.names {
		for _, s := range r.Journal.state.steps[name] {
			if r.last(s) == EventDone {
				changed = append(changed, name)
				break
			}
		}
	}
	return r.eachDevice(ctx, changed, true, func(ctx context.Context, t Target, name string) error {
		_, _, err := r.unchanged(ctx, t, name)
		return err
	})
}

// reliedOn refuses to go on where a device that the plan relies on, and does not change,
// has another setup than it had for the plan. To undo the plan, one that does not answer is
// no reason not to go on with the others.
func (r *Run) reliedOn(ctx context.Context, undo bool) error {
	hashes := map[string]string{}
	var names []string
	for _, d := range r.Journal.state.plan.RelyOn {
		hashes[d.Device] = d.ObservedHash
		names = append(names, d.Device)
	}
	err := r.eachDevice(ctx, names, !undo, func(ctx context.Context, t Target, name string) error {
		have, err := t.Observe(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("reading its setup, which the plan relies on: %w", err)
		case plans.SetupHash(&have) == hashes[name]:
			return nil
		case undo:
			return fmt.Errorf("%w: it relies on this device, whose setup has changed since: undo first what changed it (csig rollback of its journal), or take csig off with a plan (csig plan --remove)", ErrStale)
		case r.begun():
			return fmt.Errorf("%w: it relies on this device, whose setup has changed since: restore it, or undo the plan with csig rollback %s", ErrStale, untrusted.ShellWord(r.Journal.Path()))
		}
		return fmt.Errorf("%w: it relies on this device, whose setup has changed since it was made; make a new one with csig plan", ErrStale)
	})
	if undo && ctx.Err() == nil && !errors.Is(err, ErrStale) {
		return nil
	}
	return err
}

// last is the last event of a step, "" for one that has not begun.
func (r *Run) last(s *plans.Step) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Journal.state.last[s.ID]
}

// unchanged refuses a device that another process has changed since the plan was
// made or since this journal's last step there; one of which a step was cut off
// may have anything. It returns what the device has, and whether the journal
// keeps what it had before.
func (r *Run) unchanged(ctx context.Context, t Target, name string) (have vendors.Setup, known bool, err error) {
	want, known := r.expected(name)
	if !known || want != nil {
		if have, err = t.Observe(ctx); err != nil {
			return have, known, fmt.Errorf("reading its setup: %w", err)
		}
		// A step of this journal that was cut off is carried out again, which
		// ends what waits; anything else would be undone behind our back.
		if err := vendors.PendingRevert(ctx, t); err != nil {
			return have, known, err
		}
	}
	switch {
	case !known && plans.SetupHash(&have) != r.Journal.state.devices[name].ObservedHash:
		return have, known, fmt.Errorf("%w: its setup has changed since it was made; make a new one with csig plan", ErrStale)
	case want != nil:
		if err := verifySetup(t, have, *want); err != nil {
			if step := r.unexplained(t, name, have); step != nil {
				return have, known, fmt.Errorf("%w: device %s has the setup of step %d, and no such step began in it: find the whole journal; csig plan shows what the devices have, csig off takes csig off them", ErrLacks, name, step.ID)
			}
			return have, known, r.stale(err.Error())
		}
	}
	return have, known, r.unchangedMTU(ctx, t, name)
}

// stale is the error of a device that was changed by another during the run.
func (r *Run) stale(what string) error {
	if !r.begun() { // such a journal is removed
		return fmt.Errorf("%w: changed by another since csig began: %s; make a new one with csig plan", ErrStale, what)
	}
	return fmt.Errorf("%w: another process changed it while the plan was carried out: %s; restore it, or undo the plan with csig rollback %s", ErrStale, what, untrusted.ShellWord(r.Journal.Path()))
}

func (r *Run) begun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Journal.Started()
}

// unchangedMTU refuses an MTU that is neither what the plan found nor what it
// has set. A larger one than it has set does no harm.
func (r *Run) unchangedMTU(ctx context.Context, t Target, name string) error {
	var have map[string]int
	for _, s := range r.Journal.state.steps[name] {
		if len(s.MTU) == 0 {
			continue
		}
		if have == nil {
			m, ok := vendors.As[vendors.MTUSetter](t)
			if !ok {
				return errNoMTU
			}
			var err error
			if have, err = m.MTUs(ctx); err != nil {
				return fmt.Errorf("reading its MTUs: %w", err)
			}
		}
		last := r.last(s)
		for _, p := range s.MTU {
			now := have[p.Port]
			if now == p.From && last != EventDone || now == p.To && last != "" || now > p.To && last == EventDone {
				continue
			}
			if last == "" {
				return fmt.Errorf("%w: the MTU of port %s is %d, and was %d when it was made; make a new one with csig plan", ErrStale, p.Port, now, p.From)
			}
			return r.stale(fmt.Sprintf("the MTU of port %s is %d, want %d", p.Port, now, p.To))
		}
	}
	return nil
}

var errNoMTU = errors.New("csig cannot set the MTU of its ports")

// leftError says what an undoing has left alone, because another process had
// changed it meanwhile.
type leftError struct{ what string }

func (e *leftError) Error() string { return e.what }

// lowerMTU undoes a raised MTU where it is still the plan's. A *leftError tells
// of ports that another process has set to something else.
func lowerMTU(ctx context.Context, t Target, ports []plans.PortMTU) error {
	m, ok := vendors.As[vendors.MTUSetter](t)
	if !ok {
		return errNoMTU
	}
	have, err := m.MTUs(ctx)
	if err != nil {
		return fmt.Errorf("reading its MTUs: %w", err)
	}
	var ours []plans.PortMTU
	var left []string
	for _, p := range ports {
		if now := have[p.Port]; now == p.To || now == p.From {
			ours = append(ours, p)
		} else {
			left = append(left, fmt.Sprintf("the MTU of port %s is %d by now, neither what it was, %d, nor what the plan set, %d", p.Port, now, p.From, p.To))
		}
	}
	if err := setMTU(ctx, t, ours, func(p plans.PortMTU) int { return p.From }); err != nil {
		return err
	}
	if len(left) > 0 {
		return &leftError{"not restored: " + strings.Join(left, "; ")}
	}
	return nil
}

// expected is the setup that the journal left on a device; nil when a step of
// it was cut off, false when it has not been touched.
func (r *Run) expected(device string) (*vendors.Setup, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.Journal.state
	before, known := s.before[device]
	if !known {
		return nil, false
	}
	setup := &before
	for _, step := range r.Journal.state.steps[device] {
		if len(step.MTU) > 0 {
			continue
		}
		switch s.last[step.ID] {
		case EventDone:
			setup = &step.Want
		case EventStart, EventFailed, EventUndoing:
			return nil, true
		}
	}
	return setup, true
}

// explained refuses a journal that lacks its last lines: one with a device that
// has what only a step gives it that is not in the journal. A device that cannot
// be read, or that has anything else, is no reason not to undo the others.
func (r *Run) explained(ctx context.Context) error {
	r.report(Progress{Event: EventVerify})
	var mu sync.Mutex
	var lacks []string
	_ = r.eachDevice(ctx, r.Journal.state.names, false, func(ctx context.Context, t Target, name string) error { // its step reports an error
		have, err := t.Observe(ctx)
		if err != nil {
			return err
		}
		if step := r.unexplained(t, name, have); step != nil {
			mu.Lock()
			defer mu.Unlock()
			lacks = append(lacks, fmt.Sprintf("device %s has the setup of step %d", name, step.ID))
		}
		return nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(lacks) == 0 {
		return nil
	}
	slices.SortFunc(lacks, inventory.CompareNames)
	const most = 8
	if n := len(lacks); n > most {
		lacks = append(lacks[:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Errorf("%s: %w: %s, and no such step began in it; nothing was changed: find the whole journal; csig plan shows what the devices have, csig off takes csig off them", r.Journal.Path(), ErrLacks, strings.Join(lacks, ", "))
}

// unexplained is the step that gives a device what it has, where the journal has
// no record of that step, and of none that gives it the same; nil where there is
// no such step.
func (r *Run) unexplained(t Target, name string, have vendors.Setup) *plans.Step {
	before := r.before(name)
	is := func(want vendors.Setup) bool { return verifySetup(t, have, want) == nil }
	if is(before) {
		return nil
	}
	var found *plans.Step
	for _, s := range r.Journal.state.steps[name] {
		switch {
		case len(s.MTU) > 0 || !is(s.Want):
		case r.last(s) != "":
			return nil
		case found == nil:
			found = s
		}
	}
	return found
}

// before is what a device had before the plan.
func (r *Run) before(name string) vendors.Setup {
	if s, known := r.Journal.state.before[name]; known {
		return s
	}
	return r.Journal.state.devices[name].Observed
}

// restored reads back every device of the plan after a rollback, those included
// of which the journal knows no step: it may lack its last lines.
func (r *Run) restored(ctx context.Context) error {
	r.report(Progress{Event: EventVerify})
	return r.eachDevice(ctx, r.Journal.state.names, false, func(ctx context.Context, t Target, name string) error {
		before := r.before(name)
		if err := vendors.PendingRevert(ctx, t); err != nil {
			return err
		}
		have, err := t.Observe(ctx)
		if err != nil {
			return fmt.Errorf("reading its setup: %w", err)
		}
		if plans.SameSetup(&have, &before) {
			return nil
		}
		before = plans.Restored(before, r.Journal.state.devices[name].Gone)
		if err := verifySetup(t, have, before); err != nil {
			return fmt.Errorf("what it had before the plan is not what it has now, and the journal knows of no step that is left to undo: the journal lacks its last lines, or another process changed the device: %w; csig plan shows what it has, csig off --device %s takes it off", err, untrusted.ShellWord(name))
		}
		return nil
	})
}
