package vendors

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vlanrules"
)

// DiffShared lists the changes of what all ports share, which the platform calls
// what and describes in a line: it is made, altered or repaired.
func DiffShared(have, want *Setup, what string, describe func(*Setup) string) []Change {
	c := Change{Kind: Alter, What: what}
	switch old, now := describe(have), describe(want); {
	case have.TPID == 0 && len(have.Ports) == 0:
		c.Kind, c.Detail = Create, now
	case old != now:
		c.Detail = old + " -> " + now
	case have.Damaged != "":
		c.Detail = "repair: " + have.Damaged
		return []Change{c}
	default:
		return nil
	}
	if have.Damaged != "" {
		c.Detail += "; repair: " + have.Damaged
	}
	return []Change{c}
}

// DiffPorts lists the changes of ports: gets is what one is given, beside is a change
// of one whose action stays, "" for none.
func DiffPorts(have, want *Setup, gets func(*PortSetup) string, beside func(have, want *PortSetup) string) []Change {
	var out []Change
	for o, p := range PortPairs(have.Ports, want.Ports) {
		switch {
		case p == nil:
			out = append(out, Change{Kind: Remove, Port: o.Port, What: o.Action.String(), Detail: "CSIG tags leave as they are"})
			continue
		case o == nil:
			out = append(out, Change{Kind: Create, Port: p.Port, What: p.Action.String(), Detail: gets(p)})
			continue
		}
		c := Change{Kind: Alter, Port: p.Port, What: p.Action.String(), Detail: beside(o, p)}
		switch {
		case o.Action != p.Action:
			c.Detail = fmt.Sprintf("%s -> %s: %s", o.Action, p.Action, gets(p))
		case c.Detail != "":
		case o.Damaged != "":
			c.Detail = "repair: " + o.Damaged
		default:
			continue
		}
		out = append(out, c)
	}
	return out
}

// DiffProfile is the change of the recorded profile, none where it stays.
func DiffProfile(have, want *Setup) []Change {
	if have.Profile == want.Profile {
		return nil
	}
	c := Change{Kind: Alter, What: "profile", Detail: ShortProfile(have.Profile) + " -> " + ShortProfile(want.Profile)}
	if have.Nothing() {
		c.Kind = Create
	}
	return []Change{c}
}

// DiffFlows lists the changes of a device whose setup is flows of OpenFlow.
func DiffFlows(have, want *Setup) []Change {
	out := append(DiffShared(have, want, "flow tables", DescribeShared), DiffProfile(have, want)...)
	return append(out, DiffPorts(have, want,
		func(p *PortSetup) string {
			switch p.Action {
			case vlanrules.Update:
				return "flows that compare and replace " + strings.Join(want.SignalNames(), ", ")
			case vlanrules.Strip:
				return "flows that remove the tag"
			}
			return "CSIG tags leave as they are"
		},
		func(_, _ *PortSetup) string { return "" })...)
}

// DescribeShared is what all ports share, in a line.
func DescribeShared(s *Setup) string {
	text := fmt.Sprintf("tpid=0x%04x layout=%s signals=%s on_stale=%s", s.TPID, s.Layout, strings.Join(s.SignalNames(), ","), s.OnStale)
	if s.WideTPID != 0 {
		text += fmt.Sprintf(" wide_tpid=0x%04x", s.WideTPID)
	}
	if len(s.Others) > 0 {
		text += " others=" + strings.ReplaceAll(TPIDNames(s.Others), ", ", ",")
	}
	return text
}
