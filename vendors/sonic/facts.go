package sonic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	untried   = "never run on hardware: whether the egress ACL of a switch's SAI sees and sets the tag on the wire is its vendor's to say (assumed; vendors/sonic/doc.go lists what is)"
	outerOnly = "the ACL table sees the outer tag alone, so that a CSIG tag in front of another tag is updated, too"
	noLease   = "SONiC's ACL entries do not expire: when csig agent dies, the last values stay advertised; see " + docs.SONiC + " on what protects from that"
)

// Offline is what the platform promises without a switch at hand.
func Offline() vendors.Facts {
	f := facts()
	f.Notes = append(f.Notes, inAggregates+" and a SAI that can change the TPID of aggregates (LAG_TPID_CAPABLE): all of it is seen, and said, once the switch is asked",
		"assumed from the platform, not probed: SONiC 202205 to 202605, whose orchagent takes P4RT_TABLE from Redis or, since 202605, over ZeroMQ, with p4rt_app stopped")
	return f
}

// inAggregates is what members of aggregates take; what the ASIC makes of it is
// assumed (doc.go).
const inAggregates = "a member of a PortChannel is named as a port, with an lm of its own, and has its own entries, while the TPID is the PortChannel's: that takes all of its members among csig's ports,"

// facts is what is so on every SONiC switch.
func facts() vendors.Facts {
	return vendors.Facts{
		Platform:    "sonic",
		Rules:       Rules(),
		Unqualified: untried,
		Update:      vlanrules.Verdict{Level: vlanrules.Degraded, Reason: untried + "; " + outerOnly},
		Wide:        vendors.Refusal("wide tags pass through untouched: the ACL table's VLAN fields are those of a tag of 4 bytes"),
		Strip:       vendors.Refusal(noStrip),
		Lease:       vendors.Refusal(noLease),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "frames with another TPID than the port's are untagged to it, and bridged or dropped as such (assumed); one that is routed is dropped, since the IP header is not found behind the tag"},
		TagDepths: []vlanrules.Verdict{
			{Level: vlanrules.Degraded, Reason: untried},
			vendors.Refusal("the ACL table sees the outer tag alone, and behind an ordinary VLAN tag the CSIG tag is the inner one"),
		},
		Notes: []string{
			"ports take the domain's TPID for VLAN tags: ordinary VLANs (0x8100) on them are no longer understood",
			"the tag's VID is the signal: bridging must not follow it, or frames change VLAN with the bucket (assumed of SONiC: a port is a member of VLANs by the VID of its tags, so ports have to be routed ports or forwarded by other means)",
			firstTable,
			"no other application binds a table of its own to the whole switch at egress, as the PFC watchdog does on some ASICs: one is seen before csig's is made, and within 30 s after (assumed: ASIC_DB SAI_SWITCH_ATTR_EGRESS_ACL is what SAI has)",
			"P4Orch tells SAI that entries of the table only count (SAI_ACL_TABLE_ATTR_ACL_ACTION_TYPE_LIST), and csig's set the VID: a SAI that says that it wants the list is refused, others take the entries all the same (assumed)",
			"an entry with a member's port matches what its aggregate sends out of it (assumed: SAI's proposal for LAG and port attributes, §3.5, has OUT_PORT of LAG members; no ASIC was at hand)",
			"ACL entries match any outer tag that a port parses: one with the domain's TPID alone, where the ASIC knows no other TPID besides the port's (assumed)",
		},
		Traits: traits(),
	}
}

