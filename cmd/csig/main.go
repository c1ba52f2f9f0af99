// Command csig brings Congestion Signaling to switches that were never built
// for it. This package is flags, wiring and rendering; nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/csig-agent/csig/cmd/process"
)

// version is stamped by the Makefile.
var version = "unknown"

// exitError carries an exit code through cobra.
type exitError struct {
	code int
	err  error // nil where all has been printed
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

func main() {
	os.Exit(process.Guarded("csig", os.Stderr, func() int { return run(os.Args[1:]) }))
}

func run(args []string) int {
	ctx, stop := process.Notify(context.Background())
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	out, remarks := &checkedWriter{w: os.Stdout}, io.Writer(os.Stderr)
	if wantsASCII(args, os.Stdout) {
		out.w, remarks = asciiWriter{os.Stdout}, asciiWriter{os.Stderr}
	}
	root.SetOut(out)
	root.SetErr(remarks)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return 0
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(remarks, "csig:", printableLines(exit.err.Error()))
		}
		return exit.code
	}
	fmt.Fprintln(remarks, "csig:", printableLines(err.Error()))
	if cmd.CommandPath() == "csig status" && slices.Contains(args, "--check") { // 1 is a warning to a monitoring system
		return checkUnknown
	}
	return 1
}
