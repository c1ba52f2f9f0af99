package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Read is a source that is a vendor's text.
func Read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

// Assumed is a source that is an inference, with its reason.
func Assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Facts are those of a platform that csig can only set up; update is why it cannot
// compare and replace, strip why it removes no tag.
func Facts(name string, t vendors.Traits, source vendors.Source, update, strip string, notes ...string) vendors.Facts {
	t.UpdateSource, t.LeaseSource = source, Assumed("there are no rules")
	t.WideSource = Assumed("no text mentions tags of 8 bytes")
	t.PassthroughSource = Assumed("no text states what happens to unknown ethertypes; a router forwards the protocols that it has routes for")
	return vendors.Facts{
		Platform: name, Traits: t, SetupOnly: true,
		Update: vendors.Refusal(update),
		Wide:   vendors.Refusal("as for compact tags"),
		Strip:  vendors.Refusal(strip),
		Lease:  vendors.Refusal("there are no rules of csig to expire"),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded,
			Reason: "a frame whose TPID is not one of its VLAN TPIDs is bridged like any other frame, but not routed: the switch does not see it as IP"},
		Notes: append([]string{
			"with tag: outer csig gives ports the domain's TPID: a tag's VID, which is the signal, chooses the VLAN then, and each of them has to be allowed at the ports; with tag: inner it sets MTUs alone",
			"csig's record is comments of an object that has no other effect",
		}, notes...),
	}
}

// Listed formats a TPID for a platform that takes those of a list.
func Listed(takes vendors.TPIDList) func(tpid uint16) (string, error) {
	return func(tpid uint16) (string, error) {
		if tpid != 0x8100 && slices.Contains(takes, tpid) {
			return fmt.Sprintf("0x%04x", tpid), nil
		}
		var list []string
		for _, one := range takes {
			if one != 0x8100 {
				list = append(list, fmt.Sprintf("0x%04x", one))
			}
		}
		return "", fmt.Errorf("a port takes the TPIDs %s beside 0x8100, and the domain's is 0x%04x", strings.Join(list, ", "), tpid)
	}
}
