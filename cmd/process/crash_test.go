package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// crashEnv names how the test's own program is to crash.
const crashEnv = "CSIG_TEST_CRASH"

var crashes = map[string]func() int{
	"a panic of main":                func() int { var m map[string]int; m["x"] = 1; return 0 }, //nolint:staticcheck // it is to panic
	"a panic with an error":          func() int { panic(errors.New("boom")) },
	"a panic of another goroutine":   func() int { go func() { panic("boom") }(); select {} },
	"a stack that overflows":         func() int { debug.SetMaxStack(1 << 16); return deeper(0) },
	"a lock that is not locked":      func() int { new(sync.Mutex).Unlock(); return 0 },
	"changes that are pending":       func() int { return 2 },
	"an exit from a deferred return": func() int { defer func() {}(); return 3 },
}

//go:noinline
func deeper(n int) int { return deeper(n+1) + n } //nolint:staticcheck // it is to overflow the stack

func init() {
	if name := os.Getenv(crashEnv); name != "" {
		os.Exit(Guarded("csig", os.Stderr, crashes[name]))
	}
}

// TestCrashIsNoPendingChange has csig crash in every way: 2 is for changes that
// are pending, and nothing else.
func TestCrashIsNoPendingChange(t *testing.T) {
	const aborted = 128 + int(syscall.SIGABRT)
	for name, want := range map[string]int{
		"a panic of main": CrashStatus, "a panic with an error": CrashStatus,
		"a panic of another goroutine": aborted, "a stack that overflows": aborted, "a lock that is not locked": aborted,
		"changes that are pending": 2, "an exit from a deferred return": 3,
	} {
		t.Run(name, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), crashEnv+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatal(err)
			}
			got := exit.ExitCode()
			if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
				got = 128 + int(st.Signal())
			}
			if got != want {
				t.Errorf("exit code %d, want %d\n%s", got, want, out)
			}
			if want == CrashStatus && (!strings.Contains(string(out), "csig: a mistake in csig") || !strings.Contains(string(out), "crash_test.go")) {
				t.Errorf("the output:\n%s", out)
			}
			if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
