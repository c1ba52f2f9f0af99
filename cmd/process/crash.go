// Package process is what csig's programs share as processes: signals, crashes, the log,
// and what they give up before they work.
package process

import (
	"fmt"
	"io"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// CrashStatus is the exit code of a command that panics: sysexits' EX_SOFTWARE.
const CrashStatus = 70

// Guarded runs the command of a program of this name. Go ends a program that panics with 2, which is what
// pending changes have: here a panic of this goroutine ends with CrashStatus, and
// what cannot be recovered, a panic of another goroutine or an error of Go's
// runtime, with SIGABRT, which a shell shows as 134.
func Guarded(name string, stderr io.Writer, command func() int) (code int) {
	// There may be secrets in the memory that SIGABRT would leave in a file.
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil {
		core.Cur = 0
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &core) // with it or without, csig runs
	}
	debug.SetTraceback("crash")
	defer func() {
		if what := recover(); what != nil {
			fmt.Fprintf(stderr, "%s: a mistake in csig, which ends here; please report it: %v\n\n%s", name, what, debug.Stack())
			code = CrashStatus
		}
	}()
	return command()
}
