// Package unsupported describes platforms that csig has no driver for: what their own
// documents state about tags, so that a fleet with such devices can be assessed
// and planned. Nothing here was run on a device.
//
// Every statement carries its source: the document and its section, or the
// repository and its path. What no text was found for is marked as assumed, with
// the reason, or left out.
package unsupported

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Platform is one of them.
type Platform struct {
	Name  string // as in a fleet file
	Title string // as its maker writes it
	Facts vendors.Facts
}

// All lists them, sorted by name.
func All() []Platform {
	return []Platform{
		broadcomFP(), broadcomVT(), fortiSwitch(), iosxe(), tcES0(),
	}
}

// platform builds a Platform. update is why it cannot compare and replace.
func platform(name, title, update string, source vendors.Source, t vendors.Traits, notes ...string) Platform {
	t.UpdateSource = source
	f := vendors.Facts{
		Platform: name, Traits: t, Notes: notes,
		Update: vendors.Refusal(update),
		Wide:   vendors.Refusal("as for compact tags"),
		Strip:  vendors.Refusal("csig has no driver for " + title),
		Lease:  vendors.Refusal("there are no rules of csig to expire"),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded,
			Reason: "a frame whose TPID is not one of its VLAN TPIDs is bridged like any other frame, but not routed: the switch does not see it as IP"},
	}
	f.Traits.WideSource = vendors.Source{Mark: vendors.Assumed, From: "no text mentions tags of 8 bytes"}
	f.Traits.PassthroughSource = assumed("no text states what happens to unknown ethertypes; a router forwards the protocols that it has routes for")
	f.Traits.LeaseSource = assumed("without a driver there are none")
	return Platform{name, title, f}
}

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// follows records that the VID of a tag with the port's TPID selects the bridging
// VLAN, and with it where MAC addresses are learned.
func follows(t *vendors.Traits, s vendors.Source) {
	t.Independent = vendors.That(false, s)
	t.Learning = vendors.That(false, assumed("MAC addresses are learned in the bridging VLAN, which follows the VID"))
}

// unrouted records that a routed frame leaves without its tag.
func unrouted(t *vendors.Traits) {
	t.Routed = vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own"))
}
