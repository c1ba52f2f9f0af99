package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

	Reverts time.Duration // of EventArmed: when the device goes back; 0: it cannot, for Err
}

// Run carries out a plan, or undoes it, and writes every step down first.
type Run struct {
	Journal  *Journal
	Open     Open
	Gate     Gate           // nil: only the read-back
	Parallel int            // devices at once in a wave; 0: 1
	Limit    time.Duration  // for one step; 0: a minute
	Report   func(Progress) // nil: nobody watches; called by one goroutine at a time

	// Revert is how long a device that can take a change back by itself waits
	// for its confirmation, over a new connection; 0: no device is asked to.
	Revert time.Duration

	// StopAfter is the wave after whose gate Apply pauses; "" for none.
	StopAfter string

	of int        // steps of the plan
	mu sync.Mutex // guards Journal and Report while steps run side by side
}

// ErrPaused is the error of an Apply that stopped where it was asked to.
var ErrPaused = errors.New("paused")

// ErrStale is what errors of devices wrap whose setup is not the one that the
// plan was made against.
var ErrStale = errors.New("the plan is stale")

// Apply carries out what the journal's plan has left. When ctx ends, no new
// step begins, those in hand are finished, and the error is ctx's cause. Any
// error leaves a journal that Apply continues and Rollback undoes.
func (r *Run) Apply(ctx context.Context) error {
	err := r.apply(ctx)
	if err != nil {
		// Best effort: without this record the journal says the same.
		_ = r.record(Record{Event: EventStop, Error: err.Error()}, Progress{Err: err})
	}
	return err
}

func (r *Run) apply(ctx context.Context) error {
	j := r.Journal
	r.count()
	switch {
	case j.state.rollback:
		return errors.New("the journal is of a plan that is being undone: finish that with csig rollback " + j.Path())
	case j.state.ended:
		return errors.New("the journal's plan is complete: there is nothing left to do; csig rollback undoes it")
	}
	if err := r.fresh(ctx); err != nil {
		return err
	}
	for i := range j.state.plan.Stages {
		stage := &j.state.plan.Stages[i]
		for k := range stage.Waves {
			if err := r.wave(ctx, stage, &stage.Waves[k]); err != nil {
				return err
			}
		}
	}
	return r.record(Record{Event: EventEnd}, Progress{})
}

// fresh refuses a plan that was made for another state of the fleet: every
// device has to have the setup that the plan was made against, or the one that
// this journal gave it. It keeps what each had before.
func (r *Run) fresh(ctx context.Context) error {
	plan := r.Journal.state.plan
	var touched []string
	for s := range plan.steps() {
		if !slices.Contains(touched, s.Device) {
			touched = append(touched, s.Device)
		}
	}
	return r.each(ctx, touched, func(name string) error {
		want, known := r.expected(name)
		if known && want == nil {
			return nil // a step was cut off: it is made anew
		}
		have, err := r.observe(ctx, name)
		if err != nil {
			return err
		}
		if !known {
			if h := hash(&have); h != plan.device(name).ObservedHash {
				return fmt.Errorf("device %s: %w: its setup has changed since it was made; make a new one with csig plan", name, ErrStale)
			}
			return r.record(Record{Event: EventBefore, Device: name, Setup: &have}, Progress{Device: name})
		}
		if hash(&have) != hash(want) {
			return fmt.Errorf("device %s: %w: somebody changed its setup while the plan was carried out; put it back, or undo the plan with csig rollback %s", name, ErrStale, r.Journal.Path())
		}
		return nil
	})
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
	for step := range s.plan.steps() {
		if step.Device != device || len(step.MTU) > 0 {
			continue
		}
		switch s.steps[step.ID] {
		case EventDone:
			setup = &step.Want
		case EventStart, EventFailed, EventUndoing:
			return nil, true
		}
	}
	return setup, true
}

func (r *Run) observe(ctx context.Context, device string) (vendors.Setup, error) {
	t, err := r.Open(ctx, device)
	if err != nil {
		return vendors.Setup{}, fmt.Errorf("device %s: %w", device, err)
	}
	defer t.Close()
	have, err := t.Observe(ctx)
	if err != nil {
		return vendors.Setup{}, fmt.Errorf("device %s: reading its setup: %w", device, err)
	}
	return have, nil
}

