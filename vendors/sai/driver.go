package sai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// dialect is how one kind of switch takes CSIG.
type dialect interface {
	// facts are those of the switch, as the fleet file has it.
	facts() vendors.Facts
	// what changes are of: what all ports share.
	what() string
	// played is the setup that the calls which were played have made.
	played() (vendors.Setup, error)
	// recorded tells whether there is a file of what was played.
	recorded() bool
	// check is why the switch cannot have a setup, nil where it can, or where its profile is
	// not known.
	check(want *vendors.Setup) error
	// commands are the calls from one setup to another, after comments.
	commands(have, want vendors.Setup) ([]byte, error)
}

// Driver stands for a switch that csig does not reach: it knows what was played there, and
// what should be.
type Driver struct{ dialect dialect }

var _ vendors.Driver = (*Driver)(nil)

// Open returns the driver of a device of the fleet. It opens nothing.
func Open(device *inventory.Device) (*Driver, error) {
	s, err := objectsOf(device)
	if err != nil {
		return nil, err
	}
	return &Driver{s}, nil
}

// Close ends the driver.
func (d *Driver) Close() error { return nil }

// Probe is what the fleet file says of the switch.
func (d *Driver) Probe(context.Context) (vendors.Facts, error) { return d.dialect.facts(), nil }

// Observe reads the setup of the last recording that was played.
func (d *Driver) Observe(context.Context) (vendors.Setup, error) { return d.dialect.played() }

// Diff lists what the recording for want would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	changes, err := diff(d.dialect.what(), &have, &want)
	if err != nil || len(changes) > 0 {
		return changes, errors.Join(err, d.dialect.check(&want))
	}
	// The setup is no other: but locators and the interval are no part of it.
	was, err := d.dialect.played()
	if err != nil || want.Measure == nil || !sameSetup(&was, &have) {
		return nil, err // or a later step of a plan
	}
	text, err := d.dialect.commands(have, want)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		if line[0] != '#' {
			n++
		}
	}
	if n > 0 {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, What: d.dialect.what(), Detail: fmt.Sprintf("locators, the interval or what the switch supports: %d calls", n)})
	}
	return changes, nil
}

// ErrNotReached is the error of everything that would write to the switch.
var ErrNotReached = errors.New("csig reaches no switch of the platforms sai and fboss: play what csig plan --commands prints, and add it to the file of played (" + docs.SAI + ")")

func notReached() error { return &vendors.PermanentError{Err: ErrNotReached} }

// Apply refuses all but what the switch has by its recording.
func (d *Driver) Apply(ctx context.Context, want vendors.Setup) error {
	have, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if !want.Nothing() {
		changes, err := d.Diff(have, want)
		if err == nil && len(changes) > 0 {
			err = notReached()
		}
		return err
	}
	return d.Remove(ctx)
}

// Update refuses: the switch computes its signal by itself.
func (d *Driver) Update(context.Context, []vendors.PortUpdate, time.Duration) (vendors.UpdateResult, error) {
	return vendors.UpdateResult{}, notReached()
}

// Release refuses: there is no lease.
func (d *Driver) Release(context.Context) error { return notReached() }

// Remove refuses where anything was played, and where that is not known.
func (d *Driver) Remove(context.Context) error {
	have, err := d.dialect.played()
	switch {
	case err != nil:
		return err
	case !have.Nothing():
		return notReached()
	case !d.dialect.recorded():
		return &vendors.PermanentError{Err: errUnknownState}
	}
	return nil
}

var errUnknownState = errors.New("csig reaches no such switch, and there is no file of what was played there: whether it has anything of CSIG is not known (" + docs.SAI + ")")

// diff lists what the recording for want changes, given the setup that was played.
func diff(what string, have, want *vendors.Setup) ([]vendors.Change, error) {
	if err := want.Check("", func(*vendors.PortSetup) error { return nil }); err != nil {
		return nil, err
	}
	if len(want.Others) > 0 && want.Strips() {
		return nil, &vendors.PermanentError{Err: lacks("other TPIDs", "a tag of %s is removed only where the chip knows that TPID as CSIG's, and it would update it elsewhere", vendors.TPIDNames(want.Others))}
	}
	out := vendors.DiffShared(have, want, what, vendors.DescribeShared)
	if !have.Nothing() {
		out = append(out, vendors.DiffProfile(have, want)...)
	}
	return append(out, vendors.DiffPorts(have, want,
		func(p *vendors.PortSetup) string {
			switch p.Action {
			case vlanrules.Update:
				return "measures, compares and replaces " + strings.Join(want.SignalNames(), ", ") + " in the chip"
			case vlanrules.Strip:
				return "removes the tag"
			}
			return "CSIG tags leave as they are"
		},
		func(*vendors.PortSetup, *vendors.PortSetup) string { return "" })...), nil
}

// sameSetup compares two setups by what recordings have of them.
func sameSetup(a, b *vendors.Setup) bool {
	x, errA := setupLine(a)
	y, errB := setupLine(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
