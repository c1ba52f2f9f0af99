package eos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	noStrip    = "no command takes a tag away whatever its VID: a flow sets another VLAN, and a port is untagged for one VLAN"
	noLease    = "a flow with a hard timeout stays in the configuration when it has expired, and only another write makes it again: when csig agent dies, a dead-man on the switch writes the worst values"
	deadText   = "event handlers (event-handler csig-dead-…) that look how long ago csig agent had the switch note its uptime"
	noMask     = "match vlan takes no mask here: S > s would be a flow for each VID, up to 3,968 for each signal and forwarding flow, and all of them would change with each bucket, in about 35,000 lines of configuration"
	untried    = "never run on hardware: no text names a model with both DirectFlow and a configurable TPID, and that match vlan takes a mask is known of EosSdk alone (csig tries it on the switch, and not what it means)"
	follow     = "the VID of the tag is the VLAN that a frame is bridged and learned in: frames of no declared forwarding flow are flooded there"
	disruptive = "a port takes only frames with its own TPID for tagged: ordinary 0x8100 frames become untagged ones there (Arista, Configurable TPID)"
)

const (
	minInterval = 10 * time.Second

	// What the change of one bucket gives at most: two sessions (a name, the difference, a
	// commit, directflow and exit), and for each forwarding flow five flows made (9) and five
	// taken out.
	sessionLines = 2 * 5
	flowLines    = 5*9 + 5
	changeLines  = sessionLines + flowLines
)

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Where Arista's own text is.
const (
	flowText    = "aristanetworks/DirectFlowAssist directflow_assist/DirectFlowSwitch.py and FlowAssistController.py: match vlan, input interface; action set vlan, set cos, output interface; priority, timeout hard and idle, no persistent"
	sdkText     = "aristanetworks/EosSdk eos/types/directflow.h: vlan_id_is(vlan_id, mask), cos (only with a VLAN ID other than 0), set_vlan_id, output_intfs"
	manualText  = "Arista EOS User Manual, DirectFlow (arista.com/en/um-eos/eos-directflow): after ingress checks and before any egress actions; MAC learning, spanning tree, VLAN membership and QoS are respected"
	statusText  = "aristanetworks/DirectFlowAssist DirectFlowSwitch.py: the running configuration may have flows that were not accepted or have timed out; show directflow detail has the status of each"
	sessionText = "Arista EOS User Manual, Configure Session (arista.com/en/um-eos/eos-configure-session)"
	timerText   = "Arista EOS Central, Config Session Commit Timer"
	tpidText    = "Arista EOS Central, Configurable TPID (eos.arista.com, P. R. Pandurangan)"
	tpidPlace   = "EOS User Guide 4.36.0F §13.3.2.2.3, as a public study guide quotes it, has it on 7280E and 7500E alone; Arista TOI, Configurable TPID, on 7280R and R2, up to 3 non-default values a chip"
	longText    = "MTU enforcement is of routed packets alone, at the egress, and switched frames of any supported length pass (aristaeos.blogspot.com, Arista EOS MTU behavior, on Jericho); l2 mtu <64-65535> and l2 mru <68-65535>, where a model has them at an interface, limit switched frames (help texts in aristanetworks/avd, pull request 3164; EOS 4.25.0F, MRU enforcement: frames over the threshold are dropped at the ingress); what the numbers count is in no public text, so csig reads them and changes neither"
	tcamText    = "aristanetworks/DirectFlowAssist DirectFlowSwitch.py, parse_tcam_stats: 512 or 1,536 entries of a Trident's TCAM group, a few of which EOS takes"
)

