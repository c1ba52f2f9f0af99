package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Gate judges a wave when its steps are done, before the next begins. The
// error says what is wrong.
type Gate interface {
	// Before is called ahead of a wave, so that the gate can tell what the
	// wave has changed.
	Before(ctx context.Context, devices []string) error
	// After is called when every step of the wave has been read back.
	After(ctx context.Context, wave string, devices []string) (Judgement, error)
}

// Progress is one thing that happened in a run, for display.
type Progress struct {
	Event  Event
	Stage  string // name
	Wave   string
	Step   int // 0: not of one step
	Of     int // steps of the plan
	Device string
	Err    error
	Judged Judgement // of EventGate

	Within  time.Duration // of EventProved
	Reverts time.Duration // of EventAutoRevert: when the device auto-reverts; 0: it cannot, for Err
}

// Run carries out a plan, or undoes it, and writes every step down first.
type Run struct {
	Journal  *Journal
	Open     Open
	Gate     Gate           // nil: only the read-back
	Parallel int            // devices at once in a wave; 0: 1
	Limit    time.Duration  // for one step; 0: a minute
	Report   func(Progress) // may be nil; called by one goroutine at a time

	// Revert is how long a device with auto-revert waits for the confirmation of a
	// change, over a new connection; 0: no device is asked to.
	Revert time.Duration

	// StopAfter is the wave after whose gate Apply pauses; "" for none.
	StopAfter string

	mu       sync.Mutex               // guards Journal, Report and unproved while steps run side by side
	unproved map[string]time.Duration // how long the first fire of devices' dead-mans may take
}

// ErrPaused is the error of an Apply that stopped where it was asked to.
var ErrPaused = errors.New("paused")

// ErrStale is what errors of devices wrap whose setup is not the one that the
// plan was made against.
var ErrStale = errors.New("the plan is stale")

// ErrLacks is what errors wrap of a journal that knows less than the devices have:
// neither apply nor rollback can go on with it.
var ErrLacks = errors.New("the journal lacks its last lines")

// Apply carries out what the journal's plan has left. When ctx ends, no new
// step begins, those in progress are finished, and the error is ctx's cause. Any
// error leaves a journal that Apply continues and Rollback undoes.
func (r *Run) Apply(ctx context.Context) error {
	err := r.apply(ctx)
	if err != nil && !errors.Is(err, ErrNothingToDo) {
		// Best effort: without this record the journal says the same.
		_ = r.record(Record{Event: EventStop, Error: err.Error()}, Progress{Err: err})
	}
	return err
}

func (r *Run) apply(ctx context.Context) error {
	j := r.Journal
	if err := j.CheckFinished(false); err != nil {
		return err
	}
	if err := r.fresh(ctx); err != nil {
		return err
	}
	var last *plans.Stage
	for i := range j.state.plan.Stages {
		stage := &j.state.plan.Stages[i]
		for k := range stage.Waves {
			w := &stage.Waves[k]
			if j.state.gates[stage.Name+"/"+w.Name] {
				continue
			}
			if err := r.wave(ctx, stage, w, stage != last); err != nil {
				return err
			}
			last = stage
		}
	}
	if last != nil { // else fresh has just looked
		if err := r.verify(ctx); err != nil {
			return err
		}
	}
	return r.record(Record{Event: EventEnd}, Progress{})
}

// wave does what is left of a wave and puts it before the gate. The first one of
// a stage relies on all that the stages before it did.
func (r *Run) wave(ctx context.Context, stage *plans.Stage, w *plans.Wave, first bool) error {
	s := &r.Journal.state
	name := stage.Name + "/" + w.Name
	var todo []*plans.Step
	var devices []string
	for k := range w.Steps {
		devices = append(devices, w.Steps[k].Device)
		if s.last[w.Steps[k].ID] != EventDone {
			todo = append(todo, &w.Steps[k])
		}
	}
	if r.Gate != nil {
		r.report(Progress{Event: EventWatch, Stage: stage.Name, Wave: w.Name})
		if err := r.Gate.Before(ctx, devices); err != nil {
			return fmt.Errorf("gate before wave %s: %w", name, err)
		}
	}
	if first {
		err := r.reliedOn(ctx, false)
		if err == nil {
			err = r.verify(ctx)
		}
		if err != nil {
			return fmt.Errorf("before stage %s: %w", stage.Name, err)
		}
	}
	err := SideBySide(ctx, r.Parallel, todo, true, func(step *plans.Step) error {
		return r.step(ctx, step, step.Want, func(ctx context.Context, t Target) error {
			return setMTU(ctx, t, step.MTU, func(m plans.PortMTU) int { return m.To })
		}, EventStart, Progress{Stage: stage.Name, Wave: w.Name})
	})
	if err != nil {
		return err
	}
	if err := r.prove(ctx, r.unprovedOf(devices, todo), Progress{Stage: stage.Name, Wave: w.Name}); err != nil {
		return fmt.Errorf("after wave %s: %w", name, err)
	}
	var verdict string
	var judged Judgement
	if r.Gate != nil {
		r.report(Progress{Event: EventJudge, Stage: stage.Name, Wave: w.Name})
		if judged, err = r.Gate.After(ctx, name, devices); err != nil {
			if cause := context.Cause(ctx); errors.Is(err, cause) {
				return cause // it has not judged: another run will
			}
			verdict = err.Error()
		}
	}
	if e := r.record(Record{Event: EventGate, Wave: name, Error: verdict}, Progress{Stage: stage.Name, Wave: w.Name, Err: err, Judged: judged}); e != nil {
		return e
	}
	switch {
	case err != nil:
		return fmt.Errorf("gate after wave %s: %w", name, err)
	case r.StopAfter != "" && stops(r.StopAfter, stage, w):
		return fmt.Errorf("%w after wave %s", ErrPaused, name)
	}
	return nil
}

