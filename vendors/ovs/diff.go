package ovs

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Diff lists what Apply(want) would change on a device of this platform, given
// what was observed there. It reads nothing, and needs no device. A setup that
// the platform cannot have is a *vendors.PermanentError.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	var out []vendors.Change
	empty := have.TPID == 0 && len(have.Ports) == 0 && have.Damaged == ""
	add := func(kind vendors.ChangeKind, what, detail string) {
		out = append(out, vendors.Change{Kind: kind, What: what, Detail: detail})
	}
	switch old, now := describe(&have), describe(&want); {
	case empty:
		add(vendors.Create, "flow tables", now)
	case old != now:
		add(vendors.Alter, "flow tables", old+" -> "+now)
	case have.Damaged != "":
		add(vendors.Alter, "flow tables", "repair: "+have.Damaged)
	}
	if have.Profile != want.Profile {
		kind := vendors.Alter
		if empty {
			kind = vendors.Create
		}
		add(kind, "profile", vendors.ShortProfile(have.Profile)+" -> "+vendors.ShortProfile(want.Profile))
	}
	for o, p := range vendors.PortPairs(have.Ports, want.Ports) {
		if p == nil {
			out = append(out, vendors.Change{Kind: vendors.Remove, Port: o.Port, What: o.Action.String(), Detail: "CSIG tags leave as they are"})
			continue
		}
		c := vendors.Change{Kind: vendors.Alter, Port: p.Port, What: p.Action.String()}
		switch {
		case o == nil:
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
	return out, nil
}

// describe is what all ports share, in a line.
func describe(s *vendors.Setup) string {
	text := fmt.Sprintf("tpid=0x%04x layout=%s signals=%s on_stale=%s", s.TPID, s.Layout, strings.Join(s.SignalNames(), ","), s.OnStale)
	if s.WideTPID != 0 {
		text += fmt.Sprintf(" wide_tpid=0x%04x", s.WideTPID)
	}
	if len(s.Others) > 0 {
		text += " others=" + strings.ReplaceAll(vendors.TPIDNames(s.Others), ", ", ",")
	}
	return text
}

func actionDetail(s *vendors.Setup, a vlanrules.Action) string {
	switch a {
	case vlanrules.Update:
		return "flows that compare and replace " + strings.Join(s.SignalNames(), ", ")
	case vlanrules.Strip:
		return "flows that remove the tag"
	}
	return "CSIG tags leave as they are"
}