// Probe finds out what the switch can do, without changing it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := facts()
	seen, err := d.look(ctx, nil)
	if err != nil {
		return f, err
	}
	list, err := d.hashes(ctx,
		[2]string{sonicdb.Counters, "CRM:ACL_STATS:EGRESS:SWITCH"}, [2]string{sonicdb.Config, "DEVICE_METADATA|localhost"},
		[2]string{sonicdb.Config, "FEATURE|p4rt"}, [2]string{sonicdb.Config, "FLEX_COUNTER_TABLE|PORT"})
	if err != nil {
		return f, err
	}
	crm, device, p4rt, flex := list[0], list[1], list[2], list[3]
	defined := seen.rows[definedTable] != nil
	refuse := func(why string) {
		f.Update = vlanrules.Verdict{Level: vlanrules.Refused, Reason: why}
		f.TagDepths[0] = f.Update
	}
	if seen.capability["PORT_TPID_CAPABLE"] == "false" {
		refuse("the switch's SAI cannot change the TPID of a port (STATE_DB SWITCH_CAPABILITY|switch PORT_TPID_CAPABLE is false)")
	}
	if free, err := strconv.Atoi(crm["crm_stats_acl_table_available"]); err == nil {
		f.Notes = append(f.Notes, fmt.Sprintf("the ASIC has room for %d more ACL tables at egress (COUNTERS_DB CRM:ACL_STATS:EGRESS:SWITCH)", free))
		if free == 0 && !defined {
			refuse("the ASIC has no room for another ACL table at egress (COUNTERS_DB CRM:ACL_STATS:EGRESS:SWITCH, crm_stats_acl_table_available is 0)")
		}
	}
	if seen.badWhy != "" {
		f.Notes = append(f.Notes, seen.badWhy)
		f.Off = append(f.Off, seen.badWhy)
	}
	if why, err := d.pendingFirstTable(ctx, seen); err != nil {
		return f, err
	} else if why != "" {
		f.Off = append(f.Off, why)
	}
	if why, err := d.blockedReason(ctx, seen); err != nil {
		return f, err
	} else if why != "" {
		refuse(why)
	}
	if defined {
		if err := d.capacity(ctx, &f); err != nil {
			return f, err
		}
	}
	if err := d.neighbours(ctx, &f); err != nil {
		return f, err
	}
	if note := seen.aggregates(); note != "" {
		f.Notes = append(f.Notes, note)
	}
	off, taken := seen.unnoted()
	f.Off = append(f.Off, off...)
	issues, err := d.portIssues(ctx, seen.lags)
	if err != nil {
		return f, err
	}
	f.PortIssues = append(taken, issues...)
	if device["synchronous_mode"] == "disable" {
		refuse("syncd does not work synchronously (CONFIG_DB DEVICE_METADATA|localhost synchronous_mode is disable), so that orchagent's answers say nothing of the ASIC: config synchronous_mode enable, and restart swss")
	}
	if d.session == nil {
		mq, err := d.checkListeners(ctx)
		if mq != nil {
			mq.Close()
		}
		switch {
		case errors.Is(err, errStarting):
			f.Notes = append(f.Notes, err.Error()+": csig waits for that before it changes anything")
		case errors.Is(err, errOtherCSIG):
			f.Notes = append(f.Notes, "csig writes its entries now: "+errOtherCSIG.Error())
		case vendors.IsPermanent(err):
			refuse(vendors.Permanent(err).Error())
		case err != nil:
			return f, err
		}
	}
	if p4rt["state"] == "enabled" {
		f.Notes = append(f.Notes, "the p4rt feature is enabled: p4rt_app takes all of P4RT_TABLE for its own, and csig does not write beside it")
	}
	if hw := device["hwsku"]; hw != "" {
		f.Identity.Model = untrusted.Text(hw, 128)
		f.Notes = append(f.Notes, fmt.Sprintf("hwsku %s, platform %s", hw, device["platform"]))
	}
	if ms, err := strconv.Atoi(flex["POLL_INTERVAL"]); err == nil && ms > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("port counters are refreshed every %d ms (counterpoll port interval)", ms))
	}
	return f, nil
}

// neighbours notes the ACL tables that other applications have P4Orch keep at
// egress. They stay as they are.
func (d *Driver) neighbours(ctx context.Context, f *vendors.Facts) error {
	tables, err := d.table(ctx, sonicdb.Appl, rows+definitions+":")
	for _, name := range sortedKeys(tables) {
		if t := tables[name]; name != aclTable && t["stage"] == "EGRESS" {
			f.Notes = append(f.Notes, fmt.Sprintf("another application has ACL table %s at egress, with priority %s (csig's has %d): one that sets the outer VID, too, would be in the way of csig's",
				name, t["priority"], tablePriority))
		}
	}
	return err
}

// aggregates notes the switch's aggregates, and what becomes of their members; "" where
// it has none.
func (v *view) aggregates() string {
	if len(v.lags) == 0 {
		return ""
	}
	members := map[string][]string{}
	for _, port := range sortedKeys(v.lags) {
		members[v.lags[port]] = append(members[v.lags[port]], port)
	}
	var list []string
	for _, lag := range sortedKeys(members) {
		list = append(list, fmt.Sprintf("%s (%s)", lag, strings.Join(members[lag], ", ")))
	}
	what := strings.TrimSuffix(inAggregates, ",")
	if v.fixedLAGs() {
		what = "csig cannot program their members, since the switch's SAI cannot change the TPID of an aggregate (STATE_DB " + switchCapability + " LAG_TPID_CAPABLE is false)"
	}
	return "aggregates: " + strings.Join(list, ", ") + "; " + what
}

// unnoted lists the ports whose former TPID csig does not restore: after a reboot
// with a saved configuration it is unknown, since STATE_DB is lost. off is what csig off
// says of them, taken what csig plan says of the ports that have a TPID already.
func (v *view) unnoted() (off []string, taken []vendors.PortVerdict) {
	of := map[string][]string{}
	var unknown []string
	for _, name := range sortedKeys(v.carriers) {
		tpid := strings.ToLower(v.carriers[name].tpid)
		before, noted := v.record.before[name]
		switch {
		case !v.carriers[name].there:
		case noted && before == unknownTPID:
			unknown = append(unknown, name)
		case noted || sameTPID(tpid, ""):
		case v.record.setup == nil || sameTPID(tpid, tpidText(v.record.setup.TPID)):
			of[tpid] = append(of[tpid], name)
			if !isAggregate(name) {
				taken = append(taken, vendors.PortVerdict{Port: name, Verdict: vlanrules.Verdict{Level: vlanrules.Degraded,
					Reason: "CONFIG_DB has TPID " + tpid + " for it already, and what it had before is not known, as after a reboot with a saved configuration: csig off gives it " + defaultTPID + ", SONiC's default"}})
			}
		}
	}
	if len(unknown) > 0 {
		off = append(off, fmt.Sprintf("what TPID %s had before csig is not known, since csig's was there already, as after a reboot with a saved configuration: csig off gives %s, SONiC's default",
			vendors.Names(unknown), defaultTPID))
	}
	for _, tpid := range sortedKeys(of) {
		off = append(off, fmt.Sprintf("CONFIG_DB has TPID %s for %s, and csig has no note of having set it: csig off leaves it; where it is csig's, saved before a reboot, 'config interface tpid %s %s' gives the default back",
			tpid, vendors.Names(of[tpid]), of[tpid][0], defaultTPID))
	}
	return off, taken
}

