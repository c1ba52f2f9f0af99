package vendors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/vlanrules"
)

// Knowledge is what a driver knows of what its device has of ours.
type Knowledge uint8

// The kinds of knowledge.
const (
	Unread   Knowledge = iota // nothing
	Outdated                  // what the driver left there; something else may have changed it
	Current                   // what is there
)

// Doubt is after a lost connection, or a change whose outcome is unknown.
func (k *Knowledge) Doubt() { *k = min(*k, Outdated) }

// PortSignal is what one port writes: the intents it was given last, compiled.
type PortSignal struct {
	Result vlanrules.Result

	intents []vlanrules.Intent
	given   bool            // there are any
	refused *PermanentError // why they cannot be carried out
}

// Reset is after the port's fallback was programmed in place of its intents.
func (g *PortSignal) Reset() { g.given = false }

// Given reports whether the port was given intents.
func (g *PortSignal) Given() bool { return g.given }

// Intents are those that it was given last, not to be changed; none after Reset.
func (g *PortSignal) Intents() []vlanrules.Intent {
	if !g.given {
		return nil
	}
	return g.intents
}

// Refused reports whether they cannot be carried out.
func (g *PortSignal) Refused() bool { return g.refused != nil }

// Worst is the worst bucket of the intents, as Worst has it.
func (g *PortSignal) Worst() int { return Worst(g.intents) }

// Give takes the intents of a port of this setup; fresh is false where it has them
// already. An error is a *PermanentError of the port.
func (g *PortSignal) Give(s *Setup, port string, action vlanrules.Action, intents []vlanrules.Intent) (fresh bool, err error) {
	if g.given && slices.Equal(g.intents, intents) {
		return false, g.err()
	}
	g.intents, g.given, g.refused = append(g.intents[:0], intents...), true, nil
	for i := range intents {
		in := &intents[i]
		switch {
		case in.Action != vlanrules.Update:
		case action != vlanrules.Update:
			return true, g.Refuse(port, fmt.Sprintf("its setup is %s: apply a setup that updates it first", action))
		case !slices.Contains(s.Signals, in.Signal):
			return true, g.Refuse(port, in.Signal.String()+" is not a signal of the setup")
		}
	}
	return true, nil
}

// Compile makes Result what leads from a table to the intents. What the table can do less well
// than the draft asks is the plan's to show; a change that tags pass unchanged is refused.
func (g *PortSignal) Compile(c *vlanrules.Compiler, port string, have vlanrules.Table) error {
	c.Compile(&g.Result, have, g.intents)
	if v := &g.Result.Verdict; v.Level == vlanrules.Refused || g.Result.Gap {
		return g.Refuse(port, v.Reason)
	}
	return nil
}

// Refuse notes why the intents cannot be carried out, until there are others.
func (g *PortSignal) Refuse(port, why string) error {
	g.refused = &PermanentError{Port: port, Err: errors.New(why)}
	return g.refused
}

func (g *PortSignal) err() error {
	if g.refused == nil {
		return nil // not a nil *PermanentError in an error that is not nil
	}
	return g.refused
}

// TakeOver applies the setup that is found on the device, for the first Update of a
// driver that was given none. taken reports whether that worked, whatever single ports
// lack: that comes up again in Update.
func TakeOver(ctx context.Context, d Driver, taken func() bool) error {
	s, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if s.TPID == 0 {
		return NoSetup(s.Damaged)
	}
	if err = d.Apply(ctx, s); taken() {
		return nil
	}
	return err
}

// NoSetup is the *PermanentError of an Update on a device without a setup;
// damage is what there is in its place, "" for nothing.
func NoSetup(damage string) error {
	if damage == "" {
		damage = "there is no setup on this device"
	}
	return permanent("%s: call Apply first", damage)
}

// NotInSetup is the *PermanentError of an Update of a port that the setup does
// not have.
func NotInSetup(port string) error {
	return &PermanentError{Port: port, Err: errors.New("it is not in the setup: call Apply with it first")}
}

// LateLease is the error of a lease that is to end at until and has not been sent by
// now, as after this machine stood still; nil where there is time.
func LateLease(now, until time.Time) error {
	if late := now.Sub(until); late > 0 {
		return fmt.Errorf("the lease would have ended %v before it was sent: it is not renewed", late.Round(time.Millisecond))
	}
	return nil
}
