package rollout

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// JournalFormat is the version of a journal's file.
const JournalFormat = "csig.journal/v1"

// Event says what a journal's record reports.
type Event string

// The events of a journal.
const (
	EventBegin      Event = "begin"    // Plan: what is going to be carried out
	EventBefore     Event = "before"   // Device, Setup: what it had before anything of this plan
	EventStart      Event = "start"    // Step: its device may have changed from here on
	EventAutoRevert Event = "armed"    // Step: until done or undone, its device auto-reverts; Error: it cannot, and why
	EventDone       Event = "done"     // Step: its device was read back and is as wanted
	EventFailed     Event = "failed"   // Step, Error
	EventGate       Event = "gate"     // Wave, Error ("" passed)
	EventStop       Event = "stop"     // Error: apply ended before the plan did
	EventRollback   Event = "rollback" // from here on the plan is undone
	EventUndoing    Event = "undoing"  // Step
	EventUndone     Event = "undone"   // Step: its device was read back and is as it was before the step; Error: but for this, which another process changed
	EventEnd        Event = "end"      // the plan, or its undoing, is complete
)

// Events that are only reported, not journaled.
const (
	EventWatch  Event = "watch"  // Wave: the gate learns what the ports lose before it
	EventJudge  Event = "judge"  // Wave: the gate judges it
	EventProve  Event = "prove"  // Wave, Device: its dead-man has to fire once
	EventProved Event = "proved" // Wave, Device: it has, Within
	EventVerify Event = "verify" // all that was changed is read back
	EventHand   Event = "hand"   // Device: an Off is at it
)

// Record is one line of a journal. Sum is the SHA-256 of the sum before and of the
// line with an empty sum at its end, to the byte, so that an altered journal is
// noticed.
type Record struct {
	Seq    int            `json:"seq"`
	At     time.Time      `json:"at"`
	Event  Event          `json:"event"`
	Step   int            `json:"step,omitempty"`
	Device string         `json:"device,omitempty"`
	Wave   string         `json:"wave,omitempty"`
	Setup  *vendors.Setup `json:"setup,omitempty"`
	Plan   *plans.Plan    `json:"plan,omitempty"`
	Format string         `json:"format,omitempty"` // of the journal, in the first record
	// Version is that of the csig that wrote the journal, in the first record.
	Version string `json:"version,omitempty"`
	// Signature is the plan's, in the first record.
	Signature string `json:"signature,omitempty"`
	Error     string `json:"error,omitempty"`
	Sum       string `json:"sum"`
}

// Journal is the record of one apply on disk. Every record is on the disk
// before what it announces is done, so that it holds after a kill at any
// instant. Methods are not safe for concurrent use.
type Journal struct {
	file  disk
	seq   int
	sum   string
	id    string                            // the beginning of its first sum
	size  int64                             // in bytes
	also  func(at int64, line []byte) error // what gets every line, too; nil: nothing
	state state
	err   error // of a write: what follows it would not be legible
}

// disk is an *os.File.
type disk interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(size int64) error
	Name() string
}

// state is what a journal's records add up to.
type state struct {
	plan     *plans.Plan
	before   map[string]vendors.Setup
	last     map[int]Event // of steps: the last of start, done, failed, undoing, undone
	gates    map[string]bool
	rollback bool
	ended    bool
	stopped  string

	version string // of the csig that wrote the journal
	ports   int64  // of all setups
	index
}

// index is a plan by devices, steps and waves.
type index struct {
	names   []string // devices with steps, in the order of their first
	devices map[string]*plans.Device
	steps   map[string][]*plans.Step // of devices
	all     []*plans.Step            // step 1 is the first
	waves   map[string]bool
}

func indexOf(p *plans.Plan) index {
	x := index{devices: map[string]*plans.Device{}, steps: map[string][]*plans.Step{}, waves: map[string]bool{}}
	for i := range p.Devices {
		x.devices[p.Devices[i].Device] = &p.Devices[i]
	}
	for name := range p.EachWave() {
		x.waves[name] = true
	}
	for s := range p.Steps() {
		if x.steps[s.Device] == nil {
			x.names = append(x.names, s.Device)
		}
		x.steps[s.Device], x.all = append(x.steps[s.Device], s), append(x.all, s)
	}
	return x
}

