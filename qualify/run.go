package qualify

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Options is how a run is to be.
type Options struct {
	Experiments  []Experiment // all that there are
	Only         []string     // run these; empty: all, or with Resume those that the run has begun with
	Folder       string       // for the report; it is made
	Resume       bool         // continue what the folder's report has
	Destructive  bool         // allow experiments that fill tables or restart the switch
	AllowForeign bool         // run in spite of foreign frames at the ports

	Quiet time.Duration // for how long no foreign frame may arrive before the start
	Start time.Duration // for how long the first frames may take: spanning tree; 0: 45 s

	About       About   // the switch
	Calibration *Report // of the cards; nil: none
	IsCable     bool    // there is no switch: this run is a calibration
	Version     string  // of csig

	// Progress is called when an experiment begins, without an outcome, and when it has
	// ended; in between, where it waits for long, with what it waits for in Found; before the first one without an ID, with a title that says what happens.
	Progress func(done, of int, r *Result)
}

// undoing is how long the removal of a setup may take.
const undoing = 30 * time.Second

// Run carries out experiments and keeps the report in its folder up to date. Whatever
// happens, the device is left without a setup of csig, or the error and the report say
// that it has one. The error is also that ctx has ended: Resume continues then.
func Run(ctx context.Context, b *Bench, o Options) (report *Report, err error) {
	clean(&o.About)
	if err := identify(ctx, b, &o.About); err != nil {
		return nil, err
	}
	r, err := open(b, &o)
	if err != nil {
		return nil, err
	}
	if err := b.connected(); err != nil {
		return nil, err
	}
	run := rand.Text()
	b.Start(binary.BigEndian.Uint64([]byte(run)))
	if err := r.clean(ctx); err != nil {
		return nil, err
	}
	r.tell(Result{Title: "listening for other traffic at the cards"})
	if err := b.Foreign(ctx, o.Quiet); err != nil && (ctx.Err() != nil || !o.AllowForeign) {
		return nil, err
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return nil, err
	}
	if err := r.save(); err != nil {
		return nil, err
	}
	r.tell(Result{Title: "waiting until frames without a tag pass"})
	if err := r.first(ctx); err != nil {
		return nil, err
	}
	for _, e := range r.todo {
		r.tell(Result{ID: e.ID, Title: e.Title})
		res, err := r.try(ctx, e)
		if res.Outcome != "" { // also where the setup could not be removed: or --resume would do the same again
			err = errors.Join(err, r.take(&res))
		}
		if err != nil {
			return r.report, err
		}
		r.done++
		r.tell(res)
	}
	r.report.Complete = len(r.lacking()) == 0
	return r.report, r.save()
}

// identify takes the model and the version from what the switch reports. The error is
// that it reports others than were given.
func identify(ctx context.Context, b *Bench, about *About) error {
	if b.Driver == nil {
		return nil
	}
	facts, err := b.Driver.Probe(ctx)
	if err != nil {
		return fmt.Errorf("probing %s: %w", b.Device.Name, err)
	}
	for _, one := range []struct {
		what, reported string
		given          *string
	}{{"model", facts.Identity.Model, &about.Model}, {"version", facts.Identity.Version, &about.Version}} {
		reported := line(one.reported)
		if reported != "" && *one.given != "" && !strings.EqualFold(reported, *one.given) {
			return fmt.Errorf("--%s %s: %s reports %s: leave --%s out", one.what, *one.given, b.Device.Name, reported, one.what)
		}
		if reported != "" {
			*one.given = reported
		}
	}
	return nil
}

// runner is one run.
type runner struct {
	*Bench
	o      *Options
	report *Report
	todo   []*Experiment // of this call
	done   int           // of these
	base   bool          // the switch forwards nothing without a setup
	bare   bool          // it did not before its first one

	looked  bool // whether the cables are swapped
	crossed error
}

func (r *runner) tell(res Result) {
	if r.o.Progress != nil {
		r.o.Progress(r.done, len(r.todo), &res)
	}
}

