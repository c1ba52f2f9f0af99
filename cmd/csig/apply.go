package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

type applyOptions struct {
	fleet, journal, resume, verify string
	probe                          []string
	fleetChanged, json, yes        bool
	run                            rollout.Run
	gate                           rollout.Health
}

func newApply() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply PLAN",
		Short: "Carry out a saved plan, wave by wave, behind a health gate",
		Long: `Carry out a plan that csig plan saved. A plan that was altered, or that was made for
another state of a device, is refused, and so is one that another user may write, unless
--verify finds it signed.

Every step is written to a journal before it is done. After an interruption,
kill -9 included, --resume continues and csig rollback undoes. Ctrl-C finishes the
devices in progress and stops; a second one ends csig at once.

After each wave a gate has to open: every device reads back as planned, its ports that
update have a live signal, no port loses more frames than before, full-size frames with a tag cross its links, and the
--check command, if any, agrees.

On a terminal it shows what changes and asks first; --yes does not ask. Without a terminal
it never asks: the plan was saved to be reviewed, and scripts that call it have decided.

The exit code is 0 when the plan is complete, 3 when it stopped where it was asked to
(--stop-after, Ctrl-C, an answer other than yes), 1 for an error.`,
		Example: `  csig apply fabric.plan
  csig apply fabric.plan --stop-after canary
  csig apply --resume fabric.plan.journal
  csig apply fabric.plan --soak 1m --check ./loss-free.sh
  csig apply fabric.plan --probe h1:h2`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.resume == "" && len(args) == 1, o.resume != "" && len(args) == 0:
				return nil
			case o.resume != "":
				return usageError(cmd, "unexpected %q: --resume takes the plan from the journal", args[0])
			case len(args) > 1:
				return usageError(cmd, "unexpected %q: it takes one PLAN at a time", args[1])
			}
			return usageError(cmd, "PLAN is missing: csig plan -i FLEET -o PLAN makes one")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			plan := ""
			if len(args) == 1 {
				plan = args[0]
			}
			return runApply(cmd, &o, plan)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.fleet, "inventory", "i", "", "fleet file (default the one the plan was made from)")
	f.StringVar(&o.journal, "journal", "", "write the journal here (default PLAN.journal)")
	f.StringVar(&o.resume, "resume", "", "continue the apply of this journal")
	f.StringVar(&o.run.StopAfter, "stop-after", "", "pause after this wave or stage, e.g. canary, ready or ready/canary")
	f.StringSliceVar(&o.gate.Command, "check", nil, "run this command after each wave, arguments after commas; its exit code stops the plan")
	f.DurationVar(&o.gate.CommandLimit, "check-timeout", 10*time.Minute, "end the --check command after this long, as one that does not agree; 0: never")
	f.StringSliceVar(&o.probe, "probe", nil, "FROM:TO, hosts of the fleet file: send full-size frames along this way before the first wave and after each, with and without a tag (Linux)")
	f.DurationVar(&o.gate.Soak, "soak", 5*time.Second, "watch the ports this long before and after each wave")
	f.Uint64Var(&o.gate.Losses, "losses", 0, "frames a port may lose in a wave, beyond twice what it lost before")
	f.BoolVar(&o.gate.AllowStale, "allow-stale", false, "let the gate open though ports that update have no live signal, as where their counters are dead or their agent's schedule pauses")
	atLeast(f, "soak", &o.gate.Soak, time.Millisecond, true)
	atLeast(f, "check-timeout", &o.gate.CommandLimit, time.Millisecond, true)
	addRunFlags(cmd, &o)
	_ = cmd.RegisterFlagCompletionFunc("stop-after", waveNames)
	return cmd
}

