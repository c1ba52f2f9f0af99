package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const whole = `format: csig.fleet/v1
include: PATTERN
profile: {name: p, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}
devices: [{name: l1, platform: linux, ports: [{name: swp1}]}]
`

// fleetIn makes a folder with a fleet file that includes a pattern.
func fleetIn(t *testing.T, pattern string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(strings.Replace(whole, "PATTERN", pattern, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSameFileIsReadOnce spells a file's path in ways that mean the same one:
// its own pattern matches it then, too.
func TestSameFileIsReadOnce(t *testing.T) {
	dir := fleetIn(t, `["*.yaml", "*/*.yaml", "self/*/*.yaml"]`)
	for name, target := range map[string]string{"again.yaml": "fleet.yaml", "self": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "hard.yaml")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	base := filepath.Base(dir)
	for _, path := range []string{
		base + "/fleet.yaml", "./" + base + "/fleet.yaml", base + "//fleet.yaml", base + "/../" + base + "/fleet.yaml",
		filepath.Join(dir, "fleet.yaml"), base + "/again.yaml", base + "/self/self/fleet.yaml",
	} {
		f, err := Load(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := f.Files(); len(got) != 1 || got[0] != path {
			t.Errorf("%s: read %q", path, got)
		}
	}
}

// TestIncludeRingBySymlink includes the file itself under another name.
func TestIncludeRingBySymlink(t *testing.T) {
	dir := fleetIn(t, "other.yaml")
	if err := os.Symlink("fleet.yaml", filepath.Join(dir, "other.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, "fleet.yaml")); err == nil || !strings.Contains(err.Error(), "files include each other") {
		t.Errorf("got %v", err)
	}
}

// TestIncludeOfWhatIsNoFile includes a pipe without a writer, and a folder.
func TestIncludeOfWhatIsNoFile(t *testing.T) {
	dir := fleetIn(t, `["*.yaml"]`)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Load(filepath.Join(dir, "fleet.yaml"))
		done <- err
	}()
	select {
	case err := <-done:
		for _, name := range []string{"pipe.yaml", "folder.yaml"} {
			if err == nil || !strings.Contains(err.Error(), name+": it is not a plain file") {
				t.Errorf("got %v", err)
			}
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for the pipe")
	}
}

// TestFleetFromAPipe reads what a shell hands over as <(command).
func TestFleetFromAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(path, []byte(good), 0o600) }()
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
}

// TestIncludeDepth nests includes as deep as they may be, and one deeper.
func TestIncludeDepth(t *testing.T) {
	for depth, want := range map[int]string{maxInclude: "", maxInclude + 1: "more than 16 deep"} {
		text := "-- fleet.yaml --\n" + strings.Replace(good, "profile:", "include: f1.yaml\nprofile:", 1)
		for n := 1; n <= depth; n++ {
			text += fmt.Sprintf("-- f%d.yaml --\nformat: csig.fleet/v1\n", n)
			if n < depth {
				text += fmt.Sprintf("include: f%d.yaml\n", n+1)
			}
		}
		_, err := loadFS(filesOf(text), "fleet.yaml")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("depth %d: got %v, want %q", depth, err, want)
		}
	}
}
