package comware

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	noStrip    = "a QoS policy marks VLAN IDs and removes no tag"
	noLease    = "a configuration does not expire: when csig agent dies, a dead-man on the switch applies the worst values"
	deadText   = "an NQA probe that csig agent answers and an EAA policy (rtm cli-policy " + deadPolicy + ")"
	untried    = "never run on hardware: whether the outbound stage of a model sees the tag of the wire and takes a VLAN ID marking there is its chip's to say"
	tpidChange = "frames with an ordinary tag, 0x8100, in the place of the CSIG tag are untagged ones to the switch when that place has another TPID"
	outerTags  = "bridging follows the VID of the outer tag, which is the signal: only with the CSIG tag behind a VLAN tag are they apart"
)

const (
	minInterval = 10 * time.Second

	// changeLines is what the change of one bucket gives at most: twice into system view and
	// back (4), a class (4), a behavior (3), the policy with the new class (3), the report that
	// is read back, the policy without the old (3), and a class and a behavior of no use.
	changeLines = 20
)

// Rules is the table of a port: its QoS policy. VLAN IDs of classes and behaviors are 1 to
// 4094, a class matches one 802.1p priority and a range, and each line is a change by
// itself.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Prefixes: true, Txn: vlanrules.TxnEntry, VIDMin: 1, VIDMax: 4094}
}

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Where Comware's own text is.
const (
	matchText  = "HP FlexFabric 11900 ACL and QoS Command Reference R211x, if-match, p. 36-37"
	orderText  = "H3C S5820X Series Configuration Manual, ACL and QoS, Defining a Policy, p. 3-5: matched in the order in which they are configured, and the first that matches ends it"
	appendText = "HPE 5130 HI ACL and QoS Command Reference 5998-8424b, classifier behavior: a new class is placed at the end of the policy"
	markText   = "HP 6600/HSR6600 Layer 2 - LAN Switching Configuration Guide R3303, p. 150, and H3C S3600V2, Configuring inner VLAN ID substitution, p. 189: remark customer-vlan-id in a policy at the outbound direction"
	tpidText   = "HPE 5950 Layer 2 - LAN Switching Command Reference 5200-2215a, qinq ethernet-type"
	applyText  = "HPE 5130 HI ACL and QoS Configuration Guide 5200-3601, Applying the QoS policy to an interface"
	fullText   = "HPE 12500 ACL and QoS Command Reference 5998-4884, qos apply policy global: with too few hardware resources the application fails on a card and stays in the configuration; the same where an update of it fails"
	placeText  = "qos apply policy POLICY outbound [dynamic] at an interface (3Com Switch 8800 V5 Configuration Guide p. 845) or in a user profile (HPE 3100-48 Security Configuration Guide 5998-7647r); qos apply policy POLICY global outbound (HPE 12500 5998-4884); qos vlan-policy POLICY vlan LIST outbound (3Com Switch 4800G p. 889)"
	jumboText  = "H3C S6850 and S7500X Layer 2 - LAN Switching and Interface configuration guides, Configuring jumbo frame support: jumboframe enable [ size ] in interface view, from 1536 bytes on; longer frames are discarded; undo jumboframe enable discards jumbo frames; the default differs from series to series (1600, 9126, 9216, 9416, 10000)"
	editText   = "H3C S5120-SI ACL and QoS Configuration Guide, Applying the QoS policy, p. 20: classes, behaviors and associations of an applied policy can be modified; HP 4800G Configuration Manual p. 1126 says of that series that they cannot"
)

