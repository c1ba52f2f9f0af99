package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onHangup ends the context at SIGHUP as SIGTERM does, because a terminal that
// is closed must not leave rules behind that nobody keeps true. Under nohup,
// which ignores the signal, it changes nothing.
//
// From then on a reader of the log that goes away is an error of writing to it,
// and does not kill the program.
func onHangup(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	pipe := make(chan os.Signal, 1) // nobody listens: to be told is enough
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
