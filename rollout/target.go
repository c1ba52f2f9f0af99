package rollout

import (
	"context"
	"fmt"

	"github.com/csig-agent/csig/plans"
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

// bring makes a device's setup equal to want and reads it back. The error says
// what is not as wanted.
func bring(ctx context.Context, t Target, want vendors.Setup) error {
	if plans.NoSetup(&want) {
		if err := t.Remove(ctx); err != nil {
			return err
		}
	} else if err := t.Apply(ctx, want); err != nil {
		return err
	}
	have, err := t.Observe(ctx)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
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
	changes, err := plans.Diff(t, have, want)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	text := changeText(changes[0])
	if n := len(changes) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("the setup read back is not the wanted one: %s", text)
}

func changeText(c vendors.Change) string {
	text := string(c.Kind) + " "
	if c.Port != "" {
		text += "port " + c.Port + " "
	}
	text += c.What
	if c.Detail != "" {
		text += ": " + c.Detail
	}
	return text
}