// The errors of a journal without a whole first record: an apply that was killed at
// its very start leaves one, and so does whatever loses the rest of a journal.
var (
	errEmpty = errors.New("the journal is empty, so there is nothing to continue or to undo: its apply ended before it began anything, or it is a lost journal; csig plan shows the devices' state")
	errCut   = errors.New("the journal is cut off inside its first line, so there is nothing to continue or to undo: its apply ended before it began anything, or the rest of the journal is lost; csig plan shows the devices' state")
)

// ErrNothingToDo is what the errors of Apply and Rollback wrap when what they are
// asked for is done already: there is nothing wrong.
var ErrNothingToDo = errors.New("nothing to do")

// CheckFinished is the error of an Apply (undo: a Rollback) for which the journal leaves
// nothing to do; nil where there is something.
func (j *Journal) CheckFinished(undo bool) error {
	s := &j.state
	switch {
	case undo && s.rollback && s.ended:
		return fmt.Errorf("%w: already rolled back", ErrNothingToDo)
	case undo:
		return nil
	case s.rollback && s.ended:
		return fmt.Errorf("%s: its plan was rolled back; make a new one with csig plan to carry it out once more", j.Path())
	case s.rollback:
		return fmt.Errorf("%s: its plan is being rolled back: csig rollback %s finishes that", j.Path(), untrusted.ShellWord(j.Path()))
	case s.ended:
		return fmt.Errorf("%w: the plan is complete; csig rollback %s undoes it", ErrNothingToDo, untrusted.ShellWord(j.Path()))
	}
	return nil
}

// CreateJournal begins the journal of a plan. A file that exists is an error: it
// may be needed for a rollback. Where no step has begun it is replaced.
// Version is that of this csig.
func CreateJournal(path, version string, plan *plans.Plan) (*Journal, error) {
	const flags = os.O_CREATE | os.O_EXCL | os.O_RDWR | os.O_APPEND // O_EXCL follows no link
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, os.ErrExist) {
		if err := removeUnbegun(path); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j := &Journal{file: f, state: newState()}
	err = j.write(Record{Event: EventBegin, Plan: plan, Format: JournalFormat, Version: version, Signature: plan.Signature})
	if err == nil {
		err = outfile.SyncDir(filepath.Dir(path)) // the name must outlive a power cut, too
	}
	if err != nil {
		return nil, errors.Join(err, j.Discard())
	}
	return j, nil
}

// removeUnbegun removes a journal in which no step has begun: that of an apply
// that was refused, or was killed before it did anything. Any other file is an
// error.
func removeUnbegun(path string) error {
	j, err := OpenJournal(path)
	switch {
	case err == nil && !j.Started():
		return j.Discard()
	case err == nil:
		return errors.Join(fmt.Errorf("%s exists: it is the journal of an earlier apply; continue it with csig apply --resume %s, undo it with csig rollback %s, or name another with --journal", path, untrusted.ShellWord(path), untrusted.ShellWord(path)), j.Close())
	case errors.Is(err, errEmpty), errors.Is(err, errCut):
		return os.Remove(path)
	case errors.Is(err, errInUse):
		return err
	}
	return fmt.Errorf("%s exists, and no journal can begin there: %w; name another file with --journal", path, err)
}

// OpenJournal reads a journal and goes on with it. A last line that a kill cut
// short is dropped; anything else that is not as it was written is an error.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%s: it is a symbolic link, which csig does not follow: name the journal itself", path)
	}
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, state: newState()}
	if info, e := f.Stat(); e != nil || !info.Mode().IsRegular() {
		err = errors.Join(errors.New("it is no regular file"), e)
	} else if err = lock(f); err == nil {
		err = j.load(plans.MaxText)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return j, nil
}

