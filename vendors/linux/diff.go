package linux

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// maxName is the longest name of a network device, in bytes (IFNAMSIZ, less
// the zero at its end).
const maxName = 15

// Diff lists what Apply(want) would change on a device of this platform, given
// what was observed there. It reads nothing, and needs no device. A setup that
// the platform cannot have is a *vendors.PermanentError.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	out := vendors.DiffShared(&have, &want, "table "+tableName, setupComment)
	if !have.Nothing() {
		out = append(out, vendors.DiffProfile(&have, &want)...)
	}
	if c := othersChange(&have, &want); c.Kind != "" {
		out = append(out, c)
	}
	return append(out, vendors.DiffPorts(&have, &want,
		func(p *vendors.PortSetup) string { return actionDetail(&want, *p) },
		func(o, p *vendors.PortSetup) string {
			switch {
			case p.StripOthers && !o.StripOthers:
				return programText(&want, p)
			case o.StripOthers && !p.StripOthers:
				return "tags of other TPIDs leave as they are"
			}
			return ""
		})...), nil
}

// othersChange is the change of the list of other TPIDs; without a kind where
// there is none.
func othersChange(have, want *vendors.Setup) vendors.Change {
	c := vendors.Change{What: "other TPIDs"}
	from, to := vendors.TPIDNames(have.Others), vendors.TPIDNames(want.Others)
	switch {
	case from == to:
	case from == "":
		c.Kind, c.Detail = vendors.Create, "known as CSIG's: "+to
		if want.Strips() {
			c.Detail = "stripped, too: " + to
		}
	case to == "":
		c.Kind, c.Detail = vendors.Remove, "no longer known as CSIG's: "+from
		if have.Strips() {
			c.Detail = "no longer stripped: " + from
		}
	default:
		c.Kind, c.Detail = vendors.Alter, "known as CSIG's: "+from+" -> "+to
		if want.Strips() {
			c.Detail = "stripped, too: " + from + " -> " + to
		}
	}
	return c
}

func actionDetail(s *vendors.Setup, p vendors.PortSetup) string {
	text := "CSIG tags leave as they are"
	switch p.Action {
	case vlanrules.Update:
		text = "nftables egress chain and map: compare-and-replace of " + strings.Join(s.SignalNames(), ", ")
	case vlanrules.Strip:
		return programText(s, &p)
	}
	if p.StripOthers {
		text += "; " + programText(s, &p)
	}
	return text
}

// programText is what a port's program is for, "" where it has none.
func programText(s *vendors.Setup, p *vendors.PortSetup) string {
	text := "BPF program " + stripName + " on tcx egress"
	switch {
	case p.Action == vlanrules.Strip && len(s.Others) > 0:
		return text + ", also for tags of " + vendors.TPIDNames(s.Others)
	case p.Action == vlanrules.Strip:
		return text
	case p.StripOthers && len(s.Others) > 0:
		return text + ", for tags of " + vendors.TPIDNames(s.Others)
	}
	return ""
}

// validate refuses a setup that this platform cannot have.
func validate(s *vendors.Setup) error {
	err := s.Check("nftables can rewrite a tag but not remove it, and the fallback has to work without BPF", func(p *vendors.PortSetup) error {
		switch {
		case p.Port == "" || len(p.Port) > maxName || strings.ContainsAny(p.Port, "/: \t\n"):
			return fmt.Errorf("%q is no name of a Linux network device", p.Port)
		case p.StripOthers && p.Action == vlanrules.Strip:
			return errors.New("a port that strips removes the tags of other TPIDs anyway: the setup must not say both")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := validateOthers(s); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	if s.Profile != "" && !vendors.IsProfileHash(s.Profile) {
		return &vendors.PermanentError{Err: fmt.Errorf("the setup's profile %q is not a hash: want 64 hexadecimal digits", s.Profile)}
	}
	return nil
}

// maxOthers is how many TPIDs beside the domain's own a device knows: the
// comment of a set, where they are recorded, holds no more than 128 bytes.
const maxOthers = 4

func validateOthers(s *vendors.Setup) error {
	if n := len(s.Others); n > maxOthers {
		return fmt.Errorf("%d TPIDs beside the domain's own are CSIG's (%s): %d at most are possible here", n, vendors.TPIDNames(s.Others), maxOthers)
	}
	for i, t := range s.Others {
		if err := (quantize.TPIDs{Compact: t.TPID}).Validate(); err != nil {
			return fmt.Errorf("another TPID of CSIG's: %w", err)
		}
		if t.TPID == s.TPID || t.TPID == s.WideTPID {
			return fmt.Errorf("0x%04x is the domain's own TPID, and among the others", t.TPID)
		}
		if i > 0 && s.Others[i-1].TPID >= t.TPID {
			return fmt.Errorf("the other TPIDs are %s: want each once, in ascending order", vendors.TPIDNames(s.Others))
		}
	}
	return nil
}

// Lease limits: the kernel counts in ticks, and an agent that renews less than
// once a minute is none.
const (
	minLease = 10 * time.Millisecond
	maxLease = time.Hour
)

// leaseTick is the longest of the ticks in which kernels count: an element may
// expire so much earlier than its timeout says.
const leaseTick = 10 * time.Millisecond
