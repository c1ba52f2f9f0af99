// Package inventory reads fleet files: the one file format of csig (DESIGN
// §7), from YAML to a validated, typed Fleet. Errors carry file:line:col.
package inventory

import (
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Fleet is one CSIG domain: the profile all devices share, the domain's
// policy and the devices.
type Fleet struct {
	Path    string
	Profile quantize.Profile
	Policy  Policy
	Devices []Device
}

// Policy is the domain's behaviour outside the profile's hash (DESIGN §4).
type Policy struct {
	OnStale  OnStale
	Schedule string // cron expression or "@every 100ms": when to sample
}

// OnStale is what a port's frames carry when the agent is gone or the
// counters are stale (DESIGN §5).
type OnStale string

// The fail-safe policies.
const (
	Conservative     OnStale = "conservative" // the worst bucket, with the stale locator
	StaleStrip       OnStale = "strip"
	StalePassthrough OnStale = "passthrough"
)

// Device is one switch.
type Device struct {
	Name     string
	Platform string        // a name of vendors/all, e.g. "linux"
	Local    bool          // the device csig agent runs on
	Interval time.Duration // averaging window Δt; the profile's unless overridden
	Schedule string        // the policy's unless overridden
	Ports    []Port
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