// stops reports whether a wave is the one to pause after: STAGE/WAVE, the wave of
// any stage, or the last of a stage.
func stops(after string, stage *plans.Stage, w *plans.Wave) bool {
	return after == stage.Name+"/"+w.Name || after == w.Name || after == stage.Name && w == &stage.Waves[len(stage.Waves)-1]
}

// HasWave reports whether a run can pause after that wave or stage.
func HasWave(p *plans.Plan, after string) bool {
	for i := range p.Stages {
		for k := range p.Stages[i].Waves {
			if stops(after, &p.Stages[i], &p.Stages[i].Waves[k]) {
				return true
			}
		}
	}
	return false
}

// step brings one device to a setup, or its ports to an MTU: EventStart does, and
// EventUndoing takes it back. A step that has begun is finished: only its own limit
// ends it, not the end of ctx. It does not begin on a device that cannot be reached
// or that another process has changed.
func (r *Run) step(ctx context.Context, step *plans.Step, want vendors.Setup, mtu func(ctx context.Context, t Target) error, start Event, p Progress) error {
	p.Step, p.Device = step.ID, step.Device
	begun := false
	err := with(context.WithoutCancel(ctx), r.Open, r.Limit, step.Device, func(ctx context.Context, t Target) error {
		if start == EventStart {
			if _, _, err := r.unchanged(ctx, t, step.Device); err != nil {
				return err
			}
		}
		if err := r.record(Record{Event: start, Step: step.ID, Device: step.Device}, p); err != nil {
			return err
		}
		begun = true
		if len(step.MTU) > 0 {
			return mtu(ctx, t)
		}
		mark, err := r.arm(ctx, t, step, p)
		if err == nil {
			err = applyAndVerify(ctx, t, want)
		}
		if err == nil && start == EventStart {
			r.askProof(ctx, t, step.Device)
		}
		if err == nil && mark != "" {
			err = r.confirm(ctx, step.Device, want, mark)
		}
		if err != nil && mark != "" && !errors.Is(err, vendors.ErrReverted) {
			err = fmt.Errorf("%w; it auto-reverts within %v to what it had before", err, r.Revert)
		}
		return err
	})
	done := Record{Event: EventDone, Step: step.ID, Device: step.Device}
	if start == EventUndoing {
		done.Event = EventUndone
	}
	if left := (*leftError)(nil); errors.As(err, &left) {
		done.Error, p.Err = left.Error(), left
		err = nil
	}
	switch {
	case err == nil:
		return r.record(done, p)
	case !begun:
		p.Event, p.Err = EventFailed, err
		r.report(p)
		return err
	}
	p.Err = err
	return errors.Join(p.Err, r.record(Record{Event: EventFailed, Step: step.ID, Device: step.Device, Error: p.Err.Error()}, p))
}

// arm starts the auto-revert of a device for what follows, where it has one, and
// journals that. The mark is "" where it has none.
func (r *Run) arm(ctx context.Context, t Target, step *plans.Step, p Progress) (string, error) {
	c, ok := vendors.As[vendors.AutoReverter](t)
	if !ok || r.Revert == 0 {
		return "", nil
	}
	mark, err := c.StartRevert(ctx, r.Revert)
	p.Reverts = r.Revert
	rec := Record{Event: EventAutoRevert, Step: step.ID, Device: step.Device}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		p.Reverts, p.Err, rec.Error = 0, err, err.Error()
	case err != nil:
		return "", fmt.Errorf("starting the auto-revert: %w", err)
	}
	return mark, r.record(rec, p)
}

