package plans

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// finished is the text of the journal of a whole apply.
func finished(t *testing.T) []byte {
	t.Helper()
	p, f := threeStages(t)
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func openText(t *testing.T, text []byte) (*Journal, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(path, time.Now)
	if err == nil {
		t.Cleanup(func() { _ = j.Close() })
	}
	return j, err
}

// A kill may cut the file anywhere: what was complete is read, the rest is
// dropped, and the journal goes on from there.
func TestJournalCutAnywhere(t *testing.T) {
	text := finished(t)
	first := bytes.IndexByte(text, '\n') + 1
	for cut := first; cut <= len(text); cut += 7 {
		j, err := openText(t, text[:cut])
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, len(text), err)
		}
		if want := bytes.Count(text[:cut], []byte("\n")); j.seq != want {
			t.Fatalf("cut at %d: %d records, want %d", cut, j.seq, want)
		}
		if err := j.write(Record{Event: EventStop, Error: "test"}); err != nil {
			t.Fatal(err)
		}
		if again := reopen(t, j); again.state.stopped != "test" {
			t.Fatalf("cut at %d: what was written afterwards is not read", cut)
		}
	}
	for _, cut := range []int{0, 1, first - 1} {
		if _, err := openText(t, text[:cut]); err == nil || !strings.Contains(err.Error(), "empty") {
			t.Errorf("cut at %d, in the first record: %v", cut, err)
		}
	}
}

func TestJournalAltered(t *testing.T) {
	text := finished(t)
	lines := bytes.SplitAfter(text, []byte("\n"))
	for name, altered := range map[string][]byte{
		"a setup":       bytes.Replace(text, []byte(`"action":"passthrough"`), []byte(`"action":"strip"`), 1),
		"a line gone":   bytes.Join(append(append([][]byte{}, lines[:2]...), lines[3:]...), nil),
		"a line twice":  bytes.Join(append(append([][]byte{}, lines[:3]...), lines[2:]...), nil),
		"no plan":       bytes.Join(lines[1:], nil),
		"another file":  []byte("hello\n"),
		"another kind":  []byte(`{"seq":1,"event":"begin","format":"other","sum":""}` + "\n"),
		"two in a line": bytes.Replace(text, []byte("}\n"), []byte("}"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bytes.Equal(altered, text) {
				t.Fatal("nothing was altered")
			}
			if j, err := openText(t, altered); err == nil {
				t.Errorf("read, with %d records", j.seq)
			}
		})
	}
}

func TestJournalHasOneWriter(t *testing.T) {
	p, _ := threeStages(t)
	j := begin(t, p)
	if _, err := OpenJournal(j.Path(), time.Now); err == nil || !strings.Contains(err.Error(), "another csig") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := CreateJournal(j.Path(), p, time.Now); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("created over another: %v", err)
	}
}

// What cannot be written down is not done.
func TestJournalOnAFullDisk(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.file.Close()
	j.file = full
	r := &Run{Journal: j, Open: f.open}
	if err := r.Apply(t.Context()); err == nil || len(f.log) > 0 {
		t.Errorf("error %v, changes %v", err, f.log)
	}
}

func TestPlanFile(t *testing.T) {
	p, _ := threeStages(t)
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	back, err := Read(bytes.NewReader(text.Bytes()))
	if err != nil || back.Integrity != p.Integrity {
		t.Fatalf("read back: %v", err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"altered":       {strings.Replace(text.String(), `"update"`, `"strip"`, 1), "altered"},
		"cut":           {text.String()[:text.Len()/2], "not a plan"},
		"a fleet file":  {"format: csig.fleet/v1\n", "not a plan"},
		"other format":  {`{"format": "csig.status/v1"}`, "csig.status/v1"},
		"another field": {strings.Replace(text.String(), `"goal"`, `"gaol"`, 1), "altered"},
		"empty":         {"", "not a plan"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	// One that is well sealed, but makes no sense.
	p.Stages[0].Waves[0].Steps[0].Device = "s9"
	if err := p.Seal(); err != nil {
		t.Fatal(err)
	}
	text.Reset()
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(&text); err == nil || !strings.Contains(err.Error(), "s9") {
		t.Errorf("a step of an unknown device: %v", err)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"format":"csig.plan/v1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := Read(bytes.NewReader(text)); err == nil {
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