// waveNames completes --stop-after from the plan that is already typed.
func waveNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 1 {
		if p, err := readPlan(args[0]); err == nil {
			for name := range p.EachWave() {
				names = append(names, untrusted.Text(name, maxShown))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newRollback() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "rollback JOURNAL",
		Short: "Undo what an apply did: every device gets the setup it had before",
		Long: `Undo the changes that the journal of an apply recorded, in reverse order, until every
device has its earlier setup again. A device that cannot be reached keeps the
earlier stages in place everywhere; run it again when it can. Ctrl-C finishes the
devices in progress and stops, with exit code 3; 1 is for an error. On a terminal it asks
first, unless --yes is given; an answer other than yes is exit code 3, too.`,
		Example: `  csig rollback fabric.plan.journal`,
		Args:    oneArg("JOURNAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := openJournal(args[0])
			if err != nil {
				return err
			}
			defer j.Close()
			return carryOut(cmd, &o, j, (*rollout.Run).Rollback)
		},
	}
	cmd.Flags().StringVarP(&o.fleet, "inventory", "i", "", "fleet file (default the one the plan was made from)")
	cmd.Flags().BoolVar(&o.fleetChanged, "fleet-changed", false, "continue although the fleet file has another profile than the plan, or reaches devices in another way")
	addRunFlags(cmd, &o)
	return cmd
}

func addRunFlags(cmd *cobra.Command, o *applyOptions) {
	f := cmd.Flags()
	addAtOnce(f, &o.run.Parallel, 8, "devices of a wave to change at once", &o.run.Limit, time.Minute, "for each step, and each read of a device")
	f.DurationVar(&o.run.Revert, "revert", 30*time.Second, "a device that is driven over SSH or through its daemon reverts by itself when csig does not reach it again within this; 0: never")
	atLeast(f, "revert", &o.run.Revert, time.Second, true)
	f.StringVar(&o.verify, "verify", "", "accept only a plan that one of these signed: a file of allowed signers, as ssh-keygen(1) has it; the signature is PLAN.sig, and later in the journal")
	addYes(cmd, &o.yes)
	addJSON(cmd, &o.json)
}

func runApply(cmd *cobra.Command, o *applyOptions, path string) error {
	for _, program := range o.gate.Command[:min(1, len(o.gate.Command))] {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("--check: %w", err)
		}
	}
	if o.resume != "" {
		j, err := openJournal(o.resume)
		if err != nil {
			return err
		}
		defer j.Close()
		return carryOut(cmd, o, j, (*rollout.Run).Apply)
	}
	if o.verify == "" {
		if err := device.CheckOwner(path); err != nil {
			return fmt.Errorf("%w; or csig apply --verify accepts it by its signature, whoever may write it", err)
		}
	}
	p, err := readPlan(path)
	if err != nil {
		return err
	}
	if err := readSignature(o, p, path); err != nil {
		return err
	}
	if _, err := signerOf(o, p); err != nil { // before anything of it is used
		return err
	}
	switch {
	case p.Offline:
		return fmt.Errorf("%s was made offline: it is for reading; make one without --offline to apply", path)
	case len(p.Errors()) > 0:
		return fmt.Errorf("%s has %s: csig plan shows them", path, count(len(p.Errors()), "error"))
	case p.Empty():
		show := newProgress(cmd, o.json, cmd.Name())
		show.print("No changes: nothing was done.")
		show.leftAlone(p)
		if o.json {
			show.report(rollout.Progress{Event: rollout.EventEnd})
		}
		return show.err
	}
	fleet, err := fleetOf(o, p)
	if err != nil {
		return err
	}
	if fleet.Hash() != p.InventoryHash {
		return fmt.Errorf("%s: %w: %s has changed since it was made; make a new one with csig plan", path, rollout.ErrStale, fleet.Path)
	}
	if err := device.NewOpener(fleet).Unreached(p); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := device.NewOpener(fleet).Unproven(p); err != nil {
		return fmt.Errorf("%s: %w; make a new one with csig plan", path, err)
	}
	if _, err := probePaths(fleet, o.probe); err != nil {
		return err // before there is a journal
	}
	journal := o.journal
	if journal == "" {
		journal = path + ".journal"
	}
	if err := device.CheckOwner(journal); err != nil { // --resume and rollback would refuse it
		return fmt.Errorf("%w; or --journal names one in another folder", err)
	}
	j, err := rollout.CreateJournal(journal, version, p)
	if err != nil {
		return err
	}
	defer j.Close()
	err = carryOut(cmd, o, j, (*rollout.Run).Apply)
	if !j.Started() { // it would only be in the way of the next
		err = errors.Join(err, j.Discard())
	}
	return err
}