func traits() vendors.Traits {
	t := vendors.Traits{
		Access:   vendors.That("SSH, the command line", read("scrapli/scrapligo assets/platforms/arista_eos.yaml")),
		MatchVID: vendors.That(vendors.MatchTernary, read(sdkText)),
		MatchPCP: vendors.That(vendors.MatchExact, read(sdkText)),
		MatchDEI: vendors.That(vendors.MatchNone, read(sdkText)),
		Key:      vendors.That(vendors.KeyWire, assumed("on a trunk with the tag's TPID the VLAN of a frame is its VID, where no VLAN translation is configured")),
		Stage:    vendors.That(vendors.StageIngress, read(manualText)),
		Sets:     vendors.That(vendors.Fields{vendors.FieldPCP, vendors.FieldVID}, read(flowText)),
		Position: vendors.That(vendors.PositionOuter, assumed("match vlan has no inner tag")),
		VLANs:    vendors.That(0, assumed("match vlan has no inner tag")),
		VIDs:     vendors.That(vendors.VIDs{First: 1, Last: 4094}, read("Arista EOS User Manual, Virtual LANs, VLAN Conceptual Overview")),
		Table:    vendors.That(vendors.Table{Sharers: "all flows of DirectFlow, and other users of the TCAM"}, read(tcamText)),
		Txn:      vendors.That(vendors.TxnEntry, assumed("a session is committed as a whole ("+sessionText+"); hardware gets flow by flow")),
		Revert:   vendors.That("configure session … commit timer", read(timerText)),
		Survives: vendors.That(false, assumed("csig never saves the configuration; what an operator saves meanwhile comes back, and csig removes or takes it over")),

		TPIDs:      vendors.That(vendors.TPIDs{Any: true, AtMost: 3, Scope: vendors.ScopeChip, AsVLAN: true}, read(tpidPlace)),
		TPIDChange: vendors.That(disruptive, read(tpidText)),
		VLANTPIDs:  vendors.That(vendors.TPIDList{defaultTPID}, read(tpidText)),

		Independent: vendors.That(false, assumed(follow)),
		Learning:    vendors.That(false, read(manualText)),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included, and writes its own")),
		TrustPCP:    vendors.That(true, assumed("a trunk trusts the CoS of its frames unless qos trust says otherwise")),

		Strip:  vendors.That(vendors.StripNone, assumed("no such action of a flow, and no such command of a port, was found")),
		Native: vendors.That("", assumed("no text of Arista's that mentions CSIG was found")),

		UpdateSource: assumed("the text has each command by itself (" + flowText + "); that a chip does all of it at once, and what a mask of VIDs means, is shown by a fake alone, with EOS's grammar and a data plane of nftables (vendors/eos, TestEveryTag)"), WideSource: assumed("no text mentions tags of 8 bytes"), LeaseSource: read(statusText),
	}
	t.PassthroughSource = assumed("no text states what happens to unknown ethertypes; a router forwards the protocols that it has routes for")
	return t
}

// Offline is what is known without a device at hand.
func Offline() vendors.Facts {
	return vendors.Facts{
		Platform: "eos", Rules: Rules(), Traits: traits(), Unqualified: untried,
		Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: untried + "; " + follow},
		ConfigUpdates: &vendors.ConfigUpdates{
			Interval: vendors.That(minInterval, assumed("no switch was measured; a change of one forwarding flow is about 60 commands")),
			Lines:    changeLines,
			DeadMan:  deadText,
		},
		Wide:  vendors.Refusal("VLAN tags have 4 bytes: a flow does not see the rest of a wide tag"),
		Strip: vendors.Refusal(noStrip),
		Lease: vendors.Refusal(noLease),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded,
			Reason: "a frame whose TPID is not one of its VLAN TPIDs is bridged like any other frame, but not routed: the switch does not see it as IP"},
		TagDepths: []vlanrules.Verdict{
			{Level: vlanrules.Degraded, Reason: untried},
			vendors.Refusal("behind a VLAN tag a tag is not seen: it passes untouched"),
		},
		Notes: []string{
			"never saved: after a restart of the switch csig writes its setup and its flows again; flows that an operator saves meanwhile come back with what they wrote then",
			"all VLANs 1-4094 are to be there and allowed on these trunks: ingress and egress membership of the VID is checked (" + manualText + ")",
			"CSIG's frames that match no declared forwarding flow are bridged in the VLAN that their VID names, which is another with each bucket: declare all, with flows of your own that forward those csig leaves alone",
			"a commit overwrites what another user has changed since its session began (" + sessionText + "): csig reads the difference first and commits nothing that is not its own",
			"counts: each value has flows of its own, so that those of csig's flows begin again with each change of a bucket, and those of other flows go on",
			"whether a flow is in hardware is read back before the old one goes (" + statusText + ")",
			"the dead-man needs an account that may give bash, and adds flows of the worst bucket: it is for on_stale: conservative; a line of it is up to 400 characters, and how long one may be is not known",
			"csig sets no frame size: " + longText,
			"the hash of the profile is not recorded on the switch",
		},
	}
}

