package sai

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// objects is a switch of the platform sai, as the fleet file has it.
type objects struct {
	device *inventory.Device
	keys   *Keys
}

func objectsOf(device *inventory.Device) (*objects, error) {
	keys, ok := inventory.OwnKeys[*Keys](device)
	if !ok {
		return nil, &vendors.PermanentError{Err: errors.New(`its objects are not known: add management: {sai: {ports: [{name: Ethernet0, oid: "oid:0x1000000000002"}]}}, or give it the level that it has`)}
	}
	return &objects{device, keys}, nil
}

const tamObjects = "TAM objects"

func (s *objects) what() string { return tamObjects }

func (s *objects) facts() vendors.Facts { return byHand(s.keys.Capabilities.capabilities()) }

func (s *objects) played() (vendors.Setup, error) {
	_, setup, err := played(s.keys.Played)
	return setup, err
}

func (s *objects) recorded() bool { return exists(s.keys.Played) }

var errUnknownProfile = errors.New("no more than the hash of the profile is known, of which the objects are made")

func (s *objects) check(want *vendors.Setup) error {
	_, _, err := s.program(want, nil)
	if errors.Is(err, errUnknownProfile) {
		return nil
	}
	return err
}

// program makes the objects of a setup; nil where no port has to do with tags. Where no
// more than the profile's hash is known, they are those of before, which is of the same profile.
func (s *objects) program(want *vendors.Setup, before *Program) (*Program, vlanrules.Verdict, error) {
	var full vlanrules.Verdict
	if want.Nothing() || !slices.ContainsFunc(want.Ports, func(p vendors.PortSetup) bool { return p.Action != vlanrules.Passthrough }) {
		return nil, full, nil
	}
	ports := s.ports(want)
	if want.Measure != nil {
		in := Input{Profile: want.Measure, Interval: s.device.Interval, Caps: s.keys.Capabilities.capabilities(), Ports: ports}
		if in.Interval == 0 {
			in.Interval = want.Measure.Interval
		}
		in.Switch, in.Foreign = s.keys.bound()
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

// portsOf are those of a setup, with their locators.
func portsOf(device *inventory.Device, want *vendors.Setup) (out []Port) {
	locators := map[string]map[quantize.Signal]uint16{}
	for i := range device.Ports {
		locators[device.Ports[i].Name] = device.Ports[i].LM
	}
	for _, p := range want.Ports {
		out = append(out, Port{Name: p.Port, Action: p.Action, LM: locators[p.Port]})
	}
	return out
}

// ports are those of a setup, with their objects and locators.
func (s *objects) ports(want *vendors.Setup) []Port {
	ids, out := map[string]OID{}, portsOf(s.device, want)
	for _, p := range s.keys.Ports {
		ids[p.Name], _ = ParseOID(p.OID) // Check has read it
	}
	for i := range out {
		out[i].OID = ids[out[i].Name]
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

// Diff lists what the recording for want changes, given the setup that was played. It
// reads nothing.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) { return diff(tamObjects, &have, &want) }

// Refuse is why a device cannot have a setup, nil where it can, or where the profile is not
// known.
func Refuse(device *inventory.Device, want vendors.Setup) error {
	s, err := objectsOf(device)
	if err != nil {
		return err
	}
	return s.check(&want)
}

// Commands is the recording that leads from one setup to another: from what was played,
// where that made the first. Of a switch that csig reaches it is what the agent has orchagent do.
func Commands(device *inventory.Device, have, want vendors.Setup) ([]byte, error) {
	if !ByHand(device) {
		return liveCalls(device, have, want)
	}
	s, err := objectsOf(device)
	if err != nil {
		return nil, err
	}
	return s.commands(have, want)
}

func (s *objects) commands(have, want vendors.Setup) ([]byte, error) {
	on, was, err := played(s.keys.Played)
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
		if from, _, err = s.program(&have, before(have.Profile)); err != nil {
			return nil, fmt.Errorf("the step before this one: %w", err)
		}
	}
	to, degraded, err := s.program(&want, before(want.Profile))
	if err != nil {
		return nil, err
	}
	head, err := heading(&want, degraded)
	return append(head, Record(Changes(from, to))...), err
}

// heading is the comments before calls: the setup that they make, and what of it is degraded.
func heading(want *vendors.Setup, degraded vlanrules.Verdict) ([]byte, error) {
	out, err := setupLine(want)
	if err == nil && degraded.Reason != "" {
		out = append(out, comment("degraded: "+degraded.Reason)...)
	}
	return out, err
}

// liveCalls are those of an agent, in the form of a recording. Ports stand there by their names, and csig's objects by IDs in
// whose place the switch gives its own.
func liveCalls(device *inventory.Device, have, want vendors.Setup) ([]byte, error) {
	keys := &Keys{Capabilities: &CapabilitiesKeys{Tags: []string{"compact", "wide"}, Timers: 1, DBit: string(DBitSets), Strip: true, Locator: true}}
	for _, sig := range quantize.Signals {
		keys.Capabilities.Signals = append(keys.Capabilities.Signals, sig.String())
	}
	if want.Measure != nil {
		keys.Capabilities.Intervals = append(keys.Capabilities.Intervals, cmp.Or(device.Interval, want.Measure.Interval))
	}
	var names []string
	for _, s := range []*vendors.Setup{&have, &want} {
		for _, p := range s.Ports {
			if !slices.Contains(names, p.Port) {
				names = append(names, p.Port)
				keys.Ports = append(keys.Ports, PortKeys{Name: p.Port, OID: (OID(PortObject)<<48 | OID(len(names))).String()})
			}
		}
	}
	s := &objects{device, keys}
	out := comment("calls that csig agent has orchagent make: csig plan shows what differs, and a switch gives the objects IDs of its own")
	text, err := s.commands(have, want)
	if errors.Is(err, errUnknownProfile) && !want.Nothing() && want.Measure != nil { // of what is there
		out = append(out, comment("what is there is of another profile: the agent changes what differs, and removes the rest")...)
		text, err = s.commands(vendors.Setup{}, want)
	}
	if errors.Is(err, errUnknownProfile) {
		return append(out, comment("the agent removes what its record on the switch has (STATE_DB CSIG_SAI_TABLE)")...), nil
	}
	for i, name := range names {
		id := keys.Ports[i].OID
		text = bytes.ReplaceAll(text, []byte(PortObject.String()+":"+id+"|"), []byte(PortObject.String()+":"+untrusted.Text(name, 255)+"|"))
	}
	return append(out, text...), err
}