// probePaths reads --probe. Both ends have to be hosts that csig can get at.
func probePaths(fleet *inventory.Fleet, texts []string) ([]rollout.Path, error) {
	var out []rollout.Path
	for _, text := range texts {
		from, to, ok := strings.Cut(text, ":")
		if !ok || from == to {
			return nil, fmt.Errorf("--probe %q: want FROM:TO, two hosts of the fleet file", text)
		}
		for _, name := range []string{from, to} {
			if _, err := rollout.ProbedHost(fleet, name); err != nil {
				return nil, fmt.Errorf("--probe %s: %w", text, err)
			}
		}
		out = append(out, rollout.Path{From: from, To: to})
	}
	return out, nil
}

// fleetHead is what a fleet file says of itself.
var fleetHead = regexp.MustCompile(`(?m)^format:\s*["']?csig\.fleet/`)

func readPlan(path string) (*plans.Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := plans.Read(f)
	if err == nil {
		return p, nil
	}
	head := make([]byte, 64<<10)
	if n, _ := f.ReadAt(head, 0); fleetHead.Match(head[:n]) {
		file := untrusted.ShellWord(path)
		return nil, fmt.Errorf("%s is a fleet file, not a plan: make a plan with csig plan -i %s -o csig.plan, then csig apply csig.plan", path, file)
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// readSignature has a plan keep the signature beside it. Whether it is to have
// one is the caller's word, and not the plan's.
func readSignature(o *applyOptions, p *plans.Plan, path string) error {
	if o.verify == "" {
		return nil
	}
	f, err := os.Open(signaturePath(path))
	if err != nil {
		return fmt.Errorf("--verify: %w (csig plan -o PLAN --sign KEY makes it, or ssh-keygen -Y sign -n %s -f KEY PLAN)", err, signatureNamespace)
	}
	defer f.Close()
	text, err := untrusted.ReadAll(f, maxSignature)
	p.Signature = string(text)
	return err
}

// checkSignature shows who signed a plan, and refuses one without a permitted
// signer where the caller asks for that.
func checkSignature(o *applyOptions, p *plans.Plan, show *progress) error {
	who, err := signerOf(o, p)
	if err == nil && who != "" {
		show.print("Signed by " + who)
	}
	return err
}

// signerOf is who signed a plan, of those whom --verify permits; "" without --verify.
func signerOf(o *applyOptions, p *plans.Plan) (string, error) {
	if o.verify == "" {
		return "", nil
	}
	if p.Signature == "" {
		return "", errors.New("--verify: the journal has no signature of its plan: it was not begun with --verify")
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return "", err
	}
	who, err := verifySignature(o.verify, text.Bytes(), []byte(p.Signature), time.Now())
	if err != nil {
		return "", fmt.Errorf("--verify: %w", err)
	}
	return who, nil
}

// openJournal opens a journal that no other user can have written.
func openJournal(path string) (*rollout.Journal, error) {
	if err := device.CheckOwner(path); err != nil {
		return nil, err
	}
	return rollout.OpenJournal(path)
}

// fleetOf reads the fleet file that says how to reach the plan's devices.
func fleetOf(o *applyOptions, p *plans.Plan) (*inventory.Fleet, error) {
	path := o.fleet
	switch {
	case path != "":
	case !filepath.IsAbs(p.Fleet): // of an older csig, or made by hand
		return nil, fmt.Errorf("the plan names its fleet file as %q, which leads elsewhere from another folder: name the file with -i", untrusted.Text(p.Fleet, 200))
	default:
		path = p.Fleet
	}
	return device.LoadFleet(path)
}

// carryOut does what is to be done with a journal and reports it.
func carryOut(cmd *cobra.Command, o *applyOptions, j *rollout.Journal, do func(*rollout.Run, context.Context) error) error {
	ctx, release := process.OnHangup(cmd.Context())
	defer release()
	show := newProgress(cmd, o.json, cmd.Name())
	if err := j.CheckFinished(cmd.Name() == "rollback"); errors.Is(err, rollout.ErrNothingToDo) {
		show.print(err.Error())
		if o.json {
			show.report(rollout.Progress{Event: rollout.EventEnd})
		}
		return show.err
	} else if err != nil {
		return err
	}
	if err := setUpWithoutAgent(j); err != nil {
		return err
	}
	if err := checkSignature(o, j.Plan(), show); err != nil {
		return err
	}
	if w := o.run.StopAfter; w != "" && !rollout.HasWave(j.Plan(), w) {
		return fmt.Errorf("--stop-after %s: the plan has no such stage or wave", w)
	}
	fleet, err := fleetOf(o, j.Plan())
	if err != nil {
		return err
	}
	show.print("Fleet file: " + shownPath(fleet.Path))
	devices := slices.SortedFunc(maps.Keys(j.Plan().Touches()), inventory.CompareNames)
	held := slices.Clone(devices) // those that it relies on may not change either
	for _, d := range j.Plan().RelyOn {
		held = append(held, d.Device)
	}
	opener := device.NewOpener(fleet)
	opener.Operator = journalOperator(cmd.Name(), j)
	if err := sameFleet(fleet, o, j, cmd.Name()); err != nil {
		return err
	}
	paths, err := probePaths(fleet, o.probe)
	if err != nil {
		return err
	}
	if !o.yes { // before anything is locked: an answer may take a while
		if err := confirm(ctx, cmd, question(j, cmd.Name(), newScreen(cmd.ErrOrStderr()).columns())); err != nil {
			return err
		}
	}
	unlock, err := rollout.LockDevices(fleet, held, func(err error) { show.print("warning: " + err.Error()) })
	if err != nil {
		return err
	}
	defer unlock()
	if cmd.Name() == "rollback" {
		show.total = j.Count(rollout.EventStart, rollout.EventDone, rollout.EventFailed, rollout.EventUndoing)
	} else {
		show.count(j.Plan())
		show.before = j.Count(rollout.EventDone)
	}
	run, gate := &o.run, &o.gate
	run.Journal, run.Open, run.Report, run.Gate = j, opener.Open, show.report, gate
	gate.Plan, gate.Fleet, gate.Open, gate.Paths, gate.ProbePath = j.Plan(), fleet, opener.Open, paths, pathProber(fleet)
	gate.Parallel, gate.Limit = run.Parallel, run.Limit
	show.print("Journal: " + j.Path())
	if cmd.Name() == "apply" {
		show.leftAlone(j.Plan())
	}
	err = show.during(ctx, func(ctx context.Context) error {
		return together(ctx, run, devices, held, show, func(ctx context.Context) error { return do(run, ctx) })
	})
	switch {
	case err == nil:
		return show.err
	case !j.Started() && cmd.Name() == "apply":
		if show.interrupted(ctx, err) {
			return &exitError{code: 3, err: fmt.Errorf("%s: nothing was changed", why(ctx))}
		}
		return err
	case show.interrupted(ctx, err):
		newScreen(cmd.ErrOrStderr()).remark("%s: the devices in progress are finished and written down; %s", why(ctx), nextSteps(j, cmd.Name(), ""))
		return &exitError{code: 3}
	case errors.Is(err, rollout.ErrPaused):
		newScreen(cmd.ErrOrStderr()).remark("%v; %s", err, nextSteps(j, cmd.Name(), ""))
		return &exitError{code: 3}
	case errors.Is(err, rollout.ErrLacks):
		return err
	}
	if errors.Is(err, rollout.ErrContinued) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, nextSteps(j, cmd.Name(), " once that is repaired"))
}

// setUpWithoutAgent refuses the journal of an earlier csig that set devices up itself, by
// nft over SSH or in network namespaces: their agents, which do now, know nothing of it.
func setUpWithoutAgent(j *rollout.Journal) error {
	var names []string
	touched, registry := j.Plan().Touches(), all.Default()
	for i := range j.Plan().Devices {
		d := &j.Plan().Devices[i]
		direct := strings.HasPrefix(d.Via, "ssh ") || strings.HasPrefix(d.Via, "netns ")
		if p, err := registry.Platform(d.Platform); direct && touched[d.Device] && err == nil && p.Open != nil {
			names = append(names, d.Device)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.SortFunc(names, inventory.CompareNames)
	return fmt.Errorf("%s is the journal of an earlier csig (%s), which set %s up itself, over SSH or in network namespaces; now their agents do, and this csig cannot continue or undo what it did: csig rollback of that version undoes it, csig off -i FLEET takes csig off; then start csig agent --wait on each device, name it in the fleet file (management: daemon), and make a new plan", j.Path(), orDash(j.Version()), vendors.Names(names))
}

// sameFleet refuses a fleet file that is not the one of the journal's plan. To
// undo, it is enough that it leads to the same devices, and that daemons are
// given the same profile.
func sameFleet(fleet *inventory.Fleet, o *applyOptions, j *rollout.Journal, command string) error {
	p := j.Plan()
	if command == "apply" {
		if fleet.Hash() != p.InventoryHash {
			return fmt.Errorf("%s: %w: %s has changed since it was made; restore it, or undo what was done with csig rollback %s", j.Path(), rollout.ErrStale, fleet.Path, j.Path())
		}
		return nil
	}
	if o.fleetChanged {
		return nil
	}
	var errs []error
	if h := fleet.Profile.Hash(); h != p.ProfileHash {
		errs = append(errs, fmt.Errorf("its profile is %.12s, that of the plan %.12s", h, p.ProfileHash))
	}
	touched := p.Touches()
	for i := range p.Devices {
		was := &p.Devices[i]
		d, ok := fleet.Device(was.Device)
		switch {
		case !touched[was.Device]:
		case !ok:
			errs = append(errs, fmt.Errorf("it has no device %s", was.Device))
		case d.Platform != was.Platform || device.Via(d) != was.Via:
			errs = append(errs, fmt.Errorf("device %s is %s, %s, and was %s, %s, for the plan", was.Device, d.Platform, orDash(device.Via(d)), was.Platform, orDash(was.Via)))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s is not the fleet file of %s:\n%w\nthis would write to devices that are not the plan's; name its own with -i, or add --fleet-changed if these are the same devices", fleet.Path, j.Path(), errors.Join(errs...))
}

// nextSteps are the commands that may follow; when is said of the one that goes
// on: "" where nothing is broken.
func nextSteps(j *rollout.Journal, command, when string) string {
	if !j.Exists() {
		return j.Path() + " was removed meanwhile, so there is nothing to continue or to undo: csig plan shows what the devices have, csig off takes csig off them"
	}
	path := untrusted.ShellWord(shownPath(j.Path()))
	if command == "rollback" {
		return "csig rollback " + path + " continues" + when
	}
	return "csig apply --resume " + path + " continues" + when + "; csig rollback " + path + " undoes it"
}

// shownPath is a path as a person in this folder writes it, for a terminal.
func shownPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return printableLines(path)
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, abs); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			abs = rel
		}
	}
	return strings.ReplaceAll(printableLines(abs), "\n", `\n`)
}
