package plans

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// reservedVIDs is where gear begins to keep VIDs for itself.
const reservedVIDs = 3968

// domain warns of what the profile's tags mean to gear that reads them as
// VLAN tags.
func (a *assessor) domain() {
	prof := &a.fleet.Profile
	first, last := a.vids()
	if last >= reservedVIDs {
		text := fmt.Sprintf("the domain's tags have VIDs from %d to %d, and some gear keeps those from %d up for itself: every device has to forward them", first, last, reservedVIDs)
		var from31 []string
		for _, sig := range a.signals {
			if !sig.Max() && prof.Initial(sig) == quantize.NumBuckets-1 {
				from31 = append(from31, sig.String())
			}
		}
		if len(from31) > 0 {
			text += fmt.Sprintf("; initial_s: 30 keeps %s clear of them", strings.Join(from31, " and "))
		}
		a.find(SeverityWarning, "", "", "%s", text)
	}
}

// caution warns of what else a device may do with tagged frames.
func (a *assessor) caution(d *assessed) {
	if d.blind() || d.level.Support == inventory.LevelNative {
		return
	}
	name, tpid := d.dev.Name, a.fleet.Profile.TPID
	if d.dev.Platform != "linux" {
		check := func(text string) { a.find(SeverityWarning, name, "", "csig cannot see, so check: %s", text) }
		check("QoS trust and remarking of PCP are off on CSIG ports; the PCP of a tag says which signal it asks for")
		check("DEI is not taken for drop precedence, and leaves as it came")
		check("hashing (ECMP, LAG) does not take in the VID or PCP, which would reorder flows, and still sees the IP header behind the tag; so do ECN marking, DSCP, ACLs and PFC")
		check("the VLAN that a frame is bridged in, and MAC learning, do not follow the VID of the tag; the tag survives routing")
		return
	}
	if tpid == 0x88a8 || tpid == 0x8100 {
		a.find(SeverityWarning, name, "", "Linux takes 0x%04x for a VLAN tag: its flow hash takes in the VID, so that RPS, bonds and multipath may reorder flows when S changes; a bridge with vlan_filtering of that protocol classifies by it", tpid)
		return
	}
	a.find(SeverityWarning, name, "", "Linux does not look behind TPID 0x%04x: hashes over IP addresses and ports (bonds, RPS, multipath) see only MAC addresses, and ECN marks, DSCP and filters of IP fields do not take in tagged frames", tpid)
}
