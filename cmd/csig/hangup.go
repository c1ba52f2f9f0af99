package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onHangup ends the context at SIGHUP as SIGTERM does, because a terminal that
// is closed, or a login that is lost, must not leave stale rules or a partially
// changed device behind. Under nohup, which ignores the
// signal, it changes nothing.
//
// From then on a reader of the output that goes away does not kill the program
// in the middle of a device: a checkedWriter continues without it.
func onHangup(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	pipe := make(chan os.Signal, 1) // it is not read: being notified is enough
	signal.Notify(pipe, syscall.SIGPIPE)
	hangup := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-hangup:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