// traits is how SONiC treats tags.
func traits() vendors.Traits {
	read := func(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }
	assumed := func(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }
	fields := read("sonic-net/sonic-swss orchagent/p4orch/acl_util.h, aclMatchTableAttrLookup and aclActionLookup")
	vendor := assumed("SAI vendors differ; none was at hand")
	port := read("sonic-net/sonic-buildimage src/sonic-yang-models/yang-models/sonic-port.yang, leaf tpid")
	return vendors.Traits{
		Access:   vendors.That("Redis: P4RT_TABLE of APPL_DB, and CONFIG_DB; since 202605 P4RT_TABLE over ZeroMQ", read("sonic-net/sonic-swss orchagent/p4orch/p4orch.cpp, P4Orch (202205 to 202511: Orch; 202605 and master: ZmqOrch)")),
		MatchVID: vendors.That(vendors.MatchTernary, fields),
		MatchPCP: vendors.That(vendors.MatchTernary, fields),
		MatchDEI: vendors.That(vendors.MatchTernary, fields),
		Key:      vendors.That(vendors.KeyWire, assumed("SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID at egress: whether a vendor compares the wire's VID or the bridging VLAN is not said")),
		Stage:    vendors.That(vendors.StageEgress, read("sonic-net/sonic-swss orchagent/acltable.h, STAGE_EGRESS, and orchagent/p4orch/acl_table_manager.cpp")),
		Sets:     vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, fields),
		Loses:    vendors.That(vendors.Fields(nil), vendor),
		Position: vendors.That(vendors.PositionOuter, fields),
		VLANs:    vendors.That(0, assumed("the table sees the outer tag alone")),
		VIDs:     vendors.That(vendors.VIDs{First: 1, Last: 4094}, assumed("those of IEEE 802.1Q; an ASIC may keep some for its routed ports")),
		Table:    vendors.That(vendors.Table{Sharers: "every other ACL table of the ASIC's TCAM"}, assumed("CRM of COUNTERS_DB tells how much is left, once the table is there")),
		Txn:      vendors.That(vendors.TxnEntry, read("sonic-net/sonic-swss-common common/consumer_state_table_pops.lua: rows are taken from a set, in no order; over ZeroMQ in that of the message, one after the other (sonic-swss orchagent/p4orch/p4orch.cpp, doTask)")),
		Revert:   vendors.That("", read("sonic-net/sonic-utilities config/main.py: checkpoints and rollback are of CONFIG_DB, and asked for")),
		Survives: vendors.That(false, read("sonic-net/sonic-buildimage files/scripts/swss.sh: APPL_DB is flushed at a cold start. That is of the entries: the TPIDs in CONFIG_DB survive where it was saved")),

		TPIDs:      vendors.That(vendors.TPIDs{List: tpids, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true}, port),
		TPIDChange: vendors.That(disrupts, assumed("SAI_PORT_ATTR_TPID replaces the TPID that a port parses")),
		VLANTPIDs:  vendors.That(vendors.TPIDList{0x8100}, port),

		Independent: vendors.That(false, assumed("VLAN members are by the VID of the tag that the port parses (VLAN_MEMBER, tagging_mode)")),
		Learning:    vendors.That(false, assumed("the FDB is by bridging VLAN")),
		Parses:      vendors.That(true, assumed("of a TPID that the port is given")),
		Hash:        vendors.That(vendors.Fields{vendors.FieldIP, vendors.FieldL4}, assumed("the default of SWITCH_HASH has no VLAN field")),
		DropDEI:     vendors.That(false, assumed("no map from DEI to a colour by default")),
		TrustPCP:    vendors.That(false, assumed("PORT_QOS_MAP dot1p_to_tc_map only where it is configured: it has to be off on these ports")),
		Routed:      vendors.That(false, assumed("a routed frame leaves with a new L2 header")),

		Strip:  vendors.That(vendors.StripNone, fields),
		Native: vendors.That("", assumed("not through this interface; see platform sai")),

		UpdateSource:      assumed("the fake of P4Orch in vendors/sonic's tests; no hardware: that SAI makes and binds ACL groups at all stages, and takes entries that do what the table's list of actions does not have"),
		WideSource:        fields,
		LeaseSource:       read("sonic-net/sonic-swss orchagent/p4orch/acl_rule_manager.cpp: an entry stays until it is deleted"),
		PassthroughSource: vendor,
	}
}
