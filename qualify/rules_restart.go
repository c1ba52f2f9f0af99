package qualify

import (
	"context"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// booting is how long a restart may take, downAfter how long it may take to begin, and
// outage after how long without a frame it has.
const (
	booting   = 15 * time.Minute
	downAfter = 2 * time.Minute
	outage    = 200 * time.Millisecond
)

// commandFails is how long a switch may take to go down after the command has failed: one
// over SSH often does, as the switch ends its session.
const commandFails = 10 * time.Second

// goesDown has the switch restart, and waits until frames are lost and the command has ended,
// which may be before the switch is down or after it is up again.
func (t *Trial) goesDown(ctx context.Context, began time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	var failed error // of the command, once it has ended
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = t.Restart(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	over := false
	t.waits("waiting up to %v until the switch is down", downAfter)
	for t.sync(ctx, outage, 0, 1) == nil {
		select {
		case <-ended:
			if !over && failed != nil {
				began = time.Now().Add(commandFails - downAfter)
			}
			over = true
		default:
		}
		switch {
		case time.Since(began) < downAfter:
		case over && failed != nil:
			return Cannot("restarting the switch: %v", failed)
		default:
			return Cannot("frames pass without an interruption of %v, %v after the command that restarts the switch", outage, downAfter)
		}
	}
	select {
	case <-ended: // whatever it says: the switch has gone down
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.Negative("frames that are sent while the switch is down are missed", true, "")
}

// forwardsAgain waits until frames pass after a restart. A switch that forwards nothing
// without a setup of csig gets it again: at once where it was so before the run, else a
// while after its management answers.
func (t *Trial) forwardsAgain(ctx context.Context) (empty bool, err error) {
	var answered time.Time
	for until := time.Now().Add(booting); ; {
		if err = t.Learn(ctx); err == nil {
			return empty, nil
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return empty, err
		}
		if t.Reopen != nil && t.reopened(ctx) != nil { // it may not be up yet
			continue
		}
		if _, err := t.Driver.Observe(ctx); err == nil && answered.IsZero() {
			answered = time.Now()
		}
		bare := t.runner != nil && t.runner.bare
		if !answered.IsZero() && (bare || time.Since(answered) > linkUp) {
			empty = t.Apply(ctx, t.Setup(vlanrules.Passthrough)) == nil || empty
		}
	}
}

// restarts has the switch restart under a long lease.
func restarts(ctx context.Context, t *Trial) error {
	if t.Restart == nil {
		return Cannot("a command that restarts the switch is needed: --restart")
	}
	// A lease that ends with the restart: a value that is still there then is stuck.
	lease := t.lease()
	setup, err := t.begin(ctx, lease)
	if err != nil {
		return err
	}
	if _, err := t.write(ctx, &setup, held, lease, both...); err != nil {
		return err
	}
	began := time.Now()
	if err := t.goesDown(ctx, began); err != nil {
		return err
	}
	t.waits("waiting up to %v until it forwards again", booting)
	empty, err := t.forwardsAgain(ctx)
	if err != nil {
		return t.Positive("frames without a tag arrive after the restart", false, "%v", err)
	}
	t.Measured("until_it_forwards_s", time.Since(began).Seconds())
	if empty {
		t.Measured("setup_survives", 0)
		if _, err := t.begin(ctx, heldFor); err != nil {
			t.Fault("not-restored", "after the restart a setup cannot be applied: %v", err)
		}
		t.Found("after the restart nothing is forwarded until an agent applies the setup, as before csig had one")
		return nil
	}
	now, err := t.look(ctx, &setup, held, both...)
	for err == nil && now == writes && time.Since(began) < lease+late {
		if err = vendors.Wait(ctx, still); err == nil {
			now, err = t.look(ctx, &setup, held, both...)
		}
	}
	if err != nil {
		return err
	}
	if now != untouched && now != fallsBack {
		t.Fault("wrong-after-restart", "after the restart, and after the end of the lease, %s write %s", t.bothNames(), now)
	}
	var have vendors.Setup
	for until := time.Now().Add(booting); ; {
		if t.Reopen != nil {
			err = t.reopened(ctx)
		}
		if err == nil {
			have, err = t.Driver.Observe(ctx)
		}
		if err == nil {
			break
		}
		if time.Now().After(until) {
			return Cannot("the management of the switch does not answer %v after the restart: %v", booting, err)
		}
		if err := vendors.Wait(ctx, time.Second); err != nil {
			return err
		}
	}
	survives := !have.Nothing() && now == fallsBack
	t.Measured("setup_survives", map[bool]float64{true: 1}[survives])
	if _, err := t.begin(ctx, heldFor); err != nil {
		t.Fault("not-restored", "after the restart a setup cannot be applied: %v", err)
		return nil
	}
	if survives {
		t.Found("after the restart %s write the fallback until an agent programs them", t.bothNames())
	} else {
		t.Found("after the restart %s write %s until an agent applies the setup", t.bothNames(), now)
	}
	return nil
}
