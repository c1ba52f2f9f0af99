package sonic

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// tpids are those that a port can be given (sonic-yang-models sonic-port.yang,
// leaf tpid), less the one of ordinary VLANs.
var tpids = vendors.TPIDList{0x9100, 0x9200, 0x88a8}

const (
	noStrip   = "P4Orch has no action that takes a tag away (sonic-swss orchagent/p4orch/acl_util.h, aclActionLookup)"
	disrupts  = "the port takes this TPID for VLAN tags, in place of the one it has: ordinary VLANs on it are no longer understood, and frames with other tags are untagged to it"
	restores  = "the port takes another TPID for VLAN tags: a moment's loss on it is possible"
	noSharing = "ACL entries match what the port takes for VLAN tags: 0x8100 is what the switch's ordinary VLANs have"
)

// validate refuses a setup that the platform cannot have.
func validate(s *vendors.Setup) error {
	problem := func(format string, args ...any) error {
		return &vendors.PermanentError{Err: fmt.Errorf(format, args...)}
	}
	if err := (quantize.TPIDs{Compact: s.TPID, Wide: s.WideTPID}).Validate(); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	switch {
	case s.TPID == 0x8100:
		return problem("%s: choose 0x88a8, 0x9100 or 0x9200 for the domain", noSharing)
	case !slices.Contains(tpids, s.TPID):
		return problem("a port of SONiC takes no TPID but 0x8100, 0x88a8, 0x9100 and 0x9200 (sonic-port.yang), and the domain's is 0x%04x", s.TPID)
	case len(s.Signals) == 0:
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
		return problem("on_stale: strip is not possible: %s; use conservative or passthrough", noStrip)
	default:
		return problem("on_stale is %q: want conservative or passthrough", s.OnStale)
	}
	seen := make(map[string]bool, len(s.Ports))
	for i := range s.Ports {
		p := &s.Ports[i]
		switch {
		case p.Port == "" || strings.ContainsAny(p.Port, "|: \t\r\n*?[\\\""):
			return &vendors.PermanentError{Port: p.Port, Err: fmt.Errorf("%q is no name of a SONiC port", p.Port)}
		case strings.HasPrefix(p.Port, "PortChannel"):
			return &vendors.PermanentError{Port: p.Port, Err: errors.New("it is an aggregate: a frame leaves by one of its members, each of which has its own load: name all of its members as ports in its place, each with an lm of its own")}
		case seen[p.Port]:
			return &vendors.PermanentError{Port: p.Port, Err: errors.New("the setup names it twice")}
		case p.Strips():
			return &vendors.PermanentError{Port: p.Port, Err: errors.New("it is to strip: " + noStrip)}
		}
		seen[p.Port] = true
	}
	return nil
}

// Diff lists what Apply(want) would change on a switch that is found to be have.
// It reads nothing, and needs no switch. A setup that the platform cannot have
// is a *vendors.PermanentError.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	var out []vendors.Change
	table := func(kind vendors.ChangeKind, detail string) {
		out = append(out, vendors.Change{Kind: kind, What: "ACL table " + aclTable, Detail: detail})
	}
	resized := false
	switch {
	case have.TPID == 0 && len(have.Ports) == 0 && have.Damaged == "":
		table(vendors.Create, describe(&want))
		out[0].Disruptive = firstTable
	case describe(&have) != describe(&want):
		table(vendors.Alter, describe(&have)+" -> "+describe(&want))
		resized = tableSize(&have) != tableSize(&want)
	case have.Damaged != "":
		table(vendors.Alter, "repair: "+have.Damaged)
	case tableSize(&have) != tableSize(&want):
		resized = true
		table(vendors.Alter, fmt.Sprintf("%d entries -> %d", tableSize(&have), tableSize(&want)))
	}
	if resized && tableSize(&have) < tableSize(&want) {
		out[0].Detail += "; it is made anew, and meanwhile tags pass unchanged"
	}
	if from, to := vendors.TPIDNames(have.Others), vendors.TPIDNames(want.Others); from != to && have.TPID != 0 {
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "record", Detail: fmt.Sprintf("other TPIDs: %s -> %s; %s", cmp.Or(from, "none"), cmp.Or(to, "none"), outerOnly)})
	}
	for o, p := range vendors.PortPairs(have.Ports, want.Ports) {
		if p == nil {
			out = append(out, vendors.Change{Kind: vendors.Remove, Port: o.Port, What: o.Action.String(), Detail: "ACL entries, and CONFIG_DB " + portKey(o.Port) + " tpid as it was before", Disruptive: restores})
			continue
		}
		c := vendors.Change{Kind: vendors.Alter, Port: p.Port, What: p.Action.String()}
		switch {
		case o == nil:
			c.Kind, c.Detail, c.Disruptive = vendors.Create, actionDetail(&want, p.Action), disrupts
		case have.TPID != want.TPID:
			c.Detail, c.Disruptive = fmt.Sprintf("CONFIG_DB %s tpid 0x%04x -> 0x%04x", portKey(p.Port), have.TPID, want.TPID), disrupts
		case o.Action != p.Action:
			c.Detail = fmt.Sprintf("%s -> %s", o.Action, actionDetail(&want, p.Action))
		case o.Damaged != "":
			c.Detail = "repair: " + o.Damaged
			if strings.Contains(o.Damaged, "TPID") {
				c.Disruptive = disrupts
			}
		default:
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

func actionDetail(s *vendors.Setup, a vlanrules.Action) string {
	text := fmt.Sprintf("CONFIG_DB tpid 0x%04x", s.TPID)
	if a == vlanrules.Update {
		text += ", egress ACL entries: compare-and-replace of " + strings.Join(s.SignalNames(), ", ")
	}
	return text
}

// describe is what all ports share.
func describe(s *vendors.Setup) string {
	text := fmt.Sprintf("tpid=0x%04x layout=%s signals=%s on_stale=%s", s.TPID, s.Layout, strings.Join(s.SignalNames(), ", "), s.OnStale)
	if s.Profile != "" {
		text += " profile=" + s.Profile[:min(12, len(s.Profile))]
	}
	return text
}

// perSignal is the most entries that one signal of one port has: one for each
// zero bit of the bucket. As many are needed beside them while they change.
const perSignal = 5

// tableSize is how many entries the table is made for: those of every port that
// updates, and those under way, in steps of 64 so that a port more seldom means
// another table.
func tableSize(s *vendors.Setup) int {
	n := 0
	for i := range s.Ports {
		if s.Ports[i].Action == vlanrules.Update {
			n++
		}
	}
	n = perSignal * (n*len(s.Signals) + min(n, orchWindow))
	return max(64, (n+63)/64*64)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
