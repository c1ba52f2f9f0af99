package sai

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// FBOSS is what fleet files say of switches of FBOSS on Cisco's Silicon One.
var FBOSS = inventory.Platform{
	Name: "fboss", Key: "fboss", Doc: "What csig knows of a switch of the platform fboss.", Keys: (*FBOSSKeys)(nil), Native: true,
}

// FBOSSKeys are where csig reads what a switch has.
type FBOSSKeys struct {
	Played string `key:"played" is:"path" doc:"A file with the lines of csig plan --commands that were carried out on the switch so far, in their order."`
}

// Place is nothing: no two devices are one switch.
func (k *FBOSSKeys) Place(func(string) string) (string, bool) { return "", false }

// fboss is a switch of FBOSS, as the fleet file has it.
type fboss struct {
	device *inventory.Device
	path   string
}

func fbossOf(device *inventory.Device) *fboss {
	s := &fboss{device: device}
	if keys, ok := inventory.OwnKeys[*FBOSSKeys](device); ok {
		s.path = keys.Played
	}
	return s
}

// OpenFBOSS returns the driver of a device of the fleet. It opens nothing.
func OpenFBOSS(device *inventory.Device) (*Driver, error) { return &Driver{fbossOf(device)}, nil }

const fbossWhat = "CSIG attributes"

func (s *fboss) what() string { return fbossWhat }

func (s *fboss) facts() vendors.Facts { return OfflineFBOSS() }

func (s *fboss) played() (vendors.Setup, error) {
	_, setup, err := s.state()
	return setup, err
}

func (s *fboss) recorded() bool { return exists(s.path) }

// state is what was set, and the setup that it made.
func (s *fboss) state() (set map[string]string, setup vendors.Setup, err error) {
	set = map[string]string{}
	err = readPlayed(s.path, func(r io.Reader) (err error) {
		set, setup, err = replayFBOSS(r)
		return err
	})
	return set, setup, err
}

// replayFBOSS carries out lines that csig wrote.
func replayFBOSS(r io.Reader) (set map[string]string, setup vendors.Setup, err error) {
	set = map[string]string{}
	err = eachLine(r, &setup, func(line string) error {
		i := strings.LastIndexByte(line, '=')
		if i < 0 || !strings.HasPrefix(line, "switch ") && !strings.HasPrefix(line, "port ") {
			return fmt.Errorf("%q is not what csig wrote", untrusted.Text(line, 120))
		}
		if len(set) > 2*MaxPorts {
			return errors.New("there are too many attributes")
		}
		set[strings.Clone(line[:i])] = strings.Clone(line[i+1:])
		return nil
	})
	return set, setup, err
}

func (s *fboss) check(want *vendors.Setup) error {
	_, err := fbossPorts(s.device, want)
	if err == nil && want.Measure != nil && !want.Nothing() {
		_, _, err = fbossSwitch(want.Measure)
	}
	return err
}

func (s *fboss) commands(have, want vendors.Setup) ([]byte, error) {
	set, was, err := s.state()
	if err != nil {
		return nil, err
	}
	if !sameSetup(&was, &have) { // a later step of a plan
		if have.Profile == want.Profile {
			have.Measure = want.Measure
		}
		calls, _, err := s.calls(set, &was, &have)
		if err != nil {
			return nil, fmt.Errorf("the step before this one: %w", err)
		}
		for _, c := range calls {
			set[c.key] = c.value
		}
	}
	calls, degraded, err := s.calls(set, &have, &want)
	if err != nil {
		return nil, err
	}
	out, err := heading(&want, degraded)
	for _, c := range calls {
		out = fmt.Appendf(out, "%s=%s\n", c.key, c.value)
	}
	return out, err
}

// calls lead from what is set, by the setup have, to a setup.
func (s *fboss) calls(set map[string]string, have, want *vendors.Setup) (out []setting, degraded vlanrules.Verdict, err error) {
	if want.Nothing() {
		return fbossCalls(set, nil, nil), degraded, nil
	}
	var shared []setting
	switch {
	case want.Measure != nil:
		shared, degraded, err = fbossSwitch(want.Measure)
	case have.Profile != want.Profile:
		err = &vendors.PermanentError{Err: errUnknownProfile}
	}
	if err != nil {
		return nil, degraded, err
	}
	ports, err := fbossPorts(s.device, want)
	return fbossCalls(set, shared, ports), degraded, err
}

// DiffFBOSS is Diff of a switch of FBOSS.
func DiffFBOSS(have, want vendors.Setup) ([]vendors.Change, error) {
	return diff(fbossWhat, &have, &want)
}

// RefuseFBOSS is Refuse of a switch of FBOSS.
func RefuseFBOSS(device *inventory.Device, want vendors.Setup) error {
	return fbossOf(device).check(&want)
}

// CommandsFBOSS is Commands of a switch of FBOSS: attributes to set, one a line.
func CommandsFBOSS(device *inventory.Device, have, want vendors.Setup) ([]byte, error) {
	return fbossOf(device).commands(have, want)
}
