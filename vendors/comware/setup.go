package comware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// Observe reads back the setup: the record, and the policies of ports.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	v, err := d.look(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	return v.setup(d.at()), nil
}

// setup is what a view has of ours.
func (v *view) setup(want position) vendors.Setup {
	var s vendors.Setup
	records, ports := v.Records(), v.Ours()
	switch len(records) {
	case 0:
		if len(ports) == 0 {
			if classes, behaviors := v.Idle(); len(classes)+len(behaviors)+len(v.Orphans()) > 0 {
				s.Damaged = "there are classes, behaviors or policies of csig's, and nothing else"
			}
			return s
		}
		s.Damaged = "the record of the setup (traffic behavior csig-setup-…) is not there"
	default:
		var at position
		s, at, _ = qos.ParseRecord(records[len(records)-1])
		switch {
		case len(records) > 1:
			s.Damaged = "there is more than one record of the setup"
		case at != want:
			s.Damaged = fmt.Sprintf("it was made for the %s tag, and the CSIG tag is the %s one", at, want)
		case len(ports) > 0 && v.noTPID(&s, want) != "":
			s.Damaged = v.noTPID(&s, want)
		}
	}
	s.Layout = quantize.Draft00
	for _, name := range ports {
		p := vendors.PortSetup{Port: name, Action: vlanrules.Update}
		held := v.Port(name)
		_, strays := v.Table(nil, name, want)
		switch line := v.ForeignIn(name); {
		case outbound(held) == "":
			p.Damaged = "its policy is not applied"
		case outbound(held) != policyName(name) && outbound(held) != deadPolicy: // a port that has fallen back is as csig leaves it
			p.Damaged = "another policy is applied: " + outbound(held)
		case held.Blocked != "":
			p.Damaged = "another policy is applied: " + held.Blocked
		case line != "":
			p.Damaged = "its policy has something else: " + line
		case len(strays) > 0:
			p.Damaged = "classes of its policy are not as csig left them: " + strings.Join(strays[:min(3, len(strays))], ", ")
		case v.portTPID(held, &s, want) != "":
			p.Damaged = v.portTPID(held, &s, want)
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

// noTPID is why the switch does not take the domain's TPID for that of inner tags, "" where
// it does, or need not.
func (v *view) noTPID(s *vendors.Setup, at position) string {
	if at == inner && s.TPID != 0 && v.customer != s.TPID {
		return fmt.Sprintf("the TPID of inner tags is 0x%04x: the setup has 0x%04x", v.customer, s.TPID)
	}
	return ""
}

// portTPID is the same for a port, of outer tags.
func (v *view) portTPID(p *qos.Port, s *vendors.Setup, at position) string {
	if at == outer && s.TPID != 0 && p.TPID != s.TPID {
		return fmt.Sprintf("the TPID of its outer tags is 0x%04x: the setup has 0x%04x", p.TPID, s.TPID)
	}
	return ""
}

// validate refuses what no switch can have.
func validate(want *vendors.Setup) error {
	if want.Layout != quantize.Draft00 {
		return &vendors.PermanentError{Err: errors.New("layout uec: a VLAN ID range cannot test D, the lowest bit of the VID")}
	}
	if slices.Contains(reserved, want.TPID) && len(updating(want).Ports) > 0 {
		return &vendors.PermanentError{Err: fmt.Errorf("tpid 0x%04x: %w", want.TPID, errReserved)}
	}
	return want.Check(noStrip, func(p *vendors.PortSetup) error {
		if why := portName(p.Port); why != "" {
			return errors.New(why)
		}
		if p.Strips() {
			return errors.New(noStrip)
		}
		return nil
	})
}

// Diff lists what Apply(want) would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return Diff(have, want) }

// Diff is Driver.Diff, without a driver. Ports that pass tags through need nothing, and the
// hash of the profile is recorded nowhere.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	have, want = *updating(&have), *updating(&want)
	shared := vendors.DiffShared(&have, &want, "record", describe)
	if have.TPID != want.TPID && len(shared) > 0 && len(want.Ports) > 0 {
		shared[0].Disruptive = tpidChange
	}
	return append(shared, vendors.DiffPorts(&have, &want,
		func(*vendors.PortSetup) string {
			return "a QoS policy at its outbound direction that compares and replaces " + strings.Join(want.SignalNames(), ", ")
		},
		func(_, _ *vendors.PortSetup) string { return "" })...), nil
}

// updating is a setup without the ports that pass tags through.
func updating(s *vendors.Setup) *vendors.Setup {
	out := *s
	out.Ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p vendors.PortSetup) bool { return p.Action != vlanrules.Update })
	return &out
}

// describe is what all ports share, in a line.
func describe(s *vendors.Setup) string {
	return fmt.Sprintf("tpid=0x%04x signals=%s on_stale=%s", s.TPID, strings.Join(s.SignalNames(), ","), s.OnStale)
}
