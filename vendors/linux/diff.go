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
	old := make(map[string]vendors.PortSetup, len(have.Ports))
	for _, p := range have.Ports {
		old[p.Port] = p
	}
	for _, p := range want.Ports {
		o, known := old[p.Port]
		delete(old, p.Port)
		c := vendors.Change{Kind: vendors.Alter, Port: p.Port, What: p.Action.String()}
		switch {
		case !known:
			c.Kind, c.Detail = vendors.Create, actionDetail(&want, p.Action)
		case o.Action != p.Action:
			c.Detail = fmt.Sprintf("%s -> %s: %s", o.Action, p.Action, actionDetail(&want, p.Action))
		case o.Damaged != "":
			c.Detail = "repair: " + o.Damaged
		default:
			continue
		}
		out = append(out, c)
	}
	for _, p := range have.Ports {
		if _, left := old[p.Port]; left {
			out = append(out, vendors.Change{Kind: vendors.Remove, Port: p.Port, What: p.Action.String(), Detail: "CSIG tags leave as they are"})
		}
	}
	return out, nil
}

func actionDetail(s *vendors.Setup, a vlanrules.Action) string {
	switch a {
	case vlanrules.Update:
		var names []string
		for _, sig := range s.Signals {
			names = append(names, sig.String())
		}
		return "nftables egress chain and map: compare-and-replace of " + strings.Join(names, ", ")
	case vlanrules.Strip:
		return "BPF program " + stripName + " on tcx egress"
	}
	return "CSIG tags leave as they are"
}

// validate refuses a setup that this platform cannot have.
func validate(s *vendors.Setup) error {
	problem := func(format string, args ...any) error {
		return &vendors.PermanentError{Err: fmt.Errorf(format, args...)}
	}
	if err := (quantize.TPIDs{Compact: s.TPID, Wide: s.WideTPID}).Validate(); err != nil {
		return &vendors.PermanentError{Err: err}
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
		}
		seen[p.Port] = true
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
