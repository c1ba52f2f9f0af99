package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
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
	j, err := OpenJournal(path)
	if err == nil {
		t.Cleanup(func() { _ = j.Close() })
	}
	return j, err
}

// A kill may cut the file anywhere: what was complete is read, the rest is
// dropped, and the journal goes on from there.
// TestJournalCutAnywhere cuts a journal at the ends of each record, beside them, and within: in a third of these places.
func TestJournalCutAnywhere(t *testing.T) { journalCutAnywhere(t) }

func TestLongJournalCutAnywhere(t *testing.T) { journalCutAnywhere(t) }

func journalCutAnywhere(t *testing.T) {
	text := finished(t)
	first := bytes.IndexByte(text, '\n') + 1
	places, cuts := 0, []int(nil)
	for at := first; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n') + 1
		for _, cut := range []int{at, at + 1, at + n/3, at + n - 2, at + n - 1} {
			if places++; places%vendorstest.Every(t, 3) == 0 { // others of the five at each record
				cuts = append(cuts, cut)
			}
		}
		at += n
	}
	for _, cut := range append(cuts, len(text)) {
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
	for cut, want := range map[int]string{0: "is empty", 1: "cut off inside its first line", first - 1: "cut off inside its first line"} {
		if _, err := openText(t, text[:cut]); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "csig plan shows") {
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

// Any change of any byte is noticed, also one that no reader of JSON minds.
func TestJournalAlteredAnywhere(t *testing.T) { journalAlteredAnywhere(t) }

func TestLongJournalAlteredAnywhere(t *testing.T) { journalAlteredAnywhere(t) }

func journalAlteredAnywhere(t *testing.T) {
	text := finished(t)
	rng := rand.New(rand.NewPCG(1, 2))
	alterations := 0
	try := func(what string, altered []byte) {
		if bytes.HasPrefix(text, altered) || altered[len(altered)-1] != '\n' { // a last line that was cut short is dropped
			return
		}
		alterations++
		j := &Journal{file: inMemory{Reader: bytes.NewReader(altered)}, state: newState()}
		if err := j.load(plans.MaxText); err == nil {
			t.Errorf("%s: read", what)
		}
	}
	for range 60 / vendorstest.Every(t, 3) {
		at, b := rng.IntN(len(text)), byte(rng.IntN(256))
		try(fmt.Sprintf("byte %d is %q", at, b), slices.Concat(text[:at], []byte{b}, text[at+1:]))
		try(fmt.Sprintf("byte %d is gone", at), slices.Concat(text[:at], text[at+1:]))
		try(fmt.Sprintf("%q before byte %d", b, at), slices.Concat(text[:at], []byte{b}, text[at:]))
		to := min(len(text), at+1+rng.IntN(200))
		try(fmt.Sprintf("bytes %d to %d twice", at, to), slices.Concat(text[:to], text[at:]))
		try(fmt.Sprintf("bytes %d to %d gone", at, to), slices.Concat(text[:at], text[to:]))
	}
	for _, c := range [][2]string{
		{`"sum"`, `"sUm"`}, {`"event"`, `"Event"`}, {`"wide_tpid"`, `"Wide_tpid"`}, {`,"event"`, ` ,"event"`}, {`{"seq"`, `{ "seq"`},
		{`{"seq"`, `{"more":1,"seq"`}, {`{"seq"`, `{"seq":7,"seq"`}, {`"WideTPID":0`, `"WideTPID":1`}, {`"WideTPID":0`, `"WideTPIC":0`},
	} {
		for at, n := 0, 0; n < 5; n++ { // the first times that it occurs
			i := bytes.Index(text[at:], []byte(c[0]))
			if i < 0 {
				break
			}
			at += i
			try(fmt.Sprintf("%s for %s at %d", c[1], c[0], at), slices.Concat(text[:at], []byte(c[1]), text[at+len(c[0]):]))
			at += len(c[0])
		}
	}
	if alterations < 250/vendorstest.Every(t, 3) {
		t.Errorf("only %d alterations", alterations)
	}
}

// inMemory is a journal's file that is only read.
type inMemory struct {
	*bytes.Reader
	disk
	slow bool // a byte at a time
}

func (m inMemory) Read(b []byte) (int, error) {
	if m.slow {
		b = b[:min(1, len(b))]
	}
	return m.Reader.Read(b)
}

// A record of a later csig, of which this one would see half, is refused.
func TestJournalOfALaterVersion(t *testing.T) {
	line := []byte(`{"seq":1,"at":"2026-01-01T00:00:00Z","event":"begin","format":"csig.journal/v1","plan":{"format":"csig.plan/v1"},"only_if":"moon",`)
	if _, err := openText(t, fmt.Appendf(line, sumEnd, chain("", line))); err == nil || !strings.Contains(err.Error(), "only_if") {
		t.Errorf("got %v", err)
	}
}

// syncing is a file that knows whether all that was written is on the disk.
type syncing struct {
	disk
	unsynced *int
}

func (s syncing) Write(b []byte) (int, error) { *s.unsynced++; return s.disk.Write(b) }
func (s syncing) Sync() error                 { *s.unsynced = 0; return s.disk.Sync() }

// Every record is on the disk before what it announces is done.
func TestJournalIsOnTheDiskFirst(t *testing.T) {
	p, f := threeStages(t)
	j := begin(t, p)
	unsynced := 0
	j.file = syncing{j.file, &unsynced}
	r := &Run{Journal: j, Open: func(ctx context.Context, name string) (Target, error) {
		d, err := f.open(ctx, name)
		return watched{d, func() {
			if unsynced > 0 {
				t.Errorf("%s is changed with %d records not on the disk", name, unsynced)
			}
		}}, err
	}}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Rollback(t.Context()); err != nil || unsynced > 0 {
		t.Errorf("%v, %d records not on the disk in the end", err, unsynced)
	}
}

type watched struct {
	Target
	look func()
}

func (w watched) Apply(ctx context.Context, s vendors.Setup) error {
	w.look()
	return w.Target.Apply(ctx, s)
}

func (w watched) Remove(ctx context.Context) error {
	w.look()
	return w.Target.Remove(ctx)
}

// A journal in which no step began, or not even the first record ended, is
// replaced; a file that is no journal is left as it is.
func TestJournalThatNeverBegan(t *testing.T) {
	p, f := threeStages(t)
	f.devices["s2"] = vendors.Setup{} // so that the plan is stale
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open}
	if err := r.Apply(t.Context()); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
	_ = j.Close()
	again, err := CreateJournal(j.Path(), "test", p)
	if err != nil {
		t.Fatalf("over one that was refused: %v", err)
	}
	text, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                {"", ""},
		"cut in its first":     {string(text[:len(text)/2]), ""},
		"cut after six bytes":  {string(text[:6]), ""},
		"a plan":               {`{"format":"csig.plan/v1"}` + "\n", "it is a plan, not the journal"},
		"something else":       {"my notes", "not the journal of an apply"},
		"something else, more": {"my notes\nmore\n", "not the journal of an apply"},
		"altered":              {strings.Replace(string(text), `"goal"`, `"gaol"`, 1), "altered"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenJournal(path); err == nil {
				t.Error("read")
			}
			j, err := CreateJournal(path, "test", p)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = j.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if left, err := os.ReadFile(path); err != nil || string(left) != tc.text {
				t.Errorf("the file is %q now, %v", left, err)
			}
		})
	}
}

