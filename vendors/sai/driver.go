package sai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Driver stands for a switch that csig does not reach: it knows what was played there, and
// what should be.
type Driver struct {
	device inventory.Device
	keys   *Keys
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns the driver of a device of the fleet. It opens nothing.
func Open(device *inventory.Device) (*Driver, error) {
	keys, ok := inventory.OwnKeys[*Keys](device)
	if !ok {
		return nil, &vendors.PermanentError{Err: errors.New(`its objects are not known: add management: {sai: {ports: [{name: Ethernet0, oid: "oid:0x1000000000002"}]}}, or give it the level that it has`)}
	}
	return &Driver{device: *device, keys: keys}, nil
}

// Close ends the driver.
func (d *Driver) Close() error { return nil }

// Probe is what the fleet file says of the switch.
func (d *Driver) Probe(context.Context) (vendors.Facts, error) {
	return facts(d.keys.Capabilities.capabilities()), nil
}

// Observe reads the setup of the last recording that was played.
func (d *Driver) Observe(context.Context) (vendors.Setup, error) {
	_, s, err := played(d.keys.Played)
	return s, err
}

// Diff lists what the recording for want would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	changes, err := Diff(have, want)
	if err != nil || len(changes) > 0 {
		return changes, errors.Join(err, Refuse(&d.device, want))
	}
	// The setup is no other: but locators and the interval are no part of it.
	have.Measure = want.Measure
	from, was, err := played(d.keys.Played)
	if err != nil || want.Measure == nil || !sameSetup(&was, &have) {
		return nil, err // or a later step of a plan
	}
	to, _, err := program(&d.device, &want, nil)
	if err != nil {
		return nil, err
	}
	if n := len(Changes(from, to)); n > 0 {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, What: "TAM objects", Detail: fmt.Sprintf("locators, the interval or their IDs: %d calls", n)})
	}
	return changes, nil
}

// ErrNotReached is the error of everything that would write to the switch.
var ErrNotReached = errors.New("csig reaches no switch of the platform sai: play what csig plan --commands prints, and add it to the file of management.sai.played (docs/sai.md)")

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

// Remove refuses where anything was played.
func (d *Driver) Remove(ctx context.Context) error {
	have, err := d.Observe(ctx)
	if err == nil && !have.Nothing() {
		err = notReached()
	}
	return err
}

// Diff lists what the recording for want changes, given the setup that was played. It
// reads nothing.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := want.Check("", func(*vendors.PortSetup) error { return nil }); err != nil {
		return nil, err
	}
	if len(want.Others) > 0 && want.Strips() {
		return nil, &vendors.PermanentError{Err: lacks("other TPIDs", "a tag of %s is removed only where TAM_INT objects have that TPID, which would update it elsewhere", vendors.TPIDNames(want.Others))}
	}
	out := vendors.DiffShared(&have, &want, "TAM objects", vendors.DescribeShared)
	if !have.Nothing() {
		out = append(out, vendors.DiffProfile(&have, &want)...)
	}
	return append(out, vendors.DiffPorts(&have, &want,
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

// program makes the objects of a setup; nil where no port has to do with tags. Where no
// more than the profile's hash is known, they are those of before, which is of the same profile.
func program(device *inventory.Device, want *vendors.Setup, before *Program) (*Program, vlanrules.Verdict, error) {
	var full vlanrules.Verdict
	keys, ok := inventory.OwnKeys[*Keys](device)
	if !ok {
		_, err := Open(device)
		return nil, full, err
	}
	if want.Nothing() || !slices.ContainsFunc(want.Ports, func(p vendors.PortSetup) bool { return p.Action != vlanrules.Passthrough }) {
		return nil, full, nil
	}
	ports := keys.ports(device, want)
	if want.Measure != nil {
		in := Input{Profile: want.Measure, Interval: device.Interval, Caps: keys.Capabilities.capabilities(), Ports: ports}
		if in.Interval == 0 {
			in.Interval = want.Measure.Interval
		}
		in.Switch, in.Foreign = keys.bound()
		made, degraded, err := Compile(&in)
		if err != nil {
			err = &vendors.PermanentError{Err: err}
		}
		return made, degraded, err
	}
	if before == nil {
		return nil, full, &vendors.PermanentError{Err: errUnknownProfile}
	}
	made := &Program{Own: before.Own, Switch: before.Switch}
	for i := range ports {
		o, err := portOf(want.Layout, want.Signals, &ports[i])
		if err != nil {
			return nil, full, &vendors.PermanentError{Err: err}
		}
		made.Ports = append(made.Ports, o)
	}
	return made, full, nil
}

var errUnknownProfile = errors.New("no more than the hash of the profile is known, of which the objects are made")

// ports are those of a setup, with their objects and locators.
func (k *Keys) ports(device *inventory.Device, want *vendors.Setup) (out []Port) {
	ids, locators := map[string]OID{}, map[string]map[quantize.Signal]uint16{}
	for _, p := range k.Ports {
		ids[p.Name], _ = ParseOID(p.OID) // Check has read it
	}
	for i := range device.Ports {
		locators[device.Ports[i].Name] = device.Ports[i].LM
	}
	for _, p := range want.Ports {
		out = append(out, Port{Name: p.Port, OID: ids[p.Port], Action: p.Action, LM: locators[p.Port]})
	}
	return out
}

// bound are the switch and what others have bound on it.
func (k *Keys) bound() (id OID, foreign []OID) {
	id = OID(SwitchObject) << 48
	if k.Switch != "" {
		id, _ = ParseOID(k.Switch)
	}
	for _, text := range k.TAM {
		if tam, err := ParseOID(text); err == nil {
			foreign = append(foreign, tam)
		}
	}
	return id, foreign
}

// Refuse is why a device cannot have a setup, nil where it can, or where the profile is not
// known.
func Refuse(device *inventory.Device, want vendors.Setup) error {
	_, _, err := program(device, &want, nil)
	if errors.Is(err, errUnknownProfile) {
		return nil
	}
	return err
}

// Commands is the recording that leads from one setup to another: from what was played,
// where that made the first.
func Commands(device *inventory.Device, have, want vendors.Setup) ([]byte, error) {
	keys, ok := inventory.OwnKeys[*Keys](device)
	if !ok {
		_, err := Open(device)
		return nil, err
	}
	on, was, err := played(keys.Played)
	if err != nil {
		return nil, err
	}
	// before are the objects of a profile, if they are known.
	before := func(profile string) *Program {
		if was.Profile == profile {
			return on
		}
		return nil
	}
	from := on
	if !sameSetup(&was, &have) { // a later step of a plan
		if have.Profile == want.Profile {
			have.Measure = want.Measure
		}
		if from, _, err = program(device, &have, before(have.Profile)); err != nil {
			return nil, fmt.Errorf("the step before this one: %w", err)
		}
	}
	to, degraded, err := program(device, &want, before(want.Profile))
	if err != nil {
		return nil, err
	}
	out, err := setupLine(&want)
	if err != nil {
		return nil, err
	}
	if degraded.Reason != "" {
		out = append(out, comment("degraded: "+degraded.Reason)...)
	}
	return append(out, Record(Changes(from, to))...), nil
}

// sameSetup compares two setups by what recordings have of them.
func sameSetup(a, b *vendors.Setup) bool {
	x, errA := setupLine(a)
	y, errB := setupLine(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}
