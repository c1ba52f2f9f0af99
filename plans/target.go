package plans

import (
	"context"
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// Target is one device as plans see it: a driver, local or remote, or the
// daemon on the device. A vendors.Driver is one.
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
	if none(&want) {
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
	return differs(t, have, want)
}

// setMTU sets the MTU of ports and reads it back.
func setMTU(ctx context.Context, t Target, ports []PortMTU, to func(PortMTU) int) error {
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

// differs is an error when have is not want.
func differs(t Target, have, want vendors.Setup) error {
	changes, err := diff(t, have, want)
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

// Differ lists what turns one setup of a platform into another.
type Differ interface {
	Diff(have, want vendors.Setup) ([]vendors.Change, error)
}

// diff is Diff for any want, also for one of nothing. A panic is an error.
func diff(d Differ, have, want vendors.Setup) (changes []vendors.Change, err error) {
	defer untrusted.Recover(&err)
	if !none(&want) {
		return d.Diff(have, want)
	}
	if none(&have) {
		return nil, nil
	}
	out := []vendors.Change{{Kind: vendors.Remove, What: "setup", Detail: "everything of ours that all ports share"}}
	disrupts := disruptions(d, have)
	for _, p := range have.Ports {
		out = append(out, vendors.Change{Kind: vendors.Remove, Port: p.Port, What: p.Action.String(), Detail: "CSIG tags leave as they are", Disruptive: disrupts[p.Port]})
	}
	return out, nil
}

// disruptions is why ordinary traffic notices that ports are taken out of a
// setup, as the driver says of them when the rest of it stays. One that knows no
// setup without ports says nothing.
func disruptions(d Differ, have vendors.Setup) map[string]string {
	rest := have
	rest.Ports, rest.Damaged = nil, ""
	changes, err := d.Diff(have, rest)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, c := range changes {
		if c.Kind == vendors.Remove && c.Port != "" && c.Disruptive != "" {
			out[c.Port] = c.Disruptive
		}
	}
	return out
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
