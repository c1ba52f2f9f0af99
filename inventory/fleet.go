package inventory

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Fleet is one CSIG domain: the profile all devices share, the domain's
// policy and the devices. Defaults are filled in.
type Fleet struct {
	Path      string // the name given to Parse
	Profile   quantize.Profile
	Policy    Policy
	VLANTPIDs []uint16 // TPIDs of the domain's ordinary VLANs, none of them CSIG's
	Devices   []Device
}

// Policy is the domain's behaviour outside the profile's hash.
type Policy struct {
	OnStale   OnStale
	Schedule  string // for ParseSchedule: when to sample
	Estimator Estimator
	Damping   Damping
}

// OnStale is what a port's frames carry when the agent is gone or the
// counters are stale.
type OnStale string

// The fail-safe policies.
const (
	Conservative     OnStale = "conservative" // the worst bucket, with the stale locator
	StaleStrip       OnStale = "strip"
	StalePassthrough OnStale = "passthrough"
)

// Device is one switch.
type Device struct {
	Name      string
	Platform  string        // a name of vendors/all, e.g. "linux"
	Local     bool          // the device csig agent runs on
	Address   string        // management address, an IP address or a host's name; "" when not given
	Interval  time.Duration // averaging window Δt; the profile's unless overridden
	Schedule  string        // the policy's unless overridden; "@every" Interval where neither says
	Estimator Estimator     // the policy's unless overridden
	Counters  Counters
	Ports     []Port
}

// Port is one egress port.
type Port struct {
	Name   string
	Speed  uint64 // capacity C in bit/s; 0: ask the device
	Action vlanrules.Action
	LM     map[quantize.Signal]uint16 // locator to write, for each signal of the profile
	Peer   Peer
}

// Peer is the far end of a port's link; the zero value is unknown.
type Peer struct {
	Device, Port string // Port is "" for a host with one interface
}

// String is the form of the file: "s2:swp1", or "h1"; "" when unknown.
func (p Peer) String() string {
	if p.Port == "" {
		return p.Device
	}
	return p.Device + ":" + p.Port
}

// PortRef names one port of a fleet.
type PortRef struct {
	Device, Port string
}

// String returns "device:port".
func (p PortRef) String() string { return p.Device + ":" + p.Port }

// Device returns the device of that name; false when there is none. The
// pointer is into the fleet.
func (f *Fleet) Device(name string) (*Device, bool) {
	for i := range f.Devices {
		if f.Devices[i].Name == name {
			return &f.Devices[i], true
		}
	}
	return nil, false
}

// Port returns the port of that name; false when there is none. The pointer
// is into the device.
func (d *Device) Port(name string) (*Port, bool) {
	for i := range d.Ports {
		if d.Ports[i].Name == name {
			return &d.Ports[i], true
		}
	}
	return nil, false
}

// LocalDevice returns the one device marked local. None, and more than one,
// is an error that says what to write in the file.
func (f *Fleet) LocalDevice() (*Device, error) {
	var local []*Device
	var names []string
	for i := range f.Devices {
		names = append(names, f.Devices[i].Name)
		if f.Devices[i].Local {
			local = append(local, &f.Devices[i])
		}
	}
	switch {
	case len(local) == 1:
		return local[0], nil
	case len(local) > 1:
		return nil, fmt.Errorf("%s: %d devices are marked local, want the one this agent runs on", f.Path, len(local))
	case len(names) == 0:
		return nil, errors.New(f.Path + ": the file has no devices; add this one, with local: true")
	case len(names) > 8:
		names = append(names[:8], "…")
	}
	return nil, fmt.Errorf(`%s: no device is marked "local: true"; mark the one this agent runs on (%s)`, f.Path, strings.Join(names, ", "))
}

// LocatorPorts lists the ports that may have written a compact locator for a
// signal, in the order of the file: all update ports with that LM. Several is
// no error, since LM has too few bits to name every port of a fleet; none is
// what "none", "stale" and an unknown locator give.
func (f *Fleet) LocatorPorts(sig quantize.Signal, lm uint16) []PortRef {
	var out []PortRef
	for _, d := range f.Devices {
		for _, p := range d.Ports {
			if own, ok := p.LM[sig]; ok && own == lm && p.Action == vlanrules.Update {
				out = append(out, PortRef{d.Name, p.Name})
			}
		}
	}
	return out
}
