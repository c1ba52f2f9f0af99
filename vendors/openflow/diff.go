package openflow

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
	out := append(vendors.DiffShared(&have, &want, "flow tables", describe), vendors.DiffProfile(&have, &want)...)
	return append(out, vendors.DiffPorts(&have, &want,
		func(p *vendors.PortSetup) string { return actionDetail(&want, p.Action) },
		func(_, _ *vendors.PortSetup) string { return "" })...), nil
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
