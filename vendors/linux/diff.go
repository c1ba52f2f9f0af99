package linux

import (
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
	var out []vendors.Change
	empty := have.TPID == 0 && len(have.Ports) == 0 && have.Damaged == ""
	switch {
	case empty:
		out = append(out, vendors.Change{Kind: vendors.Create, What: "table " + tableName, Detail: setupComment(&want)})
	case setupComment(&have) != setupComment(&want):
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "table " + tableName, Detail: setupComment(&have) + " -> " + setupComment(&want)})
	case have.Damaged != "":
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "table " + tableName, Detail: "repair: " + have.Damaged})
	}
	if !empty && have.Profile != want.Profile {
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "profile", Detail: vendors.ShortProfile(have.Profile) + " -> " + vendors.ShortProfile(want.Profile)})
	}
	if c := othersChange(&have, &want); c.Kind != "" {
		out = append(out, c)
	}
	for o, p := range vendors.PortPairs(have.Ports, want.Ports) {
		if p == nil {
			out = append(out, vendors.Change{Kind: vendors.Remove, Port: o.Port, What: o.Action.String(), Detail: "CSIG tags leave as they are"})
			continue
		}
		c := vendors.Change{Kind: vendors.Alter, Port: p.Port, What: p.Action.String()}
		switch {
		case o == nil:
			c.Kind, c.Detail = vendors.Create, actionDetail(&want, *p)
		case o.Action != p.Action:
			c.Detail = fmt.Sprintf("%s -> %s: %s", o.Action, p.Action, actionDetail(&want, *p))
		case p.StripOthers && !o.StripOthers:
			c.Detail = programText(&want, p)
		case o.StripOthers && !p.StripOthers:
			c.Detail = "tags of other TPIDs leave as they are"
		case o.Damaged != "":
			c.Detail = "repair: " + o.Damaged
		default:
			continue
		}
		out = append(out, c)
	}
	return out, nil
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
	problem := func(format string, args ...any) error {
		return &vendors.PermanentError{Err: fmt.Errorf(format, args...)}
	}
	if err := (quantize.TPIDs{Compact: s.TPID, Wide: s.WideTPID}).Validate(); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	if err := validateOthers(s); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	if s.Profile != "" && !vendors.IsProfileHash(s.Profile) {
		return problem("the setup's profile %q is not a hash: want 64 hexadecimal digits", s.Profile)
	}
	if len(s.Signals) == 0 {
		return problem("the setup carries no signal")
	}
	for i, sig := range s.Signals {
		if !sig.Known() || slices.Contains(s.Signals[:i], sig) {
			return problem("signal %s of the setup is unknown or named twice", sig)
		}
	}
	switch s.OnStale {
	case inventory.Conservative, inventory.StalePassthrough:
	case inventory.StaleStrip:
		return problem("on_stale: strip is not possible here: nftables can rewrite a tag but not remove it, and the fallback has to work without BPF; use conservative or passthrough")
	default:
		return problem("on_stale is %q: want conservative or passthrough", s.OnStale)
	}
	seen := make(map[string]bool, len(s.Ports))
	for _, p := range s.Ports {
		switch {
		case p.Port == "" || len(p.Port) > maxName || strings.ContainsAny(p.Port, "/: \t\n"):
			return &vendors.PermanentError{Port: p.Port, Err: fmt.Errorf("%q is no name of a Linux network device", p.Port)}
		case seen[p.Port]:
			return &vendors.PermanentError{Port: p.Port, Err: errors.New("the setup names it twice")}
		case p.StripOthers && p.Action == vlanrules.Strip:
			return &vendors.PermanentError{Port: p.Port, Err: errors.New("a port that strips removes the tags of other TPIDs anyway: the setup must not say both")}
		}
		seen[p.Port] = true
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