// load reads lines of at most some bytes.
func (j *Journal) load(most int64) error {
	limit := untrusted.NewReader(j.file, most)
	r := bufio.NewReaderSize(limit, 1<<20)
	good := int64(0)
	for {
		limit.Reset(most)
		line, err := r.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && j.state.plan != nil:
			if len(line) == 0 {
				return nil
			}
			return j.file.Truncate(good) // the record that a kill cut short
		case j.state.plan == nil && !bytes.HasPrefix(line, []byte(plans.JournalHead)) && !strings.HasPrefix(plans.JournalHead, string(line)):
			if bytes.Contains(line, []byte(`"`+plans.Format+`"`)) {
				return errors.New("it is a plan, not the journal of an apply: csig apply PLAN writes that to PLAN.journal")
			}
			return errors.New("it is not the journal of an apply")
		case errors.Is(err, io.EOF) && len(line) == 0:
			return errEmpty
		case errors.Is(err, io.EOF):
			return errCut
		case err != nil:
			return err
		}
		if err := j.read(line); err != nil {
			return fmt.Errorf("line %d: %w", j.seq+1, err)
		}
		good += int64(len(line))
	}
}

// sumEnd is how a line ends.
const sumEnd = `"sum":"%s"}` + "\n"

// read takes one line into account.
func (j *Journal) read(line []byte) error {
	if j.seq == 0 {
		if err := sameFormat(line); err != nil {
			return err // another version may have other sums
		}
	}
	// The bytes first: what was altered may decode to anything.
	altered := errors.New("it was altered, or lines are missing before it: csig does not act on it; the setups of before are still in its \"before\" records")
	at := bytes.LastIndex(line, []byte(`"sum":"`))
	if at < 0 {
		return altered
	}
	want := chain(j.sum, line[:at])
	if string(line[at:]) != fmt.Sprintf(sumEnd, want) {
		return altered
	}
	if err := plans.CheckSize(line, j.state.ports); err != nil {
		return err
	}
	var rec Record
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields() // of a later csig: half of what it says is not enough
	if err := dec.Decode(&rec); err != nil {
		return fmt.Errorf("not a record that this csig reads (csig %s wrote the journal): %w", plans.VersionName(cmp.Or(rec.Version, j.state.version)), err)
	}
	if rec.Seq != j.seq+1 {
		return altered
	}
	if err := j.state.add(&rec); err != nil {
		return err
	}
	j.took(rec.Seq, want, len(line))
	return nil
}

// took notes a line that the file has.
func (j *Journal) took(seq int, sum string, size int) {
	j.seq, j.sum, j.size = seq, sum, j.size+int64(size)
	if seq == 1 {
		j.id = sum[:idDigits]
	}
}

// idDigits are enough to tell all journals apart.
const idDigits = 16

// sameFormat refuses the first line of a journal of another version.
func sameFormat(line []byte) error {
	var head struct {
		Format  string `json:"format"`
		Version string `json:"version"`
	}
	if json.Unmarshal(line, &head) != nil || head.Format == "" || head.Format == JournalFormat {
		return nil // its sum shows what is wrong
	}
	return plans.OtherFormat("journal", JournalFormat, head.Format, head.Version)
}

func newState() state {
	return state{before: map[string]vendors.Setup{}, last: map[int]Event{}, gates: map[string]bool{}}
}

// add takes one record into account. It refuses what no apply and no rollback
// writes, so that neither has to.
func (s *state) add(r *Record) error {
	if (s.plan == nil) != (r.Event == EventBegin) {
		return errors.New("a journal begins with its plan, once")
	}
	switch r.Event {
	case EventBegin:
		if r.Plan == nil || r.Format != JournalFormat {
			return plans.OtherFormat("journal", JournalFormat, r.Format, r.Version)
		}
		s.plan, s.version = r.Plan, r.Version
		s.plan.Signature = r.Signature
		s.index = indexOf(s.plan)
		for _, step := range s.all {
			s.ports += int64(len(step.Want.Ports))
		}
		for i := range s.plan.Devices {
			s.ports += int64(len(s.plan.Devices[i].Observed.Ports))
		}
		return s.plan.Check()
	case EventBefore:
		if _, twice := s.before[r.Device]; r.Setup == nil || s.devices[r.Device] == nil || twice {
			return fmt.Errorf("what device %q had before: it is none of the plan's, or that is there twice, or not at all", untrusted.Text(r.Device, 60))
		}
		s.before[r.Device] = *r.Setup
		s.ports += int64(len(r.Setup.Ports))
	case EventStart, EventAutoRevert, EventDone, EventFailed, EventUndoing, EventUndone:
		if err := s.addStep(r); err != nil {
			return err
		}
	case EventGate:
		if !s.waves[r.Wave] {
			return fmt.Errorf("the plan has no wave %q", untrusted.Text(r.Wave, 60))
		}
		s.gates[r.Wave] = r.Error == ""
	case EventStop:
		s.stopped = r.Error
	case EventRollback:
		s.rollback, s.ended = true, false
	case EventEnd:
		s.ended = true
	default:
		return fmt.Errorf("unknown event %q", untrusted.Text(string(r.Event), 60))
	}
	return nil
}