// wave does what is left of a wave and puts it before the gate.
func (r *Run) wave(ctx context.Context, stage *Stage, w *Wave) error {
	s := &r.Journal.state
	name := stage.Name + "/" + w.Name
	if s.gates[name] {
		return nil
	}
	var todo []*Step
	var devices []string
	for k := range w.Steps {
		devices = append(devices, w.Steps[k].Device)
		if s.steps[w.Steps[k].ID] != EventDone {
			todo = append(todo, &w.Steps[k])
		}
	}
	if r.Gate != nil {
		r.tell(Progress{Event: EventWatch, Stage: stage.Name, Wave: w.Name})
		if err := r.Gate.Before(ctx, devices); err != nil {
			return fmt.Errorf("gate before wave %s: %w", name, err)
		}
	}
	byDevice := map[string]*Step{}
	var order []string
	for _, step := range todo {
		byDevice[step.Device] = step
		order = append(order, step.Device)
	}
	err := r.each(ctx, order, func(device string) error {
		step := byDevice[device]
		return r.step(ctx, step, step.Want, func(ctx context.Context, t Target) error {
			return setMTU(ctx, t, step.MTU, func(m PortMTU) int { return m.To })
		}, EventStart, EventDone, stage.Name, w.Name)
	})
	if err != nil {
		return err
	}
	var verdict string
	var judged Judgement
	if r.Gate != nil {
		r.tell(Progress{Event: EventJudge, Stage: stage.Name, Wave: w.Name})
		if judged, err = r.Gate.After(ctx, name, devices); err != nil {
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

// stops tells whether a wave is the one to pause after: STAGE/WAVE, the wave of
// any stage, or the last of a stage.
func stops(after string, stage *Stage, w *Wave) bool {
	return after == stage.Name+"/"+w.Name || after == w.Name || after == stage.Name && w == &stage.Waves[len(stage.Waves)-1]
}

// HasWave tells whether a run can pause after that wave or stage.
func (p *Plan) HasWave(after string) bool {
	for i := range p.Stages {
		for k := range p.Stages[i].Waves {
			if stops(after, &p.Stages[i], &p.Stages[i].Waves[k]) {
				return true
			}
		}
	}
	return false
}

// step brings one device to a setup, or its ports to an MTU. A step that has begun
// is finished: only its own limit ends it, not the end of ctx.
func (r *Run) step(ctx context.Context, step *Step, want vendors.Setup, mtu func(ctx context.Context, t Target) error, start, done Event, stage, wave string) error {
	p := Progress{Stage: stage, Wave: wave, Step: step.ID, Device: step.Device}
	if err := r.record(Record{Event: start, Step: step.ID, Device: step.Device}, p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(r.Limit, time.Minute))
	defer cancel()
	err := func() error {
		t, err := r.Open(ctx, step.Device)
		if err != nil {
			return err
		}
		defer t.Close()
		if len(step.MTU) > 0 {
			return mtu(ctx, t)
		}
		mark, err := r.arm(ctx, t, step, p)
		if err == nil {
			err = bring(ctx, t, want)
		}
		if err != nil || mark == "" {
			return err
		}
		return r.confirm(ctx, step.Device, want, mark)
	}()
	if err != nil {
		err = fmt.Errorf("device %s: %w", step.Device, err)
		p.Err = err
		return errors.Join(err, r.record(Record{Event: EventFailed, Step: step.ID, Device: step.Device, Error: err.Error()}, p))
	}
	return r.record(Record{Event: done, Step: step.ID, Device: step.Device}, p)
}

// arm has a device take what follows back by itself, where it can, and writes
// that down. The mark is "" where it cannot.
func (r *Run) arm(ctx context.Context, t Target, step *Step, p Progress) (string, error) {
	c, ok := t.(vendors.Confirmer)
	if !ok || r.Revert == 0 {
		return "", nil
	}
	mark, err := c.Arm(ctx, r.Revert)
	p.Reverts = r.Revert
	rec := Record{Event: EventArmed, Step: step.ID, Device: step.Device}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		p.Reverts, p.Err, rec.Error = 0, err, err.Error()
	case err != nil:
		return "", fmt.Errorf("arming it to go back by itself: %w", err)
	}
	return mark, r.record(rec, p)
}

// confirm reads a device back over a connection of its own and has it keep what
// it has: a change that cuts csig off is not confirmed.
func (r *Run) confirm(ctx context.Context, device string, want vendors.Setup, mark string) error {
	back := fmt.Errorf("it goes back by itself within %v to what it had before", r.Revert)
	t, err := r.Open(ctx, device)
	if err != nil {
		return fmt.Errorf("over a new connection after the change: %w; %w", err, back)
	}
	defer t.Close()
	have, err := t.Observe(ctx)
	if err == nil {
		err = differs(t, have, want)
	}
	if err != nil {
		return fmt.Errorf("reading back over a new connection: %w; %w", err, back)
	}
	c, ok := t.(vendors.Confirmer)
	if !ok {
		return fmt.Errorf("it cannot be told to keep the change any more: %w", back)
	}
	if err := c.Confirm(ctx, mark); err != nil {
		return fmt.Errorf("telling it to keep the change: %w", err)
	}
	return nil
}

// Rollback undoes what the journal says was begun, in the reverse order, until
// every device has the setup it had before. It does not stop at a device that
// cannot be reached: the error names those, and another Rollback goes on with
// them.
func (r *Run) Rollback(ctx context.Context) error {
	j := r.Journal
	s := &j.state
	r.count()
	if s.rollback && s.ended {
		return errors.New("the journal's plan is already undone")
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
			byDevice := map[string]*Step{}
			var order []string
			for n := range w.Steps {
				step := &w.Steps[n]
				if e, begun := s.steps[step.ID]; begun && e != EventUndone && !failed[step.Device] {
					byDevice[step.Device] = step
					order = append(order, step.Device)
				}
			}
			err := r.every(ctx, order, func(device string) error {
				step := byDevice[device]
				err := r.step(ctx, step, setups[step.ID], func(ctx context.Context, t Target) error {
					return setMTU(ctx, t, step.MTU, func(m PortMTU) int { return m.From })
				}, EventUndoing, EventUndone, stage.Name, w.Name)
				if err != nil {
					r.mu.Lock()
					failed[device] = true
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
			return fmt.Errorf("%w\nwhat was done before stage %s stays until these devices are undone, too: csig rollback %s goes on", errors.Join(errs...), stage.Name, j.Path())
		}
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
	for step := range s.plan.steps() {
		if _, begun := s.steps[step.ID]; !begun || len(step.MTU) > 0 {
			continue
		}
		setup := last[step.Device]
		// A setup that was damaged before cannot be damaged again.
		setup.Damaged, setup.Ports = "", undamaged(setup.Ports)
		out[step.ID], last[step.Device] = setup, step.Want
	}
	return out
}

// each runs f for every name, Parallel at a time, and begins no more after an
// error or the end of ctx.
func (r *Run) each(ctx context.Context, names []string, f func(name string) error) error {
	return r.pool(ctx, names, true, f)
}

// every is each, but goes on after an error.
func (r *Run) every(ctx context.Context, names []string, f func(name string) error) error {
	return r.pool(ctx, names, false, f)
}

func (r *Run) pool(ctx context.Context, names []string, stop bool, f func(name string) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, max(1, r.Parallel))
	for _, name := range names {
		slots <- struct{}{}
		mu.Lock()
		halt := ctx.Err() != nil || stop && len(errs) > 0
		mu.Unlock()
		if halt {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(name); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	return errors.Join(errs...)
}

// record writes a record and tells whoever watches.
func (r *Run) record(rec Record, p Progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Journal.write(rec); err != nil {
		return err
	}
	if r.Report != nil {
		p.Event, p.Of = rec.Event, r.of
		r.Report(p)
	}
	return nil
}

// tell tells whoever watches of what is not written down.
func (r *Run) tell(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Report != nil {
		p.Of = r.of
		r.Report(p)
	}
}

func (r *Run) count() {
	r.of = 0
	for range r.Journal.state.plan.steps() {
		r.of++
	}
}