func traits() vendors.Traits {
	t := vendors.Traits{
		Access:   vendors.That("SSH, the command line", read("scrapli/scrapligo assets/platforms/hp_comware.yaml")),
		MatchVID: vendors.That(vendors.MatchRange, read(matchText)),
		MatchPCP: vendors.That(vendors.MatchExact, read(matchText)),
		MatchDEI: vendors.That(vendors.MatchNone, read(matchText)),
		Key:      vendors.That(vendors.KeyWire, assumed("a policy at the outbound direction of the service provider's port matches the tags of the frame")),
		Stage:    vendors.That(vendors.StageEgress, read(markText)),
		Sets:     vendors.That(vendors.Fields{vendors.FieldVID}, read(markText)),
		Position: vendors.That(vendors.PositionAny, read(matchText+": service-… is the outer tag, customer-… the inner one")),
		VLANs:    vendors.That(1, assumed("the inner tag is the second; a third is not mentioned")),
		VIDs:     vendors.That(vendors.VIDs{First: 1, Last: 4094}, read(matchText)),
		Table:    vendors.That(vendors.Table{Sharers: "all ACLs and QoS policies of the chip's outbound stage"}, assumed("it is a TCAM, in which a range takes several entries")),
		Txn:      vendors.That(vendors.TxnEntry, read(editText)),
		Revert:   vendors.That("", assumed("not used: configuration replace and scheduler jobs need a saved file or a line of configuration")),
		Survives: vendors.That(false, assumed("csig never saves the configuration; what an operator saves meanwhile comes back, and csig removes or takes it over")),

		TPIDs:      vendors.That(vendors.TPIDs{Any: true, AtMost: 1, Scope: vendors.ScopeGlobal, AsVLAN: true}, read(tpidText+": customer-tag of the whole switch, service-tag of a port; 0x0001 to 0xffff but reserved types")),
		TPIDChange: vendors.That(tpidChange, read(tpidText)),
		VLANTPIDs:  vendors.That(vendors.TPIDList{qos.DefaultTPID}, read(tpidText)),

		Independent: vendors.That(true, assumed("the CSIG tag is the inner one by default: the outer tag's VID chooses the VLAN")),
		Learning:    vendors.That(true, assumed("as for bridging")),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included")),

		Strip:  vendors.That(vendors.StripNone, read("H3C S6300 ACL and QoS Command Reference R243x, Traffic behavior commands: no action removes a tag")),
		Native: vendors.That("", assumed("no text mentions CSIG")),

		UpdateSource: assumed("the text has each command by itself (" + markText + "); that a chip does all of it at once is shown by a fake alone, with Comware's grammar and a data plane of nftables (vendors/comware, TestEveryTag)"), WideSource: read(matchText), LeaseSource: assumed("no text mentions that configuration expires"),
	}
	t.PassthroughSource = assumed("a switch that does not know a TPID bridges the frame by what it knows")
	return t
}

// Offline is what is known without a device at hand.
func Offline() vendors.Facts {
	return vendors.Facts{
		Platform: "comware", Rules: Rules(), Traits: traits(), Unqualified: untried,
		Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: untried},
		ConfigUpdates: &vendors.ConfigUpdates{
			Interval: vendors.That(minInterval, assumed("no switch was measured; a change and its read-back are about 15 commands")),
			Lines:    changeLines,
			DeadMan:  deadText,
		},
		Wide:        vendors.Refusal("VLAN tags have 4 bytes: classes do not see the rest of a wide tag"),
		Strip:       vendors.Refusal(noStrip),
		Lease:       vendors.Refusal(noLease),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "a frame whose outer TPID it does not know is an untagged frame to it (assumed)"},
		TagDepths: []vlanrules.Verdict{
			vendors.Refusal("the CSIG tag is the inner one here: alone in a frame it passes untouched (management: {comware: {tag: outer}} changes that)"),
			{Level: vlanrules.Degraded, Reason: untried},
		},
		Notes: []string{
			"never saved: after a restart of the switch csig writes its policies again",
			"a policy at the outbound direction leaves the switch's own packets alone: link maintenance, routing, SSH (" + applyText + ")",
			"a tag with VID 4095 or 0 is matched by no class, and passes untouched (" + matchText + ")",
			"the order of classes: " + orderText + "; " + appendText,
			"an edit of an applied policy: " + editText + "; whether the chip takes the whole policy again is not written anywhere (assumed: the new class works before the old one goes)",
			"where another policy may be applied to what leaves a port, which csig refuses: " + placeText,
			"accepted and not in hardware: " + fullText + "; csig reads display qos policy interface before it takes the old class out, and takes a class for failed that is not reported, or with the word failed (assumed: no public text shows the report of a failed class; display qos policy diagnosis interface, which H3C S6850 and S9850 ACL and QoS Command Reference R655x has, is not read)",
			"counts: csig's behaviors have no accounting, and a port's policy is csig's alone, so that an edit disturbs no count of another user's; what it does to counts of classes that stay is not written anywhere",
			"csig sets the TPID where the switch has the default (0x8100), and gives that back; another is refused: " + tpidText,
			"the dead-man fires within the lease, and 24 seconds at least: three probes that fail, and 5 seconds to run the policy (assumed); probes are UDP datagrams from the switch to a port of the agent's host that the agent names when it arms it; " + nqaText + "; " + trackText + "; " + eaaText + "; that a datagram sent back as it came is an answer is assumed, and that all of it works is seen on each switch before its first update, where the agent lets it fire",
			"a port takes one policy: where the dead-man applies its own, and where csig replaces that again, tags pass untouched from undo qos apply policy to qos apply policy (how long that takes on a switch was not measured)",
			"beside changes an accounting log has the commands with which csig reads: two that begin each session, one a minute, one for each port after each change, each start of an agent and each minute, and two with each renewal of the dead-man",
			"the longest frame of a port is what display interface reports as its maximum frame length, with the L2 header, the FCS and, where the CSIG tag is the inner one, the VLAN tag (assumed: no text says what it counts): csig sets it (jumboframe enable SIZE) where a plan needs more, and notes what was there; a default comes back by its number, since undo jumboframe enable would not give it back; " + jumboText,
			"what hardware has lost since a change is seen within a minute",
			"the dead-man removes csig's policy by its name, and applies its own where there is none: a policy of yours that comes to a port later stays (assumed: that a switch refuses to remove a policy by another name, and to apply a second one; the forms of 3Com without a name are refused when the dead-man is to fire once)",
			"csig reads the running configuration, of which it keeps QoS objects and the names of interfaces alone",
			"the hash of the profile is not recorded on the switch",
		},
	}
}

