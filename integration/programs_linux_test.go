package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/csig-agent/csig/vendors/vendorstest"
)

// csig and csigController are the paths of the commands under test.
var csig, csigController string

// build builds both into a folder. With the race detector they share the build cache with this test, and
// their own races are found.
func build(dir string, race bool) error {
	args, cgo := []string{"build", "-ldflags=-s -w", "-o", dir}, "CGO_ENABLED=0" // as it is released
	if race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "github.com/csig-agent/csig/cmd/csig", "github.com/csig-agent/csig/cmd/csig-controller")...)
	cmd.Env = append(os.Environ(), cgo)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building csig: %w", err)
	}
	return nil
}

// buildPrograms builds the commands under test, and has them write data races into files.
func buildPrograms() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "csig")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	csig, csigController = filepath.Join(dir, "csig"), filepath.Join(dir, "csig-controller")
	err = build(dir, vendorstest.Raced)
	if err == nil && vendorstest.Raced {
		// A process writes there as any user.
		err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(racesDir(), 0o700), os.Chmod(racesDir(), 0o777),
			os.Setenv("GORACE", fmt.Sprintf("%s exitcode=%d log_path=%s", os.Getenv("GORACE"), raceExit, filepath.Join(racesDir(), "race"))))
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// released is csig as it is released, for tests of what the race detector changes: memory, time, and
// privileges, which a program with cgo cannot give up.
func released(t testing.TB) string {
	t.Helper()
	if !vendorstest.Raced {
		return csig
	}
	path, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var plain = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(csig), "plain")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Join(dir, "csig"), build(dir, false)
})

// raceExit is the exit code of a program that found a data race in itself, and exits by itself.
const raceExit = 66

func racesDir() string { return filepath.Join(filepath.Dir(csig), "races") }

// races returns what processes have reported about data races in files of these names, and removes it.
func races(pattern string) string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(racesDir(), pattern)) // a pattern of this file's is a good one
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // another test's, which has read it
		}
		fmt.Fprintf(&all, "%s: %s\n", filepath.Base(name), text)
		_ = os.Remove(name) // it is printed twice, at worst
	}
	return all.String()
}

// wantNoRace fails the test that started a process which reports a data race.
func wantNoRace(t testing.TB, pid int) {
	t.Helper()
	if text := races(fmt.Sprintf("race.%d", pid)); text != "" {
		t.Errorf("a data race in csig: %s", text)
	}
}

// raceless runs tests, and fails for the data races of processes that no test looked at, too.
type raceless struct{ m *testing.M }

func (r raceless) Run() int {
	status := r.m.Run()
	if text := races("race.*"); text != "" {
		fmt.Fprintf(os.Stderr, "data races in csig: %s", text)
		return max(status, 1)
	}
	return status
}
