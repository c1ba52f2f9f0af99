package openflow

import (
	"context"
	"fmt"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// ofdpaTTP is where Broadcom's text of OF-DPA's tables is.
const ofdpaTTP = "Broadcom-Switch/of-dpa ofdpa-2.02-15-jun-2016.json, "

const (
	ofdpaTPID     = 0x88a8
	ofdpaVLANTPID = 0x8100
)

const flatUpdate = unseenR + "; a match does not see the egress port: each declared forwarding flow takes a copy of the entries, and what is not declared is not rewritten (" + docs.OpenFlow + ")"

// OFDPATraits is how OF-DPA treats tags.
func OFDPATraits() vendors.Traits {
	acl := read(ofdpaTTP + "flow_tables, Policy ACL: VLAN_VID with a mask, VLAN_PCP and VLAN_DEI all or exact, IN_PORT all or exact")
	rewrite := read(ofdpaTTP + "group_entry_types, L2 Rewrite (SET_FIELD VLAN_ID) to L2 Unfiltered Interface")
	tpid := read(ofdpaTTP + "flow_tables, Egress TPID: a port's tags leave with 0x8100, or with 0x88a8 where a flow has S-Tag")
	t := vendors.Traits{
		Access:       vendors.That("OpenFlow 1.3", read("Broadcom-Switch/of-dpa src/ofagent")),
		MatchVID:     vendors.That(vendors.MatchTernary, acl),
		MatchPCP:     vendors.That(vendors.MatchExact, acl),
		MatchDEI:     vendors.That(vendors.MatchExact, acl),
		Key:          vendors.That(vendors.KeyWire, assumed("where the VLAN table lets frames pass with the VID they have (VLAN Allow All); it may give them another")),
		Stage:        vendors.That(vendors.StageIngress, acl),
		Sets:         vendors.That(vendors.Fields{vendors.FieldVID}, rewrite),
		Position:     vendors.That(vendors.PositionOuter, acl),
		VLANs:        vendors.That(0, assumed("Policy ACL sees the outermost tag")),
		VIDs:         vendors.That(vendors.VIDs{First: 1, Last: 4094}, read("Dell Networking OS for OpenFlow Deployment Guide, Table 9: VLAN_VID must be between 1 and 4094")),
		Table:        vendors.That(vendors.Table{Sharers: "all flows of Policy ACL"}, assumed("it is one TCAM, whose size is the chip's; management.openflow.entries names it")),
		Txn:          vendors.That(vendors.TxnEntry, assumed("one flow in a message; OpenFlow 1.3 has no bundles")),
		Revert:       vendors.That("", assumed("OpenFlow 1.3 has none")),
		Survives:     vendors.That(false, assumed("flows belong to the controller, which sends them again")),
		TPIDs:        vendors.That(vendors.TPIDs{List: vendors.TPIDList{ofdpaVLANTPID, ofdpaTPID}, Scope: vendors.ScopePort, AsVLAN: true}, tpid),
		VLANTPIDs:    vendors.That(vendors.TPIDList{ofdpaVLANTPID}, tpid),
		Independent:  vendors.That(true, assumed("Policy ACL chooses the port of declared flows; what is not declared is bridged in the VLAN that its VID names")),
		Learning:     vendors.That(true, assumed("the controller writes the bridging table")),
		Routed:       vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own")),
		Strip:        vendors.That(vendors.StripNone, read(ofdpaTTP+"group_entry_types, L2 Interface: POP_VLAN is of one VLAN, and a group a VLAN would be needed for each VID")),
		Native:       vendors.That("", acl),
		UpdateSource: vendors.Source{Mark: vendors.Ran, From: "vendors/openflow, TestOFDPAEveryTag: against Broadcom's table type pattern on an Open vSwitch; no hardware"},
		LeaseSource:  read("Broadcom-Switch/of-dpa src/ofagent/ofdpadriver/ind_ofdpa_fwd.c, indigo_fwd_flow_create: hard_timeout in seconds"),
	}
	t.WideSource = assumed("no text mentions tags of 8 bytes")
	t.PassthroughSource = assumed("no text states what happens to unknown ethertypes")
	return t
}

// OFDPAOffline is what OF-DPA can do without a device at hand.
func OFDPAOffline() vendors.Facts {
	return vendors.Facts{
		AckWaits: 3, // barriers of a change: docs/openflow.md
		Platform: "ofdpa", Rules: FlatRules(), Layout: flatLayout(), Traits: OFDPATraits(),
		Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: flatUpdate},
		Wide:   vendors.Refusal("VLAN tags have 4 bytes: Policy ACL does not see the rest of a wide tag"),
		Strip:  vendors.Refusal(flatStrip),
		Lease:  vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "it expires by whole seconds, and ports fall back within two leases: bands are renewed in turns"},
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded,
			Reason: "a frame whose TPID is not one of its VLAN TPIDs is bridged like any other frame, but not routed: the switch does not see it as IP"},
		TagDepths: []vlanrules.Verdict{{}, vendors.Refusal("behind a VLAN tag a tag is not seen: it passes untouched")},
		Notes: []string{
			"every frame has a VLAN in Policy ACL: give untagged frames of these ports a VLAN of 1 to 127 (S=0), which no flow of csig's takes of a min signal, and ordinary tags no PCP of a signal",
			"VLAN table: each port that CSIG tags come in by needs VLAN Allow All; Egress TPID table: each port that they leave by needs the flow S-Tag, with TPID 0x88a8",
			"its Egress VLAN table matches one VID of one output port and no PCP (Broadcom OF-DPA API Guide and Reference Manual, ofdpaEgressVlanFlowEntry_s): it is no way to compare and replace",
			"csig refers to the L2 Unfiltered Interface group of each port, which the operator makes",
		},
	}
}

