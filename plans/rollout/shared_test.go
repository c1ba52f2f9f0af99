package rollout

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// controllers keep one journal together; those that are down do not answer.
type controllers struct {
	text []byte
	down map[string]bool
	asks map[string]int
	lock error // of Lock
	held map[string]int
}

// keeps is a device that one of them drives.
type keeps struct {
	Target
	c    *controllers
	name string
}

func (k keeps) Close() error { return nil }

func (k keeps) up() error {
	k.c.asks[k.name]++
	if k.c.down[k.name] {
		return errors.New("no answer")
	}
	return nil
}

func (k keeps) Journal(_ context.Context, _ string, at int64) ([]byte, error) {
	if err := k.up(); err != nil || at >= int64(len(k.c.text)) {
		return nil, err
	}
	return k.c.text[at:min(at+1000, int64(len(k.c.text)))], nil
}

func (k keeps) AppendJournal(_ context.Context, _ string, at int64, part []byte) error {
	if err := k.up(); err != nil {
		return err
	}
	if at != int64(len(k.c.text)) {
		return &vendors.PermanentError{Err: errors.New("another operator continued it")}
	}
	k.c.text = append(k.c.text, part...)
	return nil
}

func (k keeps) Lock(context.Context) error {
	if err := k.up(); err != nil {
		return err
	}
	if k.c.lock == nil {
		k.c.held[k.name]++
	}
	return k.c.lock
}

func (k keeps) Unlock(context.Context) error {
	delete(k.c.held, k.name)
	return k.up()
}

func newControllers() *controllers {
	return &controllers{down: map[string]bool{}, asks: map[string]int{}, held: map[string]int{}}
}

// open opens devices; those of other names keep nothing.
func (c *controllers) open(_ context.Context, name string) (Target, error) {
	if name == "none" {
		return struct{ Target }{closes{}}, nil
	}
	return keeps{c: c, name: name}, nil
}

type closes struct{ Target }

func (closes) Close() error { return nil }

// TestSharedJournal: what controllers keep is the file at any time, also where one of them goes
// away; a journal that another operator went on with is refused.
func TestSharedJournal(t *testing.T) {
	p, _ := threeStages(t)
	same := func(t *testing.T, c *controllers, j *Journal) {
		t.Helper()
		if file, err := os.ReadFile(j.Path()); err != nil || !bytes.Equal(file, c.text) || len(file) == 0 {
			t.Errorf("the file has %d bytes, the controllers %d (%v)", len(file), len(c.text), err)
		}
	}
	share := func(t *testing.T, c *controllers, j *Journal) error {
		t.Helper()
		run := Run{Journal: j, Open: c.open, Limit: time.Second}
		shared, end, err := run.Share(t.Context(), []string{"none", "s1", "s2"})
		if err == nil {
			t.Cleanup(end)
			if !shared {
				t.Error("it is not shared")
			}
		}
		return err
	}
	before := Record{Event: EventBefore, Device: "s1", Setup: &vendors.Setup{}}
	start := Record{Event: EventStart, Step: 1, Device: "s1"}

	c, j := newControllers(), begin(t, p)
	if err := share(t, c, j); err != nil {
		t.Fatal(err)
	}
	same(t, c, j)
	if err := j.write(before); err != nil {
		t.Fatal(err)
	}
	same(t, c, j)
	c.down["s1"] = true
	if err := j.write(start); err != nil || c.asks["s2"] == 0 {
		t.Fatalf("one is gone: %v, asked %v", err, c.asks)
	}
	same(t, c, j)
	c.down["s2"] = true
	if err := j.write(Record{Event: EventDone, Step: 1, Device: "s1"}); err == nil || !strings.Contains(err.Error(), "writing the shared journal: no answer") {
		t.Errorf("all are gone: %v", err)
	}
	if err := j.write(Record{Event: EventStop}); err == nil {
		t.Error("it is written on")
	}

	// What they lack they are given by the next run.
	c.down = map[string]bool{}
	path, id := j.Path(), j.ID()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	kept := bytes.Clone(c.text)
	again, err := OpenJournal(path)
	if err != nil || again.ID() != id || len(id) != idDigits {
		t.Fatalf("%v, ID %q and %q", err, again.ID(), id)
	}
	defer again.Close()
	if err := share(t, c, again); err != nil {
		t.Fatal(err)
	}
	same(t, c, again)

	for name, text := range map[string][]byte{
		"longer":  append(bytes.Clone(c.text), "more\n"...),
		"another": append(bytes.Clone(kept), "else\n"...),
	} {
		c.text = text
		if err := share(t, c, again); !errors.Is(err, ErrContinued) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if shared, end, err := (&Run{Journal: again, Open: c.open}).Share(t.Context(), []string{"none"}); shared || err != nil {
		t.Errorf("at a device that keeps none: %t, %v", shared, err)
	} else {
		end()
	}
}

// TestHold: the locks of all devices, or none; devices that do not answer are passed over.
func TestHold(t *testing.T) {
	c := newControllers()
	c.down["s3"] = true
	run := Run{Open: c.open, Limit: time.Second, Parallel: 1}
	busy := func(err error) bool { return errors.Is(err, errBusy) }
	lost := func(err error) { t.Errorf("lost: %v", err) }
	names := []string{"none", "s1", "s2", "s3"}
	release, err := run.Hold(t.Context(), names, busy, lost)
	if err != nil || c.held["s1"] != 1 || c.held["s2"] != 1 {
		t.Fatalf("%v, held %v", err, c.held)
	}
	release()
	if len(c.held) != 0 {
		t.Errorf("released: %v", c.held)
	}
	c.lock = errBusy
	if _, err := run.Hold(t.Context(), names, busy, lost); !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "device s1") {
		t.Errorf("%v", err)
	}
	if c.asks["s1"] != 4 { // twice locked and unlocked: what it had is given up
		t.Errorf("asked %v", c.asks)
	}
}
