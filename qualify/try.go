package qualify

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vlanrules"
)

// try runs one experiment. The error ends the run; with an outcome there is a result all the same.
func (r *runner) try(ctx context.Context, e *Experiment) (res Result, err error) {
	t := &Trial{Bench: r.Bench, runner: r, Result: newResult(e)}
	t.Began = time.Now().UTC()
	if err := r.lacks(ctx, e); err != nil {
		t.end(err)
		return t.Result, nil
	}
	if e.Needs.Driver || e.Needs.Update {
		err := r.swapped(ctx)
		if r.report.Touched {
			if err := r.undo(); err != nil {
				return res, err
			}
		}
		if err != nil {
			t.end(err)
			return t.Result, nil
		}
	}
	t.PCAP = filepath.Join("pcap", e.ID+".pcap")
	if r.report.Result(e.ID) != nil {
		t.PCAP = filepath.Join("pcap", e.ID+again)
	}
	stop, err := r.recordTo(filepath.Join(r.o.Folder, t.PCAP))
	if err != nil {
		return res, err
	}
	ran := t.run(ctx, e)
	err = stop()
	if r.report.Touched {
		err = errors.Join(err, r.undo())
	}
	if ctx.Err() != nil {
		return res, errors.Join(context.Cause(ctx), err)
	}
	t.end(ran)
	r.judge(&t.Result)
	t.Took = time.Since(t.Began)
	return t.Result, err
}

// run is e.Run; its panic is an error.
func (t *Trial) run(ctx context.Context, e *Experiment) (err error) {
	defer untrusted.Recover(&err)
	if t.runner.base {
		t.Note("the switch forwards nothing without a setup of csig: it has one that leaves all tags as they are")
		if err := t.Apply(ctx, t.Setup(vlanrules.Passthrough)); err != nil {
			return Cannot("the driver cannot apply a setup without rules: %v", err)
		}
	}
	if err := t.Learn(ctx); err != nil {
		return Cannot("%v", err)
	}
	for _, p := range t.Ports {
		p.taken = false
	}
	before, err := t.carriers()
	if err != nil {
		return err
	}
	if err := t.lossy(ctx); err != nil {
		return err
	}
	ran := e.Run(ctx, t)
	if !e.Needs.Destructive { // that restarts the switch
		if err := t.sameLinks(before); err != nil {
			return err
		}
	}
	if why := (*notTested)(nil); (ran == nil || errors.As(ran, &why)) && tooMany(t.returned, t.Frames.Sent) {
		return losesFrames(t.returned, t.Frames.Sent, "that did not arrive did so when they were sent again")
	}
	if ran != nil {
		return ran
	}
	t.byChance()
	return nil
}

// lacks is the error of what an experiment needs and is not there.
func (r *runner) lacks(ctx context.Context, e *Experiment) error {
	n := &e.Needs
	switch {
	case n.Switch && r.o.IsCable:
		return Cannot("there is no switch")
	case len(r.Ports) < n.Ports:
		return Cannot("%d cabled ports are needed: --port PORT=CARD for each", n.Ports)
	case n.LAG != r.lag:
		return r.aggregates(n.LAG)
	case n.Destructive && !r.o.Destructive:
		return Cannot("it fills tables or restarts the switch: --destructive allows it")
	case (n.Driver || n.Update) && r.Driver == nil:
		return Cannot("rules cannot be set from here: %s", r.NoWay)
	case n.Update:
		return r.canUpdate(ctx)
	}
	return nil
}

// canUpdate is the error of a switch whose tags no rule can replace from here.
func (b *Bench) canUpdate(ctx context.Context) error {
	if b.Driver == nil {
		return Cannot("rules cannot be set from here: %s", b.NoWay)
	}
	facts, err := b.Driver.Probe(ctx)
	if err != nil {
		return Cannot("probing %s: %v", b.Device.Name, err)
	}
	if v := facts.Updates(b.Profile.TPID); v.Level == vlanrules.Refused {
		return Cannot("its driver cannot replace tags: %s", v.Reason)
	}
	return nil
}

// judge takes the calibration into account: what the bench does itself is no fault of
// the switch.
func (r *runner) judge(res *Result) {
	if r.o.Calibration == nil || res.Outcome != Fail {
		return
	}
	own := r.o.Calibration.Result(res.ID)
	if own == nil || own.Outcome != Fail {
		return
	}
	for _, f := range res.Faults {
		if !slices.ContainsFunc(own.Faults, func(o Fault) bool { return o.Code == f.Code }) {
			return // a fault that the bench does not have
		}
	}
	res.Outcome, res.Found, res.Faults = NotTested, "the cards do the same without a switch: "+own.Found, []Fault{}
}
