// Command csig brings Congestion Signaling to switches that were never built
// for it. This package is flags, wiring and rendering; nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
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

// errInterrupted is the cause of a context that Ctrl-C ended.
var errInterrupted = errors.New("interrupted")

// init keeps the main goroutine on the main thread. A goroutine that enters a
// namespace or gives up capabilities ends its thread with itself; the main thread
// would outlive it, and /proc/self and pidfds stand for that one.
func init() { runtime.LockOSThread() }

func run(args []string) int {
	ctx, stop := notify(context.Background())
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	out := &checkedWriter{w: os.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return 0
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(os.Stderr, "csig:", exit.err)
		}
		return exit.code
	}
	fmt.Fprintln(os.Stderr, "csig:", err)
	return 1
}

// repeats is for how long further signals are taken for the first one's: a
// supervisor may send one to the process and again to its group.
const repeats = time.Second

// notify ends the context at SIGINT, with errInterrupted as its cause, and at
// SIGTERM, from the moment it is watched: the first signal kills a command
// that does not, or not yet. Another signal, a second later or more, kills the
// program as if there were no handler.
func notify(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	return &watched{ctx, sync.OnceFunc(func() { listen(ctx, cancel) })}, func() { cancel(nil) }
}

// watched is a context that calls listen before its end is waited for.
type watched struct {
	context.Context
	listen func()
}

func (w *watched) Done() <-chan struct{} {
	w.listen()
	return w.Context.Done()
}

func (w *watched) Err() error {
	w.listen()
	return w.Context.Err()
}

// listen ends a context at the first signal.
func listen(ctx context.Context, cancel context.CancelCauseFunc) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-ch:
			if sig == os.Interrupt {
				cancel(errInterrupted)
			} else {
				cancel(nil)
			}
			time.AfterFunc(repeats, func() { signal.Stop(ch) }) // until then they are dropped
		case <-ctx.Done():
			signal.Stop(ch)
		}
	}()
}
