package assess

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// reservedVIDs is where gear begins to keep VIDs for itself.
const reservedVIDs = 3968

// domain warns of what the profile's tags mean to gear that reads them as
// VLAN tags.
func (a *assessor) domain() {
	prof := &a.fleet.Profile
	first, last := plans.VIDs(&a.fleet.Profile)
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
		a.find(findings.ReservedVIDs, findings.Warning, "", nil, "%s", text)
	}
}

// caution warns of what else a device may do with tagged frames, as far as its
// facts tell, and of what it may do where they do not.
func (a *assessor) caution(d *assessed) {
	if d.blind() {
		return
	}
	name, tpid, t := d.dev.Name, a.fleet.Profile.TPID, &d.seen.Facts.Traits
	warn := func(code findings.Code, format string, args ...any) {
		a.find(code, findings.Warning, name, nil, format, args...)
	}
	check := func(text string) { warn(findings.CheckByHand, "csig cannot see, so check: %s", text) }
	switch {
	case d.seen.Basis == BasisFile || !t.VLANTPIDs.Known():
		if d.level.Support == inventory.LevelNative {
			return // its own software configures it
		}
		check("QoS trust and remarking of PCP are off on CSIG ports; the PCP of a tag says which signal it asks for")
		check("DEI is not taken for drop precedence, and leaves as it came")
		check("hashing (ECMP, LAG) does not take in the VID or PCP, which would reorder flows, and still sees the IP header behind the tag; so do ECN marking, DSCP, ACLs and PFC")
		check("the VLAN that a frame is bridged in, and MAC learning, do not follow the VID of the tag; the tag survives routing")
		return
	case t.ForVLAN(tpid), t.TPIDs.Is.AsVLAN && d.level.Support == inventory.LevelSoftware: // csig sets it
		a.asVLAN(d, warn, check)
	case t.Native.Is == "" || !t.Parses.Is:
		text := ""
		if t.Routed.Known() && !t.Routed.Is {
			text = "; it bridges tagged frames, and routes none"
		}
		if t.TPIDs.Is.AsVLAN && t.Independent.Known() && !t.Independent.Is && t.TPIDs.Is.Takes(tpid) {
			text += "; were that set as a TPID of its, the tag's VID, which is the signal, would choose the VLAN that frames are bridged in"
		}
		warn(findings.NoIPHeader, "it does not look behind TPID 0x%04x: hashes over IP addresses and ports (ECMP, LAG, RPS) see only MAC addresses, and ECN marks, DSCP, PFC and filters of IP fields do not take in tagged frames%s", tpid, text)
	}
	if t.Loses.Is.Has(vendors.FieldDEI) {
		warn(findings.DEILost, "a tag's R (DEI) is lost on the way through it: %v", t.Loses.Source)
	}
}

// asVLAN warns of what a device does with tags that it takes for VLAN tags.
func (a *assessor) asVLAN(d *assessed, warn func(findings.Code, string, ...any), check func(string)) {
	t, tpid := &d.seen.Facts.Traits, a.fleet.Profile.TPID
	switch {
	case !t.Parses.Known():
		check("hashing (ECMP, LAG), ECN marking, DSCP, ACLs and PFC still see the IP header behind the tag")
	case !t.Parses.Is:
		warn(findings.NoIPHeader, "it takes 0x%04x for a VLAN tag's TPID, and does not find the IP header behind it: hashing (ECMP, LAG), ECN marking, DSCP, ACLs and PFC change for tagged frames", tpid)
	}
	switch vid, pcp := t.Hash.Is.Has(vendors.FieldVID), t.Hash.Is.Has(vendors.FieldPCP); {
	case !t.Hash.Known():
		check("hashing (ECMP, LAG) does not take in the VID or PCP, which would reorder flows")
	case vid:
		warn(findings.HashTakesTag, "it takes 0x%04x for a VLAN tag's TPID, and its hashes (ECMP, LAG, RPS) take in the VID: flows may be reordered when S changes", tpid)
	case pcp:
		warn(findings.HashTakesTag, "it takes 0x%04x for a VLAN tag's TPID, and its hashes (ECMP, LAG, RPS) take in the PCP: packets of a flow that ask for different signals may be reordered", tpid)
	}
	switch {
	case !t.DropDEI.Known():
		check("DEI is not taken for drop precedence, and leaves as it came")
	case t.DropDEI.Is:
		warn(findings.DEIPrecedence, "DEI is drop precedence to it: tags with R set are dropped first")
	}
	switch {
	case !t.TrustPCP.Known():
		check("QoS trust and remarking of PCP are off on CSIG ports; the PCP of a tag says which signal it asks for")
	case t.TrustPCP.Is:
		warn(findings.PCPQueue, "the PCP chooses the queue, or is remarked, unless that is switched off: it says which signal a tag asks for")
	}
	switch {
	case t.Independent.Known() && !t.Independent.Is:
		warn(findings.VIDBridges, "it takes 0x%04x for a VLAN tag's TPID, and the tag's VID, which is the signal, chooses the VLAN that frames are bridged in (%v)", tpid, t.Independent.Source)
	case !t.Independent.Known() || !t.Learning.Known():
		check("the VLAN that a frame is bridged in, and MAC learning, do not follow the VID of the tag")
	case !t.Independent.Sure():
		check("the VLAN that a frame is bridged in does not follow the VID of the tag: that is so " + t.Independent.From)
	}
	switch {
	case !t.Routed.Known():
		check("the tag survives routing")
	case !t.Routed.Is:
		warn(findings.NotRouted, "tagged frames that it routes, and does not bridge, leave without their tag or not at all")
	}
	first, last := plans.VIDs(&a.fleet.Profile)
	for _, r := range t.VIDs.Is.Reserved {
		if r.First <= last && first <= r.Last {
			warn(findings.ReservedVIDs, "it keeps VIDs %d to %d for itself, and the domain's tags have VIDs from %d to %d", r.First, r.Last, first, last)
		}
	}
}
