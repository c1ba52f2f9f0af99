package sonic

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	err := s.Check(noStrip, func(p *vendors.PortSetup) error {
		switch {
		case p.Port == "" || strings.ContainsAny(p.Port, "|: \t\r\n*?[\\\""):
			return fmt.Errorf("%q is no name of a SONiC port", p.Port)
		case strings.HasPrefix(p.Port, "PortChannel"):
			return errors.New("it is an aggregate: a frame leaves by one of its members, each of which has its own load: name all of its members as ports in its place, each with an lm of its own")
		case p.Strips():
			return errors.New("it is to strip: " + noStrip)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case s.TPID == 0x8100:
		return &vendors.PermanentError{Err: errors.New(noSharing + ": choose 0x88a8, 0x9100 or 0x9200 for the domain")}
	case !slices.Contains(tpids, s.TPID):
		return &vendors.PermanentError{Err: fmt.Errorf("a port of SONiC takes no TPID but 0x8100, 0x88a8, 0x9100 and 0x9200 (sonic-port.yang), and the domain's is 0x%04x", s.TPID)}
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
	const what = "ACL table " + aclTable
	out := vendors.DiffShared(&have, &want, what, describe)
	switch from, to := tableSize(&have), tableSize(&want); {
	case have.Nothing():
		out[0].Disruptive = firstTable
	case from == to || len(out) > 0 && describe(&have) == describe(&want): // is repaired
	default:
		if len(out) == 0 {
			out = []vendors.Change{{Kind: vendors.Alter, What: what, Detail: fmt.Sprintf("%d entries -> %d", from, to)}}
		}
		if from < to {
			out[0].Detail += "; it is made again, and meanwhile tags pass unchanged"
		}
	}
	if from, to := vendors.TPIDNames(have.Others), vendors.TPIDNames(want.Others); from != to && have.TPID != 0 {
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "record", Detail: fmt.Sprintf("other TPIDs: %s -> %s; %s", cmp.Or(from, "none"), cmp.Or(to, "none"), outerOnly)})
	}
	ports := vendors.DiffPorts(&have, &want,
		func(p *vendors.PortSetup) string { return actionDetail(&want, p.Action) },
		func(_, p *vendors.PortSetup) string {
			if have.TPID == want.TPID {
				return ""
			}
			return fmt.Sprintf("CONFIG_DB %s tpid 0x%04x -> 0x%04x", portKey(p.Port), have.TPID, want.TPID)
		})
	for i := range ports {
		switch c := &ports[i]; {
		case c.Kind == vendors.Remove:
			c.Detail, c.Disruptive = "ACL entries, and CONFIG_DB "+portKey(c.Port)+" tpid as it was before", restores
		case c.Kind == vendors.Create, have.TPID != want.TPID, strings.Contains(c.Detail, "TPID"):
			c.Disruptive = disrupts
		}
	}
	return append(out, ports...), nil
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