// Probe finds out what this switch can do, without changing it.
func (d *Flat) Probe(ctx context.Context) (vendors.Facts, error) {
	f := d.offline()
	if err := d.connect(ctx); err != nil {
		return f, err
	}
	seen, err := d.read(ctx)
	if err != nil {
		return f, err
	}
	if err := d.describe(ctx, &seen.portNames, &f); err != nil {
		return f, err
	}
	can, err := d.askFeatures(ctx)
	if err != nil {
		return f, err
	}
	switch {
	case can.problem != "":
		f.Update = vendors.Refusal(can.problem)
	case d.cfg.OrdinaryVLANs == "":
		f.Update = vendors.Refusal(undeclaredFlat)
	case can.assumed != "":
		f.Update.Reason += "; " + can.assumed
	}
	forwards, err := resolve(d.cfg.Forwarding, &seen.portNames)
	if err != nil {
		f.Update = vendors.Refusal(err.Error())
		return f, nil
	}
	// As if every port that frames are forwarded to updated.
	size := func(signals ...quantize.Signal) *flat {
		s := &vendors.Setup{TPID: ofdpaTPID, Signals: signals, OnStale: inventory.Conservative}
		for _, w := range forwards {
			if !s.HasPort(w.Port) {
				s.Ports = append(s.Ports, vendors.PortSetup{Port: w.Port, Action: vlanrules.Update})
			}
		}
		return newFlat(d.cfg.Table, d.cfg.Priority, d.cfg.OFDPA, s, forwards)
	}
	one, two := size(quantize.MinABW), size(quantize.MinABW, quantize.MinABWC)
	for _, p := range f.Ports {
		copies := 0
		for i := range forwards {
			if forwards[i].Port == p {
				copies++
			}
		}
		f.Rules.Positions = max(f.Rules.Positions, copies)
		if err := one.refusePort(p, seen); err != nil {
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p, Verdict: vendors.Refusal(err.Error())})
		}
	}
	room := d.capacity(can)
	capacity := fmt.Sprintf("it has room for %d", room)
	if room == 0 {
		capacity = "how many it has room for is not known: management.openflow.entries"
	}
	f.Notes = append(f.Notes, fmt.Sprintf("table %d: at all %d ports that declared flows forward to, one signal needs %s, and two need %s, with both bands and the stale values; %s the operator's; %s",
		d.cfg.Table, len(one.setup.Ports), one.entries(), two.entries(), count(len(seen.foreign), "flow is", "flows are"), capacity))
	if err := d.refuseSize(seen, one, room); err != nil {
		f.Update = vendors.Refusal(err.Error())
	} else if err := d.refuseSize(seen, two, room); err != nil {
		f.Notes = append(f.Notes, "with two signals "+err.Error())
	}
	return f, nil
}

// offline is what is known of such a switch.
func (d *Flat) offline() vendors.Facts {
	f := OFDPAOffline()
	if !d.cfg.OFDPA {
		f.Platform, f.Traits, f.Notes = d.cfg.Platform, vendors.Traits{}, nil
	}
	return f
}