// One that no first record fits into is not left behind. The limit is one of
// the whole process, so a child of it has it: the test's own log is written to
// a file, too.
func TestJournalWithoutRoom(t *testing.T) {
	const env = "CSIG_JOURNAL_WITHOUT_ROOM"
	p, _ := threeStages(t)
	if path := os.Getenv(env); path != "" {
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
			t.Fatal(err)
		}
		_, err := CreateJournal(path, "test", p)
		fmt.Println("the journal:", err)
		return
	}
	path := filepath.Join(t.TempDir(), "j")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), env+"="+path)
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the journal: writing the journal") {
		t.Errorf("got %v, %s", err, out)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

func TestJournalHasOneWriter(t *testing.T) {
	p, _ := threeStages(t)
	j := begin(t, p)
	if _, err := OpenJournal(j.Path()); err == nil || !strings.Contains(err.Error(), "another csig") {
		t.Errorf("a second one: %v", err)
	}
	if _, err := CreateJournal(j.Path(), "test", p); err == nil || !strings.Contains(err.Error(), "another csig") {
		t.Errorf("created over one in use: %v", err)
	}
	for _, r := range []Record{{Event: EventBefore, Device: "s1", Setup: &vendors.Setup{}}, {Event: EventStart, Step: 1, Device: "s1"}} {
		if err := j.write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.err; err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	if _, err := CreateJournal(j.Path(), "test", p); err == nil || !strings.Contains(err.Error(), "--resume") {
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

// sealed is a text with the integrity that belongs to it.
func sealed(text string) string {
	return text + fmt.Sprintf(`"integrity":"%x"}`, sha256.Sum256([]byte(text+`"integrity":""}`)))
}

func TestPlanFile(t *testing.T) {
	p, _ := threeStages(t)
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	back, err := plans.Read(bytes.NewReader(text.Bytes()))
	if err != nil || back.Integrity != p.Integrity {
		t.Fatalf("read back: %v", err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"altered":            {strings.Replace(text.String(), `"update"`, `"strip"`, 1), "altered"},
		"cut":                {text.String()[:text.Len()/2], "not a plan"},
		"a fleet file":       {"format: csig.fleet/v1\n", "not a plan"},
		"other format":       {`{"format": "csig.status/v1"}`, "csig.status/v1"},
		"another field":      {strings.Replace(text.String(), `"goal"`, `"gaol"`, 1), "altered"},
		"empty":              {"", "not a plan"},
		"one field too many": {sealed(`{"format":"csig.plan/v1","only_if":"moon",`), "only_if"},
		"a journal":          {string(finished(t)), "csig apply --resume"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := plans.Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
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
	if _, err := plans.Read(&text); err == nil || !strings.Contains(err.Error(), "s9") {
		t.Errorf("a step of an unknown device: %v", err)
	}
}

// endless is an answer of few bytes that stands for more than any memory.
const endless = `{"ports":[{"action":"strip","prefix":"swp","first":9223372036854775806,"last":9223372036854775807}]}`

// What a plan or a journal says is bounded before it is made.
func TestHugeFiles(t *testing.T) { hugeFiles(t) }

// TestLongHugeFiles has files with as many elements as may be and one more, and one of as many bytes.
func TestLongHugeFiles(t *testing.T) { hugeFiles(t) }

func hugeFiles(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"device":"s1","observed":{"ports":[{"action":"strip","prefix":"swp","first":0,"last":65534}]}},`, 200), ",")
	for name, tc := range map[string]struct{ fields, want string }{
		"a range to the last number": {`"devices":[{"device":"s1","observed":` + endless + `}],`, "no such range"},
		"ranges":                     {`"devices":[` + many + `],`, "13107000 ports together"},
		"steps":                      {`"stages":[{"name":"x","why":"","waves":[{"name":"y","steps":[` + strings.Repeat("0,", plans.MaxElements) + `0]}]}],`, "it lists 20971"},
	} {
		if name == "steps" && !vendorstest.Long(t) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := plans.Read(strings.NewReader(sealed(`{"format":"csig.plan/v1",` + tc.fields))); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a plan: %.200v, want %q", err, tc.want)
			}
			line := []byte(`{"seq":1,"at":"2026-01-01T00:00:00Z","event":"begin","plan":{"format":"csig.plan/v1",` + strings.TrimSuffix(tc.fields, ",") + `},"format":"csig.journal/v1",`)
			if _, err := openText(t, fmt.Appendf(line, sumEnd, chain("", line))); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a journal: %.200v, want %q", err, tc.want)
			}
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 200<<20 {
				t.Errorf("it takes %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
			}
		})
	}
	if !vendorstest.Long(t) {
		return
	}
	if _, err := plans.Read(&zeros{}); !errors.Is(err, untrusted.ErrTooLong) {
		t.Errorf("a plan without an end: %v", err)
	}
}

// The bound is one of each line: a journal of many lines may be longer.
func TestJournalLongerThanALine(t *testing.T) {
	text := finished(t)
	longest := 0
	for line := range bytes.Lines(text) {
		longest = max(longest, len(line))
	}
	if len(text) < 2*longest {
		t.Fatalf("%d bytes in lines of up to %d", len(text), longest)
	}
	load := func(most int) error {
		// A byte at a time, so that no line is read with the one before.
		j := &Journal{file: inMemory{Reader: bytes.NewReader(text), slow: true}, state: newState()}
		return j.load(int64(most))
	}
	if err := load(longest); err != nil {
		t.Error(err)
	}
	if err := load(longest - 1); !errors.Is(err, untrusted.ErrTooLong) {
		t.Errorf("a line that is too long: %v", err)
	}
}

// zeros is a stream of MaxText bytes and more.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Another version is refused by its name, and before its checksums are looked at.
func TestOtherVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a plan":               {`{"format":"csig.plan/v2","version":"9.1","integrity":"x"}`, []string{"a plan of format csig.plan/v2, which csig 9.1 wrote", "this csig reads csig.plan/v1"}},
		"a plan of no version": {`{"format":"csig.plan/v2"}`, []string{"csig of an unknown version"}},
		"more in a plan":       {sealed(`{"format":"csig.plan/v1","version":"9.1","more":1,`), []string{"csig 9.1 wrote it", "more"}},
		"another kind":         {`{"format":"csig.status/v1"}`, []string{`not a plan: its format is "csig.status/v1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plans.Read(strings.NewReader(tc.text))
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
	line := `{"seq":1,"at":"2026-01-01T00:00:00Z","event":"begin","format":"csig.journal/v2","version":"9.1","sum":"of another kind"}` + "\n"
	if _, err := openText(t, []byte(line)); err == nil || !strings.Contains(err.Error(), "a journal of format csig.journal/v2, which csig 9.1 wrote; this csig reads csig.journal/v1") {
		t.Errorf("a journal: %v", err)
	}
	p, _ := threeStages(t)
	text, err := os.ReadFile(begin(t, p).Path())
	if err != nil || !bytes.Contains(text, []byte(`"format":"csig.journal/v1","version":"test"`)) {
		t.Errorf("a journal does not say what wrote it: %v\n%s", err, text)
	}
}

// What no apply and no rollback writes is refused, however well it is summed up.
func TestJournalThatMakesNoSense(t *testing.T) {
	setup := &vendors.Setup{}
	before := Record{Event: EventBefore, Device: "s1", Setup: setup}
	start := Record{Event: EventStart, Device: "s1", Step: 1}
	for name, tc := range map[string]struct {
		records []Record
		want    string
	}{
		"all well":            {[]Record{before, start, {Event: EventFailed, Device: "s1", Step: 1}, start, {Event: EventRollback}, {Event: EventUndoing, Device: "s1", Step: 1}, {Event: EventUndone, Device: "s1", Step: 1}, {Event: EventEnd}}, ""},
		"unknown device":      {[]Record{{Event: EventBefore, Device: "s9", Setup: setup}}, "s9"},
		"no setup":            {[]Record{{Event: EventBefore, Device: "s1"}}, "s1"},
		"before twice":        {[]Record{before, before}, "twice"},
		"nothing before":      {[]Record{start}, "what device s1 had before is not there"},
		"unknown step":        {[]Record{before, {Event: EventStart, Device: "s1", Step: 99}}, "step 99"},
		"another's step":      {[]Record{before, {Event: EventStart, Device: "s2", Step: 1}}, "none of the plan's"},
		"done, not begun":     {[]Record{before, {Event: EventDone, Device: "s1", Step: 1}}, `cannot be "done"`},
		"failed, not begun":   {[]Record{before, {Event: EventFailed, Device: "s1", Step: 1}}, `cannot be "failed"`},
		"armed, not begun":    {[]Record{before, {Event: EventAutoRevert, Device: "s1", Step: 1}}, `cannot be "armed"`},
		"undoing too early":   {[]Record{before, start, {Event: EventUndoing, Device: "s1", Step: 1}}, `cannot be "undoing"`},
		"undoing nothing":     {[]Record{before, {Event: EventRollback}, {Event: EventUndoing, Device: "s1", Step: 1}}, `cannot be "undoing"`},
		"undone at once":      {[]Record{before, start, {Event: EventRollback}, {Event: EventUndone, Device: "s1", Step: 1}}, `cannot be "undone"`},
		"start after undoing": {[]Record{before, start, {Event: EventRollback}, start}, `cannot be "start"`},
		"done after undoing":  {[]Record{before, start, {Event: EventRollback}, {Event: EventDone, Device: "s1", Step: 1}}, `cannot be "done"`},
		"unknown wave":        {[]Record{{Event: EventGate, Wave: "fence/none"}}, "fence/none"},
		"unknown event":       {[]Record{{Event: "later"}}, "later"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := threeStages(t)
			j := begin(t, p)
			text, err := os.ReadFile(j.Path())
			if err != nil {
				t.Fatal(err)
			}
			sum := j.sum
			for i, r := range tc.records {
				r.Seq = i + 2
				line, err := json.Marshal(&r)
				if err != nil {
					t.Fatal(err)
				}
				line = bytes.TrimSuffix(line, []byte(`"sum":""}`))
				sum = chain(sum, line)
				text = append(text, fmt.Appendf(line, sumEnd, sum)...)
			}
			if _, err := openText(t, text); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"seq":2,"at":"2026-01-01T00:00:00Z","event":"before","device":"s1","setup":`+endless+`,`), []byte(`{"event":"start"`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		// Lines that are summed up well, so that what they say is looked at.
		text, sum := []byte{}, ""
		for _, line := range [][]byte{[]byte(`{"seq":1,"at":"2026-01-01T00:00:00Z","event":"begin","plan":{"format":"csig.plan/v1","devices":[{"device":"s1"}],"stages":[{"name":"a","waves":[{"name":"b","steps":[{"id":1,"device":"s1"}]}]}]},"format":"csig.journal/v1",`), one, two} {
			sum = chain(sum, line)
			text = append(text, fmt.Appendf(line[:len(line):len(line)], sumEnd, sum)...)
		}
		j := &Journal{file: inMemory{Reader: bytes.NewReader(text)}, state: newState()}
		if err := j.load(plans.MaxText); err == nil && j.state.ports > plans.MaxPorts {
			t.Errorf("%d ports", j.state.ports)
		}
	})
}