// Probe finds out what this switch can do. It changes nothing: the session of the
// configuration in which it tries a command is aborted.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := Offline()
	v, err := d.look(ctx)
	if err != nil {
		return f, err
	}
	lines, err := d.session.Run(ctx, "show version")
	if err != nil {
		return f, err
	}
	f.Identity = identity(lines)
	if _, err := d.session.Run(ctx, "show directflow detail | json"); err != nil {
		if refused := (*cli.RefusedError)(nil); errors.As(err, &refused) {
			f.Update = vendors.Refusal("it has no DirectFlow: " + refused.Answer)
			return f, nil
		}
		return f, err
	}
	if err := d.tryMask(ctx); err != nil {
		return f, err
	}
	if !*d.masked {
		f.Update = vendors.Refusal(noMask)
	} else if err := resolve(d.cfg.Forwarding); err != nil {
		f.Update = vendors.Refusal(err.Error())
	}
	copies := 0
	for i := range v.ports {
		p := &v.ports[i]
		if portName(p.name) != "" || p.member != "" {
			continue
		}
		f.Ports = append(f.Ports, p.name)
		own := 0
		for j := range d.cfg.Forwarding {
			if d.cfg.Forwarding[j].Port == p.name {
				own++
			}
		}
		copies = max(copies, own)
		// The TPID is the domain's to say.
		if why := d.portIssue(v, p.name, p.tpid); why != "" {
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.name, Verdict: vendors.Refusal(why)})
		} else if len(p.longest) > 0 {
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.name, Verdict: vlanrules.Verdict{Level: vlanrules.Degraded,
				Reason: "longer frames than " + untrusted.Text(strings.Join(p.longest, " and "), 80) + " says are dropped, and a tag makes frames 4 bytes longer: see to it that they fit, csig changes neither"}})
		}
	}
	f.Rules.Ports, f.Rules.Positions = len(f.Ports), copies
	f.ConfigUpdates.Lines = sessionLines + flowLines*max(copies, 1)
	if !v.on {
		f.Notes = append(f.Notes, "DirectFlow is shut down: configure directflow, no shutdown")
	}
	if missing := v.missingVLANs(); missing != "" {
		f.Notes = append(f.Notes, "VLANs that are not configured: "+missing)
	}
	f.Notes = append(f.Notes, fmt.Sprintf("%d flows are csig's, %d others", d.ownFlows(v), len(v.flows)-d.ownFlows(v)))
	return f, nil
}

// identity is what `show version` says.
func identity(lines []string) (id vendors.Identity) {
	for _, line := range lines {
		for head, to := range map[string]*string{"Arista ": &id.Model, "Serial number: ": &id.Serial, "Software image version: ": &id.Version} {
			if text, ok := strings.CutPrefix(line, head); ok {
				*to = untrusted.Text(strings.TrimSpace(text), 64)
			}
		}
	}
	if id.Model != "" {
		id.Maker = "Arista"
	}
	return id
}
