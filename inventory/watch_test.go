package inventory

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWatch follows the files of a fleet through mistakes: what a load opened, or did not find, is
// noticed when it is another.
func TestWatch(t *testing.T) {
	dir := fleetIn(t, "[hosts.yaml, 'pods/*.yaml']")
	path := filepath.Join(dir, "fleet.yaml")
	put := func(name, text string) func() {
		return func() {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(names ...string) func() {
		return func() {
			for _, name := range names {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	const good, bad = "format: csig.fleet/v1\nhosts: []\n", "format: csig.fleet/v1\nwrong: 1\n"
	var w Watch
	load := func() error {
		f, err := Load(path)
		w.Note(path, f, err)
		return err
	}
	if err := load(); err == nil {
		t.Fatal("files that are missing are included")
	}
	for _, step := range []struct {
		name    string
		do      func()
		noticed bool
		valid   bool // then
	}{
		{"nothing", func() {}, false, false},
		{"a missing file is there", put("hosts.yaml", good), true, false},
		{"a pattern finds its first, with a mistake", put("pods/a.yaml", bad), true, false},
		{"the mistake is corrected", put("pods/a.yaml", good), true, true},
		{"a pattern finds one more, with a mistake", put("pods/b.yaml", bad), true, false},
		{"what an editor keeps beside a file", put("pods/.b.yaml", ""), false, false},
		{"a mode that was refused is corrected", func() {
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
		}, true, false},
		{"the pattern finds it no more", remove("pods/.b.yaml", "pods/b.yaml"), true, true},
		{"the file has a mistake", put("fleet.yaml", bad), true, false},
		{"the file is gone", remove("fleet.yaml"), true, false},
		{"a file that it includes no more", put("hosts.yaml", bad), false, false},
	} {
		step.do()
		w.Changed()
		if got := w.Changed(); got != step.noticed {
			t.Errorf("%s: noticed %v", step.name, got)
		}
		if step.noticed {
			if err := load(); (err == nil) != step.valid {
				t.Errorf("%s: %v", step.name, err)
			}
		}
	}
}

// TestWatchFromTheRead: what is saved after a file was opened is a change, whenever it is noted.
func TestWatchFromTheRead(t *testing.T) {
	dir := fleetIn(t, "hosts.yaml")
	path, hosts := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "hosts.yaml")
	for _, text := range []string{"format: csig.fleet/v1\n", "format: csig.fleet/v1\nwrong: 1\n"} {
		if err := os.WriteFile(hosts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Load(path)
		if err := os.WriteFile(hosts, []byte(text+"# saved again\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var w Watch
		w.Note(path, f, err)
		w.Changed()
		if !w.Changed() {
			t.Errorf("%q: not noticed", text)
		}
	}
}
