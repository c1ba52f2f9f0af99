package vendors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Refusal is the verdict on what a platform cannot do, with the reason.
func Refusal(why string) vlanrules.Verdict {
	return vlanrules.Verdict{Level: vlanrules.Refused, Reason: why}
}

// Facts is what a device can really do. Every limit carries its reason.
type Facts struct {
	Platform string            `json:"platform"`
	Identity Identity          `json:"identity"` // what the device reports of itself
	Rules    vlanrules.Caps    `json:"rules"`    // the table that carries compare-and-replace
	Update   vlanrules.Verdict `json:"update"`   // compare-and-replace of compact tags
	// ConfigUpdates is what an update costs where it is a change of configuration; nil: it is none.
	ConfigUpdates *ConfigUpdates `json:"config_updates,omitempty"`

	// Native is a data plane that measures, compares and replaces by itself: csig sets it up
	// and supervises it.
	Native bool `json:"is_native,omitempty"`

	// Frames are the signals of single frames that a native data plane measures at all ports;
	// those that byte counters show are the others'.
	Frames []quantize.Signal `json:"frame_signals,omitempty"`

	// Layout is what one signal takes where the driver lays the entries out by itself; nil:
	// as vlanrules says of Rules.
	Layout *Layout `json:"layout,omitempty"`

	// AckWaits is how often a change waits until what the device acknowledged is on the wire
	// (ack_to_wire of its facts), at most; 0: the driver does not wait.
	AckWaits int `json:"ack_waits,omitempty"`

	// SetupOnly is a platform whose setup gives ports that pass tags through the domain's
	// TPID; Update is refused there.
	SetupOnly bool `json:"setup_only,omitempty"`

	Unqualified string              `json:"unqualified"`        // a reason that Update and TagDepths begin with until csig qualify has tried the rules on the model
	Wide        vlanrules.Verdict   `json:"wide"`               // compare-and-replace of wide tags
	Strip       vlanrules.Verdict   `json:"strip"`              // removing the tag
	Others      int                 `json:"strip_others"`       // how many of Setup.Others it can remove, too; 0: none
	Interval    vlanrules.Verdict   `json:"interval,omitzero"`  // of a native data plane: it measures in that of the profile
	Lease       vlanrules.Verdict   `json:"lease"`              // the data plane falls back by itself
	Passthrough vlanrules.Verdict   `json:"passthrough"`        // tagged frames are forwarded by a device without any setup of ours; Degraded: only under a condition that csig cannot see
	TagDepths   []vlanrules.Verdict `json:"tag_depths"`         // TagDepths[n]: tags behind n VLAN tags
	Ports       []string            `json:"ports"`              // names of the ports it has, in no order, where Probe reads them; none where it does not
	Notes       []string            `json:"notes"`              // what an operator should know, one sentence each
	Off         []string            `json:"off"`                // what Remove does not give back as it was before us, one sentence each
	Left        []string            `json:"left,omitempty"`     // what csig made on the device's machine that is at none of its ports, and that no process drives, one sentence each
	MTUHeadroom int                 `json:"mtu_headroom_bytes"` // bytes beyond a port's MTU that it forwards all the same
	PortIssues  []PortVerdict       `json:"port_issues"`        // of ports: what stands in the way of tags there, Refused or Degraded
	Traits      Traits              `json:"traits"`             // how the platform treats tags, with sources
}

// PortVerdict is why a port cannot have tags as it is, or has them only in part.
type PortVerdict struct {
	Port string `json:"port"`
	vlanrules.Verdict
}

// Setup is what a device's CSIG configuration is to be: it changes rarely, and
// plans, hashes and drift see only this.
type Setup struct {
	TPID     uint16 // of compact tags
	WideTPID uint16 // of wide tags; 0 where the domain has none
	Layout   quantize.Layout
	Signals  []quantize.Signal // carried by the domain, in wire order
	OnStale  inventory.OnStale

	// Profile is the hash of the domain's profile (quantize.Profile.Hash),
	// recorded on the device beside the rules: what S and LM mean is no part of
	// the rules themselves. "" is none, which is what older versions of csig
	// left; a device without a place to record it gives it back as "" and says
	// so in its facts.
	Profile string

	// Measure is that profile with the device's own interval, for one that measures by
	// itself; only in a wanted setup, and nil where no more than its hash is known, as in a roll-back.
	Measure *quantize.Profile

	// Device is the one that it was made for, beside Measure: it has the locators, for one whose
	// chip takes them with its setup. nil where Measure is.
	Device *inventory.Device `json:"-"`

	// Others are TPIDs of CSIG tags beside the domain's own: those of earlier
	// profiles, which hosts may still send, and of the next one while a domain
	// migrates. Their tags leave no port that strips, nor one with StripOthers;
	// a port that updates leaves a tag alone that stands in front of one. They are
	// in the order of CompareTPIDs, each once, none of them the domain's own, and
	// there are none where every port passes tags through.
	Others []OtherTPID

	Ports   []PortSetup // in the device's port order, names unique
	Damaged string      // only from Observe: what all ports share and is not as Apply leaves it

	// Config names the configuration that csig agent on the device runs, where
	// the device is driven through it: the hash of inventory.Fleet.Own. What it
	// says is no part of the setup, since it may hold the arguments of commands
	// that fetch secrets. It is "" elsewhere, drivers pay no heed to it, and a
	// wanted setup without one is content with any.
	Config string
}