// confirm reads a device back over a new connection and confirms the change: one
// that cuts csig off is not confirmed. A device that no longer waits is read back
// once more.
func (r *Run) confirm(ctx context.Context, device string, want vendors.Setup, mark string) error {
	t, err := r.Open(ctx, device)
	if err != nil {
		return fmt.Errorf("over a new connection after the change: %w", err)
	}
	defer t.Close()
	c, ok := vendors.As[vendors.AutoReverter](t)
	if !ok {
		return errors.New("it no longer accepts the confirmation of the change")
	}
	if err := readBack(ctx, t, want); err != nil {
		return fmt.Errorf("reading back over a new connection: %w", err)
	}
	err = c.Confirm(ctx, mark)
	if errors.Is(err, vendors.ErrReverted) {
		if late := readBack(ctx, t, want); late != nil {
			return fmt.Errorf("confirming the change: %w: %w", err, late)
		}
		return nil // nothing waits there, and it has what it should
	}
	if err != nil {
		return fmt.Errorf("confirming the change: %w", err)
	}
	return nil
}

// Rollback undoes what the journal says was begun, in the reverse order, until
// every device has the setup it had before. It begins only where the journal
// explains what every device has that can be read. It does not stop at a device that
// cannot be reached: the error names those, and another Rollback goes on with
// them.
func (r *Run) Rollback(ctx context.Context) error {
	j := r.Journal
	s := &j.state
	if err := j.CheckFinished(true); err != nil {
		return err
	}
	if err := r.explained(ctx); err != nil {
		return err
	}
	if err := r.reliedOn(ctx, true); err != nil {
		return err
	}
	if !s.rollback {
		if err := r.record(Record{Event: EventRollback}, Progress{}); err != nil {
			return err
		}
	}
	setups := r.undoSetups()
	var errs []error
	failed := map[string]bool{}
	for i := len(s.plan.Stages) - 1; i >= 0; i-- {
		stage := &s.plan.Stages[i]
		before := len(errs)
		for k := len(stage.Waves) - 1; k >= 0; k-- {
			w := &stage.Waves[k]
			var todo []*plans.Step
			for n := range w.Steps {
				step := &w.Steps[n]
				if e, begun := s.last[step.ID]; begun && e != EventUndone && !failed[step.Device] {
					todo = append(todo, step)
				}
			}
			err := SideBySide(ctx, r.Parallel, todo, false, func(step *plans.Step) error {
				err := r.step(ctx, step, setups[step.ID], func(ctx context.Context, t Target) error {
					return lowerMTU(ctx, t, step.MTU)
				}, EventUndoing, Progress{Stage: stage.Name, Wave: w.Name})
				if err != nil {
					r.mu.Lock()
					failed[step.Device] = true
					r.mu.Unlock()
				}
				return err
			})
			if err != nil {
				errs = append(errs, err)
			}
			if ctx.Err() != nil || j.err != nil {
				return errors.Join(errs...)
			}
		}
		// What a stage relies on is what the stages before it did: those are
		// undone only when it is undone everywhere.
		if len(errs) > before {
			return fmt.Errorf("%w\nwhat was done before stage %s stays until these devices are undone, too: csig rollback %s continues", errors.Join(errs...), stage.Name, untrusted.ShellWord(j.Path()))
		}
	}
	if err := r.restored(ctx); err != nil {
		return err
	}
	return r.record(Record{Event: EventEnd}, Progress{})
}

// undoSetups is, for each step, the setup its device had before it.
func (r *Run) undoSetups() map[int]vendors.Setup {
	s := &r.Journal.state
	last := map[string]vendors.Setup{}
	for device, setup := range s.before {
		last[device] = setup
	}
	out := map[int]vendors.Setup{}
	for step := range s.plan.Steps() {
		if _, begun := s.last[step.ID]; !begun || len(step.MTU) > 0 {
			continue
		}
		setup := last[step.Device]
		// A setup that was damaged before cannot be damaged again.
		setup = plans.Restored(setup, s.devices[step.Device].Gone)
		out[step.ID], last[step.Device] = setup, step.Want
	}
	return out
}

// record writes a record and reports it as progress.
func (r *Run) record(rec Record, p Progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Journal.write(rec); err != nil {
		return err
	}
	if r.Report != nil {
		p.Event, p.Of = rec.Event, len(r.Journal.state.all)
		r.Report(p)
	}
	return nil
}

// report passes on progress that is not journaled.
func (r *Run) report(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Report != nil {
		p.Of = len(r.Journal.state.all)
		r.Report(p)
	}
}