// clean sees to it that the device has no setup of csig: of an interrupted run it removes
// it, another's is an error.
func (r *runner) clean(ctx context.Context) error {
	if r.Driver == nil {
		return nil
	}
	have, err := r.Driver.Observe(ctx)
	if err != nil {
		return fmt.Errorf("reading the setup of %s: %w", r.Device.Name, err)
	}
	switch {
	case have.Nothing():
		return r.untouched()
	case !r.report.Touched:
		return fmt.Errorf("%s has a setup of csig: stop its agent, and csig off --device %s removes it", r.Device.Name, r.Device.Name)
	}
	return r.undo()
}

// first waits until frames without a tag pass. Some switches forward nothing before csig
// has set them up, e.g. a bridge of Open vSwitch that is csig's alone: they get a setup
// that leaves all tags as they are, and again for each experiment unless they forward
// without it then.
func (r *runner) first(ctx context.Context) error {
	start := cmp.Or(r.o.Start, 45*time.Second)
	if r.Driver == nil {
		return r.explore(ctx, start)
	}
	if err := r.explore(ctx, r.Patience); err == nil || ctx.Err() != nil {
		return err
	}
	t := &Trial{Bench: r.Bench, runner: r}
	err := t.Apply(ctx, r.Setup(vlanrules.Passthrough))
	if err == nil {
		err = r.explore(ctx, start)
	}
	if err := errors.Join(err, r.undo()); err != nil {
		return fmt.Errorf("with a setup of csig or without: %w", err)
	}
	r.bare, r.base = true, r.Learn(ctx) != nil
	return context.Cause(ctx)
}

// undo removes the setup, also after ctx has ended.
func (r *runner) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), undoing)
	defer cancel()
	left := func(err error) error {
		return fmt.Errorf("%s still has a setup of csig: --resume or csig off --device %s removes it: %w", r.Device.Name, r.Device.Name, err)
	}
	err := r.Driver.Remove(ctx)
	if err != nil && r.Reopen != nil { // the session may have ended with a restart
		t := &Trial{Bench: r.Bench, runner: r}
		if again := t.reopened(ctx); again == nil {
			err = r.Driver.Remove(ctx)
		}
	}
	if err != nil {
		return left(err)
	}
	have, err := r.Driver.Observe(ctx)
	switch {
	case err != nil:
		return left(err)
	case !have.Nothing():
		return left(errors.New("it was removed without an error, and is still there"))
	}
	return r.untouched()
}

func (r *runner) untouched() error {
	if !r.report.Touched {
		return nil
	}
	r.report.Touched = false
	return r.save()
}

// Calibrated is a number of the bench without a switch, from the calibration.
func (t *Trial) Calibrated(experiment, number string) (float64, bool) {
	if t.runner == nil || t.runner.o.Calibration == nil {
		return 0, false
	}
	if own := t.runner.o.Calibration.Result(experiment); own != nil {
		for _, n := range own.Numbers {
			if n.Name == number {
				return n.Value, true
			}
		}
	}
	return 0, false
}

// Cable reports whether there is a cable in the place of a switch.
func (t *Trial) Cable() bool { return t.runner != nil && t.runner.o.IsCable }

// Setup is the setup of the bench's ports with one action, as the fleet file has the rest.
func (b *Bench) Setup(action vlanrules.Action) vendors.Setup {
	dev := inventory.Device{}
	for _, p := range b.Ports {
		dev.Ports = append(dev.Ports, inventory.Port{Name: p.Name, Action: action})
	}
	return vendors.SetupOf(b.Profile, b.Policy, &dev)
}

// Apply gives the device a setup, which is removed after the experiment.
func (t *Trial) Apply(ctx context.Context, want vendors.Setup) error {
	if t.runner != nil && !t.runner.report.Touched {
		t.runner.report.Touched = true // before it is so: a kill in between leaves a trace
		if err := t.runner.save(); err != nil {
			return err
		}
	}
	return t.Driver.Apply(ctx, want)
}

// recordTo writes the bench's frames to a file until stop is called.
func (r *runner) recordTo(path string) (stop func() error, err error) {
	folder := filepath.Dir(path)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s is no folder, or a link to one: remove it, or name another folder", folder))
	}
	f, err := outfile.Create(path, 0o644, outfile.Prefix("\x4d\x3c\xb2\xa1"))
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	ended, err := r.record(io.Writer(w))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(ended(), w.Flush(), f.Close()) }, nil
}