// OtherTPID is a TPID of CSIG tags that are not the domain's.
type OtherTPID struct {
	TPID uint16
	Wide bool // its tags have 8 bytes, not 4
}

// CompareTPIDs orders TPIDs by their number.
func CompareTPIDs(a, b OtherTPID) int {
	return cmp.Or(int(a.TPID)-int(b.TPID), cmp.Compare(b2i(a.Wide), b2i(b.Wide)))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// PortSetup is the setup of one egress port.
type PortSetup struct {
	Port   string
	Action vlanrules.Action // what happens to the domain's own tags

	// StripOthers removes the tags of Setup.Others at a port that does not
	// strip; one that strips removes them anyway, and has it false.
	StripOthers bool

	Damaged string // only from Observe: what is not as Apply leaves it
}

// Strips reports whether the port removes tags of any kind.
func (p *PortSetup) Strips() bool { return p.Action == vlanrules.Strip || p.StripOthers }

// Strips reports whether any port removes tags.
func (s *Setup) Strips() bool {
	return slices.ContainsFunc(s.Ports, func(p PortSetup) bool { return p.Strips() })
}

// Change is one difference between an observed and a wanted setup.
type Change struct {
	Kind       ChangeKind
	Port       string // "" for the whole device
	What       string // e.g. "chain swp1", "strip"
	Detail     string // the change in one line
	Disruptive string // why ordinary traffic notices, "" when it does not
}

// Layout is what one signal of a port takes of a table.
type Layout struct {
	Entries  int     `json:"entries"`  // at most, while nothing changes
	Headroom int     `json:"headroom"` // as many more while a value changes
	OpsMean  float64 `json:"ops_mean"` // operations for a bucket that moves by one
	OpsMax   int     `json:"ops_max"`
}

// ChangeKind is + ~ or -.
type ChangeKind string

// The kinds of change.
const (
	Create ChangeKind = "+"
	Alter  ChangeKind = "~"
	Remove ChangeKind = "-"
)

// PortUpdate is the wanted signal of one port: one intent for each signal the
// port updates.
type PortUpdate struct {
	Port    string
	Intents []vlanrules.Intent

	// Rate is the port's capacity in bit/s, for a device that measures by itself, which
	// takes the locators of Intents and computes S; 0: not known.
	Rate uint64
}

// UpdateResult counts what an Update did.
type UpdateResult struct {
	Ports    int     // ports whose entries changed
	Ops      int     // entry operations sent to the device
	Entries  int     // that the values of all ports take of the device's table now; 0: the driver does not count them
	Repaired Repairs // what another process had changed and was restored

	// ReadBack is what this update knows of the device beyond what it acknowledged.
	ReadBack ReadBack

	// Restarted is whether that is because the device had lost its rules, as after a
	// restart, and not because of another process.
	Restarted bool

	// Leased is whether the lease was renewed and every port that no
	// *PermanentError or *PortError of the error names has what it should.
	Leased bool

	// Lease is what the device made of the lease, where it knows only coarser
	// ones; it is never shorter than asked for. 0: as asked for.
	Lease time.Duration

	// Facts is what the device can do now, where that is no longer what was said
	// last, by Probe or an Update; nil: it is.
	Facts *Facts
}

// Driver programs one device. It touches only objects it has marked as its
// own. Methods are not safe for concurrent use. Errors are transient unless
// they are a *PermanentError; those of single ports name them, as *PortError
// or *PermanentError, and leave the others alone.
type Driver interface {
	// Probe finds out what the device can do, without changing it.
	Probe(ctx context.Context) (Facts, error)

	// Observe reads back our setup as the device has it now; a device we
	// never touched gives a Setup without ports.
	Observe(ctx context.Context) (Setup, error)

	// Diff lists what Apply(want) would change, given what was observed. An
	// empty list means nothing to do.
	Diff(have, want Setup) ([]Change, error)

	// Apply makes the device's setup equal to want. It may be called many
	// times with the same one; it keeps what is right without a flap. What
	// a device can refuse it refuses before the first write, so that a
	// *PermanentError leaves it as it was.
	Apply(ctx context.Context, want Setup) error

	// Update renews the lease for another lease period and makes the signal entries of
	// the listed ports equal to the wanted ones, all in one transaction where the
	// device has one. Other ports stay as they are.
	// It may be called many times with the same intents. Frames see the old
	// or the new value, never a third (docs/rules.md). The updates are read
	// only during the call.
	Update(ctx context.Context, updates []PortUpdate, lease time.Duration) (UpdateResult, error)

	// Release ends the lease now: the data plane falls back at once.
	Release(ctx context.Context) error

	// Remove deletes everything that is ours; idempotent.
	Remove(ctx context.Context) error

	Close() error
}

// PermanentError is an error that trying again will not cure.
type PermanentError struct {
	Port string // "" for the whole device
	Err  error
}

func (e *PermanentError) Error() string {
	if e.Port == "" {
		return e.Err.Error()
	}
	return "port " + e.Port + ": " + e.Err.Error()
}

func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent is how an error says that trying again will not cure it; those of protocols' clients may, too.
func (e *PermanentError) Permanent() bool { return true }

// Permanent is the part of an error that says that trying again will not cure it; nil: none does.
func Permanent(err error) error {
	var e interface {
		error
		Permanent() bool
	}
	if errors.As(err, &e) && e.Permanent() {
		return e
	}
	return nil
}

// IsPermanent reports whether an error says that trying again will not cure it.
func IsPermanent(err error) bool { return Permanent(err) != nil }

// PortError is an error of one port that may pass; the others are not
// concerned.
type PortError struct {
	Port string
	Err  error
}

func (e *PortError) Error() string { return "port " + e.Port + ": " + e.Err.Error() }

func (e *PortError) Unwrap() error { return e.Err }

// ErrNotInHardware is in the error of rules that the device has taken, by its own report, into its
// configuration alone.
var ErrNotInHardware = errors.New("configured and not in hardware")

// EachPort calls f for every error of a single port in the tree of err.
func EachPort(err error, f func(port string, err error)) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil:
	case *PortError:
		f(e.Port, e.Err)
	case *PermanentError:
		if e.Port != "" {
			f(e.Port, e.Err)
		}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			EachPort(err, f)
		}
	case interface{ Unwrap() error }:
		EachPort(e.Unwrap(), f)
	}
}