// addStep takes a record of a step into account. An armed step has begun before.
func (s *state) addStep(r *Record) error {
	_, before := s.before[r.Device]
	last := s.last[r.Step]
	do := r.Event == EventStart || r.Event == EventDone
	undo := r.Event == EventUndoing || r.Event == EventUndone
	switch {
	case r.Step < 1 || r.Step > len(s.all) || r.Device != s.all[r.Step-1].Device:
		return fmt.Errorf("step %d of device %q is none of the plan's", r.Step, untrusted.Text(r.Device, 60))
	case !before:
		return fmt.Errorf("step %d began, and what device %s had before is not there", r.Step, r.Device)
	case do && s.rollback, undo && !s.rollback, last == "" && r.Event != EventStart, r.Event == EventUndone && last != EventUndoing:
		return fmt.Errorf("step %d of device %s cannot be %q here", r.Step, r.Device, r.Event)
	}
	if r.Event != EventAutoRevert {
		s.last[r.Step] = r.Event
	}
	return nil
}

// write appends a record and waits until it is on the disk.
func (j *Journal) write(r Record) error {
	if j.err == nil {
		j.err = j.append(r)
	}
	return j.err
}

func (j *Journal) append(r Record) error {
	r.Seq, r.At, r.Sum = j.seq+1, time.Now().UTC(), ""
	line, err := json.Marshal(&r)
	if err != nil {
		return err
	}
	line = line[:len(line)-len(`"sum":""}`)]
	r.Sum = chain(j.sum, line)
	line, at := fmt.Appendf(line, sumEnd, r.Sum), j.size
	if _, err := j.file.Write(line); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.took(r.Seq, r.Sum, len(line))
	if j.also != nil {
		if err := j.also(at, line); err != nil {
			return fmt.Errorf("writing the shared journal: %w", err)
		}
	}
	return j.state.add(&r)
}

// ID tells the journal from every other one.
func (j *Journal) ID() string { return j.id }

// chain is the sum of a line, of which it gets what is before the sum.
func chain(before string, line []byte) string {
	h := sha256.New()
	_, _ = io.WriteString(h, before) // never fails
	_, _ = h.Write(line)
	_, _ = fmt.Fprintf(h, sumEnd, "")
	return hex.EncodeToString(h.Sum(nil))
}

// Plan is the plan that the journal carries out.
func (j *Journal) Plan() *plans.Plan { return j.state.plan }

// Version is that of the csig that wrote the journal.
func (j *Journal) Version() string { return j.state.version }

// Count is how many steps have one of these as their last event.
func (j *Journal) Count(events ...Event) int {
	n := 0
	for _, e := range j.state.last {
		if slices.Contains(events, e) {
			n++
		}
	}
	return n
}

// ToUndo is the devices that a Rollback changes, in the order of the plan.
func (j *Journal) ToUndo() (out []string) {
	for _, name := range j.state.names {
		if slices.ContainsFunc(j.state.steps[name], func(s *plans.Step) bool {
			last, begun := j.state.last[s.ID]
			return begun && last != EventUndone
		}) {
			out = append(out, name)
		}
	}
	return out
}

// Started reports whether any step has begun: before, there is nothing to undo.
func (j *Journal) Started() bool { return len(j.state.last) > 0 }

// Discard closes the journal and removes its file.
func (j *Journal) Discard() error { return errors.Join(os.Remove(j.Path()), j.Close()) }

// Exists reports whether the journal is still at its path.
func (j *Journal) Exists() bool {
	f, ok := j.file.(*os.File)
	if !ok {
		return true
	}
	have, err := f.Stat()
	now, e := os.Lstat(j.Path())
	return err == nil && e == nil && os.SameFile(have, now)
}

// Path is the journal's file.
func (j *Journal) Path() string { return j.file.Name() }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
