//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestSignalEndsTheContext looks at contexts made of the program's before and
// after the signal.
func TestSignalEndsTheContext(t *testing.T) {
	ctx, stop := Notify(context.Background())
	defer stop()
	derived, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-derived.Done()
	if ctx.Err() == nil || !errors.Is(context.Cause(derived), ErrInterrupted) || !errors.Is(context.Cause(ctx), ErrInterrupted) {
		t.Errorf("it ended with %v, cause %v", ctx.Err(), context.Cause(derived))
	}
}
