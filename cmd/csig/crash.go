package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// crashStatus is the exit code of a command that panics: sysexits' EX_SOFTWARE.
const crashStatus = 70

func main() {
	os.Exit(guarded(os.Stderr, func() int { return run(os.Args[1:]) }))
}

// guarded runs a command. Go ends a program that panics with 2, which is what
// pending changes have: here a panic of this goroutine ends with crashStatus, and
// what cannot be recovered, a panic of another goroutine or an error of Go's
// runtime, with SIGABRT, which a shell shows as 134.
func guarded(stderr io.Writer, command func() int) (code int) {
	// There may be secrets in the memory that SIGABRT would leave in a file.
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil {
		core.Cur = 0
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &core) // with it or without, csig runs
	}
	debug.SetTraceback("crash")
	defer func() {
		if what := recover(); what != nil {
			fmt.Fprintf(stderr, "csig: a mistake in csig, which ends here; please report it: %v\n\n%s", what, debug.Stack())
			code = crashStatus
		}
	}()
	return command()
}
