package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Target is one device as plans see it: the daemon on the device, or a driver. A
// vendors.Driver is one.
type Target interface {
	// Probe finds out what the device can do, without changing it.
	Probe(ctx context.Context) (vendors.Facts, error)
	// Observe reads back our setup as the device has it now.
	Observe(ctx context.Context) (vendors.Setup, error)
	// Diff lists what Apply(want) would change, given what was observed.
	Diff(have, want vendors.Setup) ([]vendors.Change, error)
	// Apply makes the device's setup equal to want.
	Apply(ctx context.Context, want vendors.Setup) error
	// Remove deletes everything that is ours; idempotent.
	Remove(ctx context.Context) error
	Close() error
}

// Open connects to a device of the plan.
type Open func(ctx context.Context, device string) (Target, error)

// within limits what is done with one device; 0: a minute.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	limit = cmp.Or(limit, time.Minute)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
}

// with opens a device and does something there, within the limit.
func with(ctx context.Context, open Open, limit time.Duration, device string, do func(ctx context.Context, t Target) error) error {
	ctx, cancel := within(ctx, limit)
	defer cancel()
	err := func() (err error) {
		defer untrusted.Recover(&err)
		t, err := open(ctx, device)
		if err != nil {
			return err
		}
		defer t.Close()
		return do(ctx, t)
	}()
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	return nil
}

// SideBySide runs f for every item, parallel at a time, and begins no more after
// the end of ctx, nor after an error where that stops it. A panic in f is its error.
func SideBySide[T any](ctx context.Context, parallel int, items []T, stop bool, f func(item T) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, max(1, parallel))
	for _, item := range items {
		slots <- struct{}{}
		mu.Lock()
		halt := ctx.Err() != nil || stop && len(errs) > 0
		mu.Unlock()
		if halt {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			err := func() (err error) {
				defer untrusted.Recover(&err)
				return f(item)
			}()
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	return errors.Join(errs...)
}

// applyAndVerify makes a device's setup equal to want and reads it back. The error says
// what is not as wanted.
func applyAndVerify(ctx context.Context, t Target, want vendors.Setup) error {
	if want.Nothing() {
		if err := t.Remove(ctx); err != nil {
			return err
		}
	} else if err := t.Apply(ctx, want); err != nil {
		return err
	}
	return readBack(ctx, t, want)
}

// readBack is an error when a device does not have a setup.
func readBack(ctx context.Context, t Target, want vendors.Setup) error {
	have, err := t.Observe(ctx)
	if err != nil {
		return fmt.Errorf("reading its setup: %w", err)
	}
	return verifySetup(t, have, want)
}

// setMTU sets the MTU of ports and reads it back.
func setMTU(ctx context.Context, t Target, ports []plans.PortMTU, to func(plans.PortMTU) int) error {
	m, ok := vendors.As[vendors.MTUSetter](t)
	if !ok {
		return errNoMTU
	}
	for _, p := range ports {
		if err := m.SetMTU(ctx, p.Port, to(p)); err != nil {
			return fmt.Errorf("port %s: MTU %d: %w", p.Port, to(p), err)
		}
	}
	have, err := m.MTUs(ctx)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	for _, p := range ports {
		if have[p.Port] != to(p) {
			return fmt.Errorf("port %s: its MTU reads back as %d, want %d", p.Port, have[p.Port], to(p))
		}
	}
	return nil
}

// verifySetup is an error when have is not want.
func verifySetup(t Target, have, want vendors.Setup) error {
	if plans.SameSetup(&have, &want) { // also where both have the same damage
		return nil
	}
	changes, err := plans.Diff(t, have, want)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	c := changes[0]
	text := string(c.Kind) + " "
	if c.Port != "" {
		text += "port " + c.Port + " "
	}
	text += c.What
	if c.Detail != "" {
		text += ": " + c.Detail
	}
	if n := len(changes) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("the setup read back is not the wanted one: %s", text)
}
