// Package reconcile is the loop of drivers whose device keeps what it is given: it takes over the setup that is found,
// reads it again each minute and restores it, keeps the error of one port from the others, has ports fall back that
// cannot have their setup any more, and writes the fallback when the signal ends.
package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Every is how often Update reads back what the device has.
const Every = time.Minute

// NotAllowed is why nothing is written without the operator's word.
const NotAllowed = "an update is lines of configuration here, which the switch's accounting and archives keep: allow it with updates: cli in the fleet file"

// Device is what the loop asks of a platform.
type Device interface {
	// Read reads what the device has. Known reports whether that is known: it was read, and no change or
	// session has broken off since. Have is the setup in it.
	Read(ctx context.Context) error
	Known() bool
	Have() vendors.Setup

	// Refusals are the *PermanentError of ports, or of all, that cannot have a setup as the device is configured.
	Refusals(want *vendors.Setup) []error

	// Diff lists what Program would change.
	Diff(have, want vendors.Setup) ([]vendors.Change, error)

	// Program gives the device Loop.Want, but for ports that are Held.
	Program(ctx context.Context) error

	// InForce reports whether a port writes values of csig's, whatever else is near it.
	InForce(port string) bool

	// Write gives ports their values, each new one before the old one goes. done has the operations of those that
	// changed; what one lacks is its error.
	Write(ctx context.Context, ports []Port) (done map[string]int, err error)
}

// Port is one that is to write its signal.
type Port struct {
	Name    string
	Signal  *vendors.PortSignal
	Refused bool // it is to fall back
}

// Loop is what a driver knows of what its device is to have.
type Loop struct {
	Want     *vendors.Setup // nil until Apply or the first Update
	Compiler *vlanrules.Compiler
	Compared time.Time // when Want was compared with what the device has

	caps    vlanrules.Caps
	device  Device
	refused []error
	signals map[string]*vendors.PortSignal
}

// New is the loop of a device with such a table.
func New(device Device, caps vlanrules.Caps) *Loop {
	return &Loop{device: device, caps: caps, signals: map[string]*vendors.PortSignal{}}
}

// Start has the loop know the device's setup.
func (l *Loop) Start(s *vendors.Setup) {
	l.Want, l.refused = s, nil
	l.Compiler = vlanrules.NewCompiler(l.caps, s.Layout)
	clear(l.signals)
}

// Stop has it know none.
func (l *Loop) Stop() { l.Want, l.refused = nil, nil }

// Signal is what a port writes, nil where it was given nothing.
func (l *Loop) Signal(port string) *vendors.PortSignal {
	if g := l.signals[port]; g != nil && g.Given() && !g.Refused() {
		return g
	}
	return nil
}

// Forget is after ports write something else than their signals.
func (l *Loop) Forget() { clear(l.signals) }

// Held is why a port keeps what it has, nil where it does not.
func (l *Loop) Held(port string) error { return Of(l.refused, port) }

// Updating is a setup without the ports that pass tags through.
func Updating(s *vendors.Setup) *vendors.Setup {
	out := *s
	out.Ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p vendors.PortSetup) bool { return p.Action != vlanrules.Update })
	return &out
}

// Of is what of errors is a port's, or all ports'.
func Of(list []error, port string) (found error) {
	for _, err := range list {
		if ofAll(err) {
			return &vendors.PortError{Port: port, Err: err}
		}
		vendors.EachPort(err, func(name string, why error) {
			if name == port {
				found = &vendors.PortError{Port: name, Err: why}
				if permanent := (*vendors.PermanentError)(nil); errors.As(err, &permanent) && permanent.Port == name {
					found = permanent
				}
			}
		})
	}
	return found
}

// ofAll reports whether an error is that of a device that cannot have a setup at all.
func ofAll(err error) bool {
	why, ok := err.(*vendors.PermanentError) //nolint:errorlint // not of what it wraps, or joins
	return ok && why.Port == ""
}

// TakeOver makes the setup that is found on the device the loop's; the next Update repairs what it lacks.
func (l *Loop) TakeOver(ctx context.Context) error {
	if err := l.device.Read(ctx); err != nil {
		return err
	}
	have := l.device.Have()
	if have.TPID == 0 {
		return vendors.NoSetup(have.Damaged)
	}
	l.Start(have.Wanted())
	l.Compared = time.Time{}
	return nil
}

