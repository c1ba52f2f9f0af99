package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// TestRecordFile: a file has what the agent remembers, and what is of another port or broken
// does no harm.
func TestRecordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	var want *api.Why
	synctest.Test(t, func(t *testing.T) {
		src := &script{rate: 400e6}
		cfg := testConfig(t, src, &recorder{})
		var err error
		if cfg.Records, err = OpenRecordFile(path, cfg.Log); err != nil {
			t.Fatal(err)
		}
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycles(t, a, 4)
		src.rate = 900e6
		cycles(t, a, 4)
		a.keepLast(nil)
		if want, err = a.Why("swp1"); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Records.Close(); err != nil {
			t.Fatal(err)
		}
	})
	got, err := api.KeptWhy(path, "swp1")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Records) != len(want.Records) || len(got.Records) < 3 || got.Device != "s1" || got.Action != "update" || got.OnStale != "conservative" {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want.Records {
		if g, w := &got.Records[i], &want.Records[i]; g.Cycles != w.Cycles || !g.Last.At.Equal(w.Last.At) || g.Last.ABWBPS != w.Last.ABWBPS || len(g.Signals) != len(w.Signals) {
			t.Errorf("record %d: %+v, want %+v", i, g, w)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	append := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	append(`{"format":"csig.record/v1","port":"swp1","record":{"state":"a\u001b[31mb"}}` + "\n" + `{"format":"csig.rec`) // killed in a write
	if got, err = api.KeptWhy(path, "swp1"); err != nil || len(got.Records) != len(want.Records)+1 || strings.Contains(got.Records[len(want.Records)].State, "\x1b") {
		t.Errorf("with a line that is not whole: %+v, %v", got, err)
	}
	if got, err = api.KeptWhy(path, "swp2"); err != nil || len(got.Records) != 0 {
		t.Errorf("another port: %+v, %v", got, err)
	}
	// It is started again, and goes on in the same file.
	torn, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenRecordFile(path, logrus.NewEntry(logrus.New()))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != torn.Size() {
		t.Errorf("it is written to before there is a record, which a full disk refuses: %v, %v", info, err)
	}
	f.add(&api.KeptRecord{Format: api.RecordFormat, Device: "s1", Port: "swp1", Record: api.Record{State: "after"}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	append(strings.Repeat("\x00", 3<<20) + "\n{}\n")
	if got, err = api.KeptWhy(path, "swp1"); err != nil || len(got.Records) != len(want.Records)+2 || got.Records[len(want.Records)+1].State != "after" {
		t.Errorf("killed in a write, and started again: %d records, want %d, %v", len(got.Records), len(want.Records)+2, err)
	}
	for _, text := range []string{"not one of ours\n{}\n", "a line", strings.Repeat("x", 3<<20)} {
		other := filepath.Join(t.TempDir(), "other")
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := api.KeptWhy(other, "swp1"); err == nil || !strings.Contains(err.Error(), "no line of it is a csig.record/v1") {
			t.Errorf("a file of another kind: %v", err)
		}
	}
}

// TestLastRecords: the last record of a port that ends is in the file once, as its configuration
// had it, whatever ends it; one that goes on is not, and has the configuration that it ends with.
func TestLastRecords(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, k *keeper)
	}{
		{"another profile", func(t *testing.T, k *keeper) { k.configure(t, changed("log-1G", "log-10G")) }},
		{"another port", func(t *testing.T, k *keeper) { k.configure(t, changed("swp1", "swp2")) }},
		{"the same profile and port", func(t *testing.T, k *keeper) { k.configure(t, changed("lm: 5", "lm: 5, mtu: 9216")) }},
		{"csig off", func(t *testing.T, k *keeper) {
			if err := k.RemoveSetup(t.Context(), onTest, ""); err != nil {
				t.Fatal(err)
			}
		}},
		{"csig off that bypasses it", func(t *testing.T, k *keeper) {
			if err := api.WriteOffMarker(k.cfg.OffMarker, time.Now()); err != nil {
				t.Fatal(err)
			}
			k.configure(t, deviceText)
		}},
		{"another configuration that the device refuses", func(t *testing.T, k *keeper) {
			k.with(func(r *recorder) { r.apply = &vendors.PermanentError{Err: errors.New("table full")} })
			if err := k.Configure(t.Context(), []byte(deviceText+"policy: {on_stale: strip, damping: {hold: 3}}\n"), ""); !vendors.IsPermanent(err) {
				t.Fatal(err)
			}
			k.with(func(r *recorder) { r.apply, r.update = nil, errors.New("busy") }) // which ends the record
		}},
		{"its end", func(*testing.T, *keeper) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "records")
			var last api.Record
			synctest.Test(t, func(t *testing.T) {
				var f *RecordFile
				k := newKeeper(t, &recorder{}, func(c *Config) {
					var err error
					if f, err = OpenRecordFile(path, c.Log); err != nil {
						t.Fatal(err)
					}
					c.Records, c.OffMarker = f, c.File+".off"
				})
				k.begin(t)
				k.configure(t, deviceText)
				time.Sleep(20 * interval) // the clock of a synctest bubble: no real time passes
				w, err := k.Why("swp1")
				if err != nil {
					t.Fatal(err)
				}
				last = w.Records[len(w.Records)-1]
				tc.do(t, k)
				time.Sleep(5 * interval) // as above
				k.close(t)
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for line := range strings.Lines(string(text)) {
				var r api.KeptRecord
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.Hold != 0 || r.OnStale != "conservative" {
					t.Errorf("a record of a configuration that did not run: hold %d, on_stale %s", r.Hold, r.OnStale)
				}
				if r.Port == "swp1" && r.Record.First.At.Equal(last.First.At) {
					n++
					if r.Record.Cycles < last.Cycles {
						t.Errorf("%d cycles, want %d", r.Record.Cycles, last.Cycles)
					}
				}
			}
			if n != 1 {
				t.Errorf("it is %d times in the file", n)
			}
		})
	}
}

// TestSlowRecordFile: a disk that takes a record now and then is reported once, and again only after
// it had kept up.
func TestSlowRecordFile(t *testing.T) {
	log, hook := test.NewNullLogger()
	cfg := testConfig(t, &script{}, &recorder{})
	cfg.Log = logrus.NewEntry(log)
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &RecordFile{queue: make(chan *api.KeptRecord, 8)}
	keep := func() { a.keepRecord(f, &a.ports[0], new(record)) }
	for range 20 {
		keep()
	}
	for range 10 {
		<-f.queue
		keep()
		keep()
	}
	if n := len(hook.Entries); n != 1 {
		t.Errorf("%d lines of the log, want one", n)
	}
	for range 8 {
		<-f.queue
	}
	for range 9 {
		keep()
	}
	if n := len(hook.Entries); n != 2 {
		t.Errorf("%d lines of the log, want another one", n)
	}

	// Until its disk takes them again, and has caught up: a failure.
	f.path, f.log = filepath.Join(t.TempDir(), "records"), cfg.Log
	for len(f.queue) > 0 {
		if err := f.Err(); err == nil || !strings.Contains(err.Error(), "faster") {
			t.Errorf("with %d records that wait: %v", len(f.queue), err)
		}
		if len(f.queue) == 5 { // the last before there is room
			f.note(nil) // as every 30 s
		}
		f.take(<-f.queue)
		if f.room() {
			break
		}
	}
	if err := f.Err(); err != nil || len(f.queue) != 4 {
		t.Errorf("with %d records that wait: %v", len(f.queue), err)
	}
	// A disk that fails while it is slow is logged as one that fails.
	for range 5 {
		keep()
	}
	f.note(syscall.EIO)
	if n := len(hook.Entries); !errors.Is(f.Err(), syscall.EIO) || n != 3 || hook.LastEntry().Level != logrus.ErrorLevel {
		t.Errorf("%v, %d lines of the log, the last %+v", f.Err(), n, hook.LastEntry())
	}
	keep()
	if !errors.Is(f.Err(), syscall.EIO) {
		t.Errorf("the failure is hidden by %v", f.Err())
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
}

// recordSize is that of a record of which a file of these tests takes sixteen.
const recordSize = 1 << 16

// TestRecordFileIsFull: a full file makes room for another, and one that fails is opened again.
func TestRecordFileIsFull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records")
	log, hook := test.NewNullLogger()
	f := &RecordFile{path: path, log: logrus.NewEntry(log), most: 16 * recordSize}
	put := func(n int) {
		t.Helper()
		for range n {
			if err := f.put(&api.KeptRecord{Format: api.RecordFormat, Port: "swp1", Record: api.Record{Reason: strings.Repeat("x", recordSize-2000)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(40)
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + api.OlderRecords} {
		if info, err := os.Stat(name); err != nil || info.Size() > 17*recordSize {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if w, err := api.KeptWhy(path, "swp1"); err != nil || len(w.Records) < 17 || len(w.Records) > 33 {
		t.Errorf("%d records, %v", len(w.Records), err)
	}

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.put(&api.KeptRecord{}); err == nil {
		t.Error("a file without its folder takes records")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(1)
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	if len(hook.Entries) > 0 {
		t.Error(hook.Entries)
	}
}

// TestRecordFileStaysFull: a full file that cannot become the older one grows no more, is a failure,
// and takes records again once it can.
func TestRecordFileStaysFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	log, hook := test.NewNullLogger()
	f := &RecordFile{path: path, log: logrus.NewEntry(log), most: 16 * recordSize}
	record := &api.KeptRecord{Format: api.RecordFormat, Port: "swp1", Record: api.Record{Reason: strings.Repeat("x", recordSize-2000)}}
	if err := os.MkdirAll(filepath.Join(path+api.OlderRecords, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		f.take(record)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 17*recordSize || f.Err() == nil || len(hook.Entries) != 1 {
		t.Errorf("%d bytes, %v; its failure: %v, %d lines of the log", info.Size(), err, f.Err(), len(hook.Entries))
	}
	if err := os.RemoveAll(path + api.OlderRecords); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.take(record)
	}
	if err := errors.Join(f.Err(), f.end()); err != nil {
		t.Error(err)
	}
	if w, err := api.KeptWhy(path, "swp1"); err != nil || len(w.Records) < 18 {
		t.Errorf("%d records, %v", len(w.Records), err)
	}
}

// TestRecordFileFails: a disk that takes nothing is reported once, and is a failure until it has
// taken a record again.
func TestRecordFileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	log, hook := test.NewNullLogger()
	f := &RecordFile{path: path, log: logrus.NewEntry(log), most: recordFile}
	record := &api.KeptRecord{Format: api.RecordFormat, Port: "swp1"}
	full := func() {
		t.Helper()
		file, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if f.file != nil {
			f.file.Close()
		}
		f.file, f.buf = file, bufio.NewWriter(file)
	}
	f.take(record)
	f.note(f.flush())
	if !f.kept || f.Err() != nil {
		t.Errorf("its beginning is not on the disk: %v", f.Err())
	}
	full()
	f.take(record) // into memory
	f.note(f.flush())
	full()
	f.take(record)
	if err := f.Err(); !errors.Is(err, syscall.ENOSPC) || f.file != nil {
		t.Errorf("a full disk: %v", err)
	}
	f.take(record)
	if err := f.Err(); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if n := len(hook.Entries); n != 2 {
		t.Errorf("%d lines of the log, want one of the failure and one of its end", n)
	}
	if w, err := api.KeptWhy(path, "swp1"); err != nil || len(w.Records) != 2 {
		t.Errorf("%+v, %v: want the first record, and the one that failed no more", w, err)
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
}

// TestRecordFileOfOthers: a file that is not csig's is neither appended to nor, as the older one,
// replaced; a pipe that nothing reads stops no agent.
func TestRecordFileOfOthers(t *testing.T) {
	dir := t.TempDir()
	log, _ := test.NewNullLogger()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("older.1", "mine\n")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(put("target", ""), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	put("foreign", "mine\n")
	for name, want := range map[string]string{"foreign": "is not overwritten", "older": "older.1 is not overwritten", "pipe": "", "link": "symbolic link"} {
		f, err := OpenRecordFile(filepath.Join(dir, name), logrus.NewEntry(log))
		if err == nil {
			t.Errorf("%s is written to", name)
			_ = f.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for _, name := range []string{"foreign", "older.1"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "mine\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	own := put("own", `{"format":"`+api.RecordFormat+`","port":"swp1"}`+"\n")
	f, err := OpenRecordFile(own, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
