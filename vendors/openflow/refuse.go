package openflow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// refusal is a refusal of flows with what to do about it.
func refusal(err error) error {
	var refused *ofp.Error
	if errors.As(err, &refused) && refused.TableFull() {
		return fmt.Errorf("there is no room for its flows: make room: %w", err)
	}
	return fmt.Errorf("its flows are refused: %w", err)
}

// refuse refuses what this switch cannot have.
func (d *Driver) refuse(ctx context.Context, have *state, want *vendors.Setup) error {
	if err := d.refuseForeign(have); err != nil {
		return err
	}
	if have.found && have.at != have.base {
		return &vendors.PermanentError{Err: fmt.Errorf("csig's flows are in tables %d to %d, and are to be in %d to %d: run csig off first, and hand frames over to table %d afterwards", have.at, have.at+tables-1, have.base, have.base+tables-1, have.base)}
	}
	if !slices.ContainsFunc(want.Ports, func(p vendors.PortSetup) bool { return p.Action != vlanrules.Passthrough }) {
		return nil
	}
	if err := d.cfg.Undeclared(want, false); err != nil {
		return err
	}
	f, err := d.askFeatures(ctx)
	if err != nil {
		return err
	}
	if err := f.refuse(want); err != nil {
		return err
	}
	p := have.pathOf(want.TPID)
	if v := p.verdict(have.base, d.cfg.OrdinaryVLANs); v.Level == vlanrules.Refused {
		return &vendors.PermanentError{Err: errors.New(v.Reason)}
	}
	return nil
}

// Undeclared is why a setup needs Config.OrdinaryVLANs, a *vendors.PermanentError; nil
// where it does not, or has it. one is whether csig's flows are beside the operator's.
func (cfg *Config) Undeclared(want *vendors.Setup, one bool) error {
	text := undeclared
	if one {
		text = undeclaredFlat
	}
	if cfg.OrdinaryVLANs != "" || !slices.ContainsFunc(want.Ports, func(p vendors.PortSetup) bool { return p.Action != vlanrules.Passthrough }) {
		return nil
	}
	return &vendors.PermanentError{Err: errors.New(text)}
}

const undeclared = "no match of OpenFlow sees a TPID, so that a frame with an ordinary VLAN tag would be rewritten: say in the fleet file why csig's tables meet none: management: {openflow: {ordinary_vlans: not-handed-over}}, where no flow hands one over, or not-parsed, where the switch takes CSIG's TPID alone for a VLAN tag's"

// validate refuses a setup that this platform cannot have.
func validate(s *vendors.Setup) error {
	if len(s.Others) > maxOthers {
		return &vendors.PermanentError{Err: fmt.Errorf("the setup has %d other TPIDs, and csig records %d", len(s.Others), maxOthers)}
	}
	return s.Check("", func(p *vendors.PortSetup) error {
		switch {
		case p.Port == "" || len(p.Port) > maxName:
			return fmt.Errorf("%q is no name of a port: OpenFlow has 1 to %d bytes of it", p.Port, maxName)
		case p.StripOthers, p.Action == vlanrules.Strip && len(s.Others) > 0:
			return errors.New("tags of other TPIDs cannot be removed: no match of OpenFlow tells them apart")
		case p.Action == vlanrules.Strip && s.WideTPID != 0:
			return errors.New("it strips, and the domain has wide tags: OpenFlow cannot remove them")
		}
		return nil
	})
}

// maxName is the longest name of a port that OpenFlow shows, in bytes.
const maxName = 15
