package plans

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// JournalFormat is the version of a journal's file.
const JournalFormat = "csig.journal/v1"

// Event says what a journal's record reports.
type Event string

// The events of a journal.
const (
	EventBegin    Event = "begin"    // Plan: what is going to be carried out
	EventBefore   Event = "before"   // Device, Setup: what it had before anything of this plan
	EventStart    Event = "start"    // Step: its device may have changed from here on
	EventArmed    Event = "armed"    // Step: until done or undone, its device goes back by itself; Error: it cannot, and why
	EventDone     Event = "done"     // Step: its device was read back and is as wanted
	EventFailed   Event = "failed"   // Step, Error
	EventGate     Event = "gate"     // Wave, Error ("" passed)
	EventStop     Event = "stop"     // Error: apply ended before the plan did
	EventRollback Event = "rollback" // from here on the plan is undone
	EventUndoing  Event = "undoing"  // Step
	EventUndone   Event = "undone"   // Step: its device was read back and is as it was before the step; Error: but for this, which somebody else changed
	EventEnd      Event = "end"      // the plan, or its undoing, is complete
)

// Events that are only told, not journaled.
const (
	EventWatch  Event = "watch"  // Wave: the gate learns what the ports lose before it
	EventJudge  Event = "judge"  // Wave: the gate judges it
	EventVerify Event = "verify" // all that was changed is read back
	EventHand   Event = "hand"   // Device: an Off is at it
)

// Record is one line of a journal. Sum is the SHA-256 of the record without it
// and of the sum before, so that an altered journal is noticed.
type Record struct {
	Seq    int            `json:"seq"`
	At     time.Time      `json:"at"`
	Event  Event          `json:"event"`
	Step   int            `json:"step,omitempty"`
	Device string         `json:"device,omitempty"`
	Wave   string         `json:"wave,omitempty"`
	Setup  *vendors.Setup `json:"setup,omitempty"`
	Plan   *Plan          `json:"plan,omitempty"`
	Format string         `json:"format,omitempty"` // of the journal, in the first record
	Error  string         `json:"error,omitempty"`
	Sum    string         `json:"sum"`
}

// Journal is the record of one apply on disk. Every record is on the disk
// before what it announces is done, so that it holds after a kill at any
// instant. Methods are not safe for concurrent use.
type Journal struct {
	file  *os.File
	now   func() time.Time
	seq   int
	sum   string
	state state
	err   error // of a write: what follows it would not be legible
}

// state is what a journal's records add up to.
type state struct {
	plan     *Plan
	before   map[string]vendors.Setup
	steps    map[int]Event // the last of start, done, failed, undoing, undone
	gates    map[string]bool
	rollback bool
	ended    bool
	stopped  string
}

// CreateJournal begins the journal of a plan. A file that exists is an error:
// it is somebody's way back.
func CreateJournal(path string, plan *Plan, now func() time.Time) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s exists: it is the journal of an earlier apply; continue it with csig apply --resume %s, undo it with csig rollback %s, or name another with --journal", path, path, path)
	}
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, now: now, state: newState()}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := j.write(Record{Event: EventBegin, Plan: plan, Format: JournalFormat}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The name must outlive a power cut, too.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	err = errors.Join(dir.Sync(), dir.Close())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// OpenJournal reads a journal and goes on with it. A last line that a kill cut
// short is dropped; anything else that is not as it was written is an error.
func OpenJournal(path string, now func() time.Time) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, now: now, state: newState()}
	if err = lock(f); err == nil {
		err = j.load()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return j, nil
}

func (j *Journal) load() error {
	r := bufio.NewReaderSize(j.file, 1<<20)
	good := int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 { // the record that a kill cut short
				if err := j.file.Truncate(good); err != nil {
					return err
				}
			}
			break
		}
		if err != nil {
			return err
		}
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return fmt.Errorf("line %d is not a record of a journal: %w", j.seq+1, err)
		}
		want := rec.Sum
		rec.Sum = ""
		if sum, err := chain(j.sum, &rec); err != nil || sum != want || rec.Seq != j.seq+1 {
			return errors.Join(fmt.Errorf("line %d was altered, or lines are missing before it: csig does not act on it; the setups of before are still in its \"before\" records", j.seq+1), err)
		}
		if err := j.state.add(&rec); err != nil {
			return fmt.Errorf("line %d: %w", j.seq+1, err)
		}
		j.seq, j.sum = rec.Seq, want
		good += int64(len(line))
	}
	if j.state.plan == nil {
		return errors.New("the journal is empty: nothing was begun, so that there is nothing to continue or to undo")
	}
	return nil
}

func newState() state {
	return state{before: map[string]vendors.Setup{}, steps: map[int]Event{}, gates: map[string]bool{}}
}

// add takes one record into account.
func (s *state) add(r *Record) error {
	if (s.plan == nil) != (r.Event == EventBegin) {
		return errors.New("a journal begins with its plan, once")
	}
	switch r.Event {
	case EventBegin:
		if r.Plan == nil || r.Format != JournalFormat {
			return fmt.Errorf("the journal's format is %q, want %q", r.Format, JournalFormat)
		}
		s.plan = r.Plan
		return s.plan.check()
	case EventBefore:
		if r.Setup == nil {
			return errors.New("no setup")
		}
		s.before[r.Device] = *r.Setup
	case EventArmed: // the step is begun, as before
	case EventStart, EventDone, EventFailed, EventUndoing, EventUndone:
		s.steps[r.Step] = r.Event
	case EventGate:
		s.gates[r.Wave] = r.Error == ""
	case EventStop:
		s.stopped = r.Error
	case EventRollback:
		s.rollback, s.ended = true, false
	case EventEnd:
		s.ended = true
	default:
		return fmt.Errorf("unknown event %q", r.Event)
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
	r.Seq, r.At = j.seq+1, j.now().UTC()
	sum, err := chain(j.sum, &r)
	if err != nil {
		return err
	}
	r.Sum = sum
	line, err := json.Marshal(&r)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.seq, j.sum = r.Seq, sum
	return j.state.add(&r)
}

// chain is the sum of a record whose own sum is empty.
func chain(before string, r *Record) (string, error) {
	h := sha256.New()
	if _, err := io.WriteString(h, before); err != nil {
		return "", err
	}
	if err := json.NewEncoder(h).Encode(r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Plan is the plan that the journal carries out.
func (j *Journal) Plan() *Plan { return j.state.plan }

// Count is how many steps have one of these as their last event.
func (j *Journal) Count(events ...Event) int {
	n := 0
	for _, e := range j.state.steps {
		if slices.Contains(events, e) {
			n++
		}
	}
	return n
}

// Path is the journal's file.
func (j *Journal) Path() string { return j.file.Name() }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