// Probe finds out what this switch can do, without changing it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := Offline()
	if d.cfg.Outer {
		f.TagDepths = []vlanrules.Verdict{{Level: vlanrules.Degraded, Reason: untried}, vendors.Refusal("the CSIG tag is the outer one here: behind a VLAN tag it passes untouched")}
		f.Traits.Independent = vendors.That(false, assumed(outerTags))
		f.Traits.Learning = vendors.That(false, assumed(outerTags))
		f.Traits.TPIDs.Is.Scope = vendors.ScopePort
		f.Update.Reason += "; " + outerTags
	}
	v, err := d.Look(ctx)
	if err != nil {
		return f, err
	}
	lines, err := d.Session.Run(ctx, "display version")
	if err != nil {
		return f, err
	}
	f.Identity = identity(lines)
	for i := range v.Ports {
		p := v.Ports[i]
		if strings.HasPrefix(p.Name, "Vlan-interface") || strings.HasPrefix(p.Name, "NULL") || strings.HasPrefix(p.Name, "LoopBack") {
			continue
		}
		f.Ports = append(f.Ports, p.Name)
		if why := portName(p.Name); why != "" {
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.Name, Verdict: vendors.Refusal(why)})
		} else if foreign := v.Foreign(p); foreign != nil {
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.Name, Verdict: vendors.Refusal(foreign.Error())})
		}
	}
	f.Rules.Ports = len(f.Ports)
	if d.cfg.Outer {
		f.Notes = append(f.Notes, "the TPID of outer tags is each port's own (qinq ethernet-type service-tag)")
	} else {
		f.Notes = append(f.Notes, fmt.Sprintf("the TPID of inner tags is 0x%04x (qinq ethernet-type customer-tag)", v.InnerTPID))
	}
	return f, nil
}

var (
	versionLine = regexp.MustCompile(`^(HPE?|H3C) Comware (?:Platform )?Software, Version (\S+), (Release|Feature|ESS|Alpha|Beta|Test) ?(\S+)`)
	modelLine   = regexp.MustCompile(`^(?:HPE?|H3C) (.+) uptime is `)
)

// identity is what `display version` says (HPE 5130 EI Fundamentals Command Reference).
func identity(lines []string) (id vendors.Identity) {
	for _, line := range lines {
		if m := versionLine.FindStringSubmatch(line); m != nil {
			id.Maker, id.Version = m[1], untrusted.Text(m[2]+" "+m[3]+" "+m[4], 64)
		}
		if m := modelLine.FindStringSubmatch(line); m != nil {
			id.Model = untrusted.Text(m[1], 64)
		}
	}
	return id
}
