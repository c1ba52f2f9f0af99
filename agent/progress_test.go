package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A driver that does not come back is no progress; one that is slow is, and so is a daemon that
// waits.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{}
		k := newKeeper(t, drv, nil)
		k.begin(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		alive := func(want bool, after time.Duration, when string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := k.Alive(); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		alive(true, time.Hour, "waiting for a configuration")
		k.configure(t, deviceText)
		alive(true, 10*time.Minute, "running")
		held := make(chan struct{})
		k.with(func(r *recorder) { r.tried = func() { <-held } })
		alive(true, 10*time.Second, "for 10 s in the driver")
		alive(false, 20*time.Second, "for 30 s in the driver")
		close(held)
		alive(true, time.Second, "after the driver came back")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		alive(false, time.Hour, "after its end")
		k.close(t)
	})
}
