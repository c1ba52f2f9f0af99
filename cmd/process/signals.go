package process

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ErrInterrupted is the cause of a context that Ctrl-C ended.
var ErrInterrupted = errors.New("interrupted")

// init keeps the main goroutine on the main thread. A goroutine that enters a
// namespace or gives up capabilities ends its thread with itself; the main thread
// would outlive it, and /proc/self and pidfds stand for that one.
func init() { runtime.LockOSThread() }

// repeats is for how long further signals are taken for the first one's: a
// supervisor may send one to the process and again to its group.
const repeats = time.Second

// Notify ends the context at SIGINT, with ErrInterrupted as its cause, and at
// SIGTERM, from the moment it is watched: the first signal kills a command
// that does not, or not yet. Another signal, a second later or more, kills the
// program as if there were no handler.
func Notify(parent context.Context) (context.Context, func()) {
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
				cancel(ErrInterrupted)
			} else {
				cancel(nil)
			}
			time.AfterFunc(repeats, func() { signal.Stop(ch) }) // until then they are dropped
		case <-ctx.Done():
			signal.Stop(ch)
		}
	}()
}

// OnHangup ends the context at SIGHUP as SIGTERM does, because a terminal that
// is closed, or a login that is lost, must not leave stale rules or a partially
// changed device behind. Under nohup, which ignores the
// signal, it changes nothing.
//
// From then on a reader of the output that goes away does not kill the program
// in the middle of a device.
func OnHangup(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	onHangup(ctx, cancel)
	return ctx, cancel
}

// OnReload is OnHangup for a service. Without a controlling terminal SIGHUP is a user's wish
// to have files read again: then the channel has something in it.
func OnReload(parent context.Context) (ctx context.Context, reload <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	wishes := make(chan struct{}, 1)
	if tty, err := os.Open("/dev/tty"); err == nil {
		_ = tty.Close()
		onHangup(ctx, cancel)
		return ctx, wishes, cancel
	}
	onHangup(ctx, func() {
		select {
		case wishes <- struct{}{}:
		default: // one that was not taken yet reads what is there then
		}
	})
	return ctx, wishes, cancel
}

// onHangup calls a function at each SIGHUP until ctx ends.
func onHangup(ctx context.Context, hungUp func()) {
	pipe := make(chan os.Signal, 1) // it is not read: being notified is enough
	signal.Notify(pipe, syscall.SIGPIPE)
	hangup := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	go func() {
		for {
			select {
			case <-hangup:
				hungUp()
			case <-ctx.Done():
				return
			}
		}
	}()
}