// Refuse notes which ports cannot have the setup as the device is configured.
func (l *Loop) Refuse() { l.refused = l.device.Refusals(l.Want) }

// Update gives ports their values. What a port lacks is that port's error; the others go on.
func (l *Loop) Update(ctx context.Context, updates []vendors.PortUpdate) (res vendors.UpdateResult, err error) {
	if l.Want == nil {
		if err := l.TakeOver(ctx); err != nil {
			return res, err
		}
	}
	var errs []error
	if err := l.refresh(ctx, &res); err != nil {
		if !l.device.Known() {
			return res, err
		}
		named := false
		if vendors.EachPort(err, func(string, error) { named = true }); !named {
			l.Compared = time.Time{} // until the device is as csig wants it
		}
		errs = append(errs, err)
	}
	var ports []Port
	for i := range updates {
		p, err := l.accept(updates[i], errs)
		if err != nil && Of(errs, updates[i].Port) == nil {
			errs = append(errs, err)
		}
		if p.Signal != nil {
			ports = append(ports, p)
		}
	}
	done, err := l.device.Write(ctx, ports)
	for _, ops := range done {
		res.Ports++
		res.Ops += ops
	}
	errs = append(errs, err)
	for _, p := range ports {
		if !l.device.Known() || Of([]error{err}, p.Name) != nil && !p.Signal.Refused() {
			p.Signal.Reset()
		}
	}
	if !l.device.Known() {
		return vendors.UpdateResult{Repaired: res.Repaired}, errors.Join(errs...)
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter // Write has seen it in hardware
	return res, errors.Join(errs...)
}

// accept takes an update of a port: one that cannot have its setup, or had an error just now, falls back where csig's
// values are in force, as it advertises none that csig does not stand behind.
func (l *Loop) accept(u vendors.PortUpdate, errs []error) (p Port, err error) {
	if !l.Want.HasPort(u.Port) {
		return p, vendors.NotInSetup(u.Port)
	}
	refused := Of(append(slices.Clone(errs), l.refused...), u.Port)
	if refused != nil {
		if !l.device.InForce(u.Port) {
			return p, refused
		}
		u.Intents = l.Want.Fallback()
	}
	g := l.signals[u.Port]
	if g == nil {
		g = &vendors.PortSignal{}
		l.signals[u.Port] = g
	}
	action := l.Want.ActionOf(u.Port)
	if _, err := g.Give(l.Want, u.Port, action, u.Intents); err != nil {
		return p, err
	}
	if action == vlanrules.Update {
		p = Port{u.Port, g, refused != nil}
	}
	return p, refused
}

// refresh reads what the device has where that is due, and restores what is not as csig left it.
func (l *Loop) refresh(ctx context.Context, res *vendors.UpdateResult) error {
	if l.device.Known() && time.Since(l.Compared) < Every {
		return nil
	}
	if err := l.device.Read(ctx); err != nil {
		return err
	}
	l.Compared = time.Now()
	l.Refuse()
	changes, err := l.device.Diff(l.device.Have(), *l.Want)
	if err != nil || len(changes) == 0 || slices.ContainsFunc(l.refused, ofAll) {
		return err
	}
	err = l.device.Program(ctx)
	if !l.device.Known() {
		return err
	}
	left, bad := l.device.Diff(l.device.Have(), *l.Want)
	res.NoteRepairs(slices.DeleteFunc(changes, func(c vendors.Change) bool { return slices.Contains(left, c) }))
	return errors.Join(err, bad)
}

// Release writes the fallback: nothing else ends what the ports write, also where an Apply that failed has left the
// loop without a setup.
func (l *Loop) Release(ctx context.Context) error {
	if l.Want == nil {
		if err := l.device.Read(ctx); err != nil {
			return err
		}
		have := l.device.Have()
		if len(have.Ports) == 0 {
			return nil
		}
		if l.Start(have.Wanted()); have.TPID != 0 {
			l.Compared = time.Time{} // a change that broke off is repaired first
		}
	}
	var list []vendors.PortUpdate
	for _, p := range Updating(l.Want).Ports {
		list = append(list, vendors.PortUpdate{Port: p.Port, Intents: l.Want.Fallback()})
	}
	if len(list) == 0 {
		return nil
	}
	_, err := l.Update(ctx, list) // the end of the signal is no update
	return err
}