// ForeignError is the error for a foreign object in the place of the driver's own:
// ours is gone, fallback included, and nothing may be changed. It comes
// inside a *PermanentError.
type ForeignError struct {
	What string // the object, why it is not ours, and what to do
}

func (e *ForeignError) Error() string { return e.What }

// HeldError says that another process programs the device, and holds its lock.
// Nothing was changed. It comes inside a *PermanentError.
type HeldError struct {
	By    string // who, for a person to find it
	Taken bool   // it took the device from this process, which is not to take it back
}

func (e *HeldError) Error() string { return "it is programmed by " + e.By + ", which holds its lock" }

// Passes reports whether a start that failed so is to be tried again: after all errors but
// refusals, and after those that end by themselves, as another process gives the device up.
func Passes(err error) bool {
	var held *HeldError
	return !IsPermanent(err) || errors.As(err, &held) && !held.Taken
}

// SetupOf is the setup that a device of the fleet is to have.
func SetupOf(prof *quantize.Profile, pol inventory.Policy, dev *inventory.Device) Setup {
	return SetupWith(prof, prof.Hash(), pol, dev)
}

// SetupWith is SetupOf for who knows the profile's hash: it takes longer than all
// the rest.
func SetupWith(prof *quantize.Profile, hash string, pol inventory.Policy, dev *inventory.Device) Setup {
	s := Setup{TPID: prof.TPID, WideTPID: prof.WideTPID, Layout: prof.Layout, OnStale: pol.OnStale, Profile: hash, Measure: prof, Device: dev}
	if dev.Interval != 0 && dev.Interval != prof.Interval {
		own := *prof
		own.Interval = dev.Interval
		s.Measure = &own
	}
	for _, sig := range quantize.Signals {
		if _, ok := prof.Signals[sig]; ok {
			s.Signals = append(s.Signals, sig)
		}
	}
	for _, r := range pol.Retired {
		s.Others = append(s.Others, OtherTPID(r))
	}
	if len(dev.Ports) > 0 {
		s.Ports = make([]PortSetup, 0, len(dev.Ports))
	}
	for i := range dev.Ports {
		p := &dev.Ports[i]
		s.Ports = append(s.Ports, PortSetup{Port: p.Name, Action: p.Action, StripOthers: p.StripRetired})
	}
	s.DropOthers()
	return s
}

// DropOthers leaves other TPIDs out where no port looks at tags, and a port's
// StripOthers where its action or the lack of other TPIDs makes it idle.
func (s *Setup) DropOthers() {
	looks := false
	for i := range s.Ports {
		p := &s.Ports[i]
		p.StripOthers = p.StripOthers && p.Action != vlanrules.Strip && len(s.Others) > 0
		looks = looks || p.Action == vlanrules.Update || p.Strips()
	}
	if !looks {
		s.Others = nil
	}
}

// NoDriverError says that csig drives no device of a platform, so that nothing
// of csig can be on one. It comes inside a *PermanentError.
type NoDriverError struct {
	Platform string
	Err      error // which platform, and what to do
}

func (e *NoDriverError) Error() string { return e.Err.Error() }

func (e *NoDriverError) Unwrap() error { return e.Err }

// FlowTakes is the error of a port some of whose frames a foreign flow may take, which is
// at where.
func FlowTakes(where string) error {
	return fmt.Errorf("a flow that is not csig's may take its frames in place of csig's flows, and is left alone: delete it, or give csig tables of its own (it is in %s)", where)
}
