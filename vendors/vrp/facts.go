package vrp

import (
	"context"
	"regexp"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	noStrip    = "a traffic policy marks VLAN IDs and removes no tag"
	noLease    = "a configuration does not expire: when csig agent dies, the last values stay advertised; lease: none in the fleet file accepts that"
	untried    = "never run on hardware: whether the outbound stage of a model sees the tag of the wire and takes a VLAN ID there is its chip's to say"
	outerTags  = "bridging follows the VID of the tag, which is the signal: VRP takes another TPID than 0x8100 for the outer tag alone"
	tpidChange = "ordinary tags with 0x8100 are untagged frames at a port whose outer tags have another TPID"
	sGap       = "an update of an applied policy makes it ineffective for a short time, twice for each change: tags pass untouched meanwhile (how long is not written anywhere; csig qualify measures it)"
	ceGap      = "traffic-policy atomic-update-mode is not configured: while a change is delivered tags may pass untouched"
)

const (
	minInterval = 10 * time.Second

	// changeLines is what the change of one bucket gives at most: into system view and back,
	// a classifier (4), a behavior (3), the policy (3); the report that is read back, twice; the
	// policy again (5); and what no policy needs any more (2). A commit is one more of each half.
	sLines, ceLines = 21, 23
)

// Rules is the table of a port: its traffic policy. VLAN IDs of classifiers and behaviors
// are 1 to 4094, and a classifier matches one 802.1p priority and a range.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Prefixes: true, Txn: vlanrules.TxnEntry, VIDMin: 1, VIDMax: 4094}
}

func read(from string) vendors.Source { return vendors.Source{Mark: vendors.Read, From: from} }

func assumed(why string) vendors.Source { return vendors.Source{Mark: vendors.Assumed, From: why} }

// Where Huawei's own text is.
const (
	s11 = "Huawei S1720, S2700, S5700, and S6720 V200R011C10 Command Reference, "
	s19 = "Huawei S2720, S5700, and S6700 V200R019C10 Command Reference, "
	ce  = "Huawei CloudEngine 8800 and 6800 V300R023C00 Command Reference, "
)

// texts are where a platform's facts are from.
type texts struct {
	match, pcp, mark, stage, order, edit, status, limits, tpid, jumbo vendors.Source
}

func (p *profile) texts() texts {
	if p.name == SSeries {
		return texts{
			match:  read(s19 + "if-match vlan-id: 1 to 4094, the outer tag"),
			pcp:    read(s19 + "if-match 8021p"),
			mark:   read(s19 + "remark cvlan-id, Precautions: remark vlan-id and remark cvlan-id modify the VLAN tags of packets"),
			stage:  assumed(s19 + "traffic-remark (interface view): outbound acl … vlan-id re-marks at the outbound direction; of remark vlan-id in a traffic policy the text does not name the direction"),
			order:  read(s11 + "traffic policy: at the outbound direction S5720EI, S6720EI and S6720S-EI match in the order auto, S5720HI in the order of the bindings: csig relies on none"),
			edit:   read(s11 + "classifier behavior: updating an applied policy makes it ineffective for a short time; traffic policy has a keyword atomic in " + s19 + "traffic policy, of whose meaning no more was read: csig does not use it"),
			status: read(s11 + "display traffic-policy applied-record: success or fail, by slot"),
			limits: read(s11 + "traffic classifier, traffic behavior, classifier behavior: 512 classifiers, 256 behaviors, 256 pairs a policy"),
			tpid:   read(s19 + "qinq protocol: 0x0600 to 0xFFFF, of the outer tag, by interface"),
			jumbo:  assumed("as on CloudEngine, " + ce + "jumboframe enable; configurations of the S series show jumboframe enable 12288, and display interface shows The Maximum Frame Length; longer frames are taken for discarded both ways"),
		}
	}
	return texts{
		match:  read(ce + "if-match vlan: 1 to 4094, the outer tag"),
		pcp:    read(ce + "if-match 8021p: the outer tag"),
		mark:   read(ce + "vlan-mapping (traffic behavior view): replaces the VLAN ID of the outer tag"),
		stage:  assumed("traffic-policy (interface view) has outbound, and the limits of vlan-mapping are of the inbound direction; no text shows it outbound"),
		order:  read(ce + "classifier behavior: precedence, and no two bindings with the same: csig gives each its own, and relies on no order"),
		edit:   read(ce + "traffic-policy atomic-update-mode: new classification rules are delivered before the old are deleted, and without it services may be interrupted; that a new binding is one is assumed"),
		status: read(ce + "display traffic-policy applied-record: success, fail with its reason, offline, waiting, processing"),
		limits: read("Huawei CloudEngine 8800 and 6800 V300R023C00 Configuration Guide, MQC Configuration: 2,048 classifiers, policies, and classifiers of a policy"),
		tpid:   read("Huawei CloudEngine 8800 and 6800 V300R023C00 Configuration Guide, Configuring the TPID Value in an Outer VLAN Tag: 0x8100, 0x9100 or 0x88a8, by interface"),
		jumbo:  read(ce + "jumboframe enable: longer frames that an interface receives are discarded, and what it sends is not looked at; 9216 bytes by default; undo jumboframe enable gives that back; not at members of an Eth-Trunk"),
	}
}

func (p *profile) traits() vendors.Traits {
	x := p.texts()
	t := vendors.Traits{
		Access:   vendors.That("SSH, the command line", read("scrapli/scrapligo assets/platforms/huawei_vrp.yaml")),
		MatchVID: vendors.That(vendors.MatchRange, x.match),
		MatchPCP: vendors.That(vendors.MatchExact, x.pcp),
		MatchDEI: vendors.That(vendors.MatchNone, x.match),
		Key:      vendors.That(vendors.KeyWire, assumed("a policy at the outbound direction matches the tags of the frame")),
		Stage:    vendors.That(vendors.StageEgress, x.stage),
		Sets:     vendors.That(vendors.Fields{vendors.FieldVID}, x.mark),
		Position: vendors.That(vendors.PositionOuter, x.tpid),
		VLANs:    vendors.That(0, x.tpid),
		VIDs:     vendors.That(vendors.VIDs{First: 1, Last: 4094}, x.match),
		Table:    vendors.That(vendors.Table{Sharers: "all ACLs and traffic policies of the chip's outbound stage"}, assumed("it is a TCAM, in which a range takes several entries (display acl division)")),
		Txn:      vendors.That(vendors.TxnEntry, x.edit),
		Revert:   vendors.That("", assumed("not used: OPS assistants are configuration, and start by the clock or by events, not by the absence of csig")),
		Survives: vendors.That(false, assumed("csig never saves the configuration; what an operator saves meanwhile comes back, and csig removes or takes it over")),

		TPIDs:      vendors.That(p.tpids, x.tpid),
		TPIDChange: vendors.That(tpidChange, x.tpid),
		VLANTPIDs:  vendors.That(vendors.TPIDList{qos.DefaultTPID}, x.tpid),

		Independent: vendors.That(false, assumed(outerTags)),
		Learning:    vendors.That(false, assumed(outerTags)),
		Routed:      vendors.That(false, assumed("a router ends the L2 header, tags included")),

		Strip:  vendors.That(vendors.StripNone, x.mark),
		Native: vendors.That("", assumed("no text mentions CSIG")),

		UpdateSource: assumed("the text has each command by itself (" + x.mark.From + "); that a chip does all of it at once is shown by a fake alone, with VRP's grammar and a data plane of nftables (vendors/vrp, TestEveryTag)"), WideSource: x.match, LeaseSource: assumed("no text mentions that configuration expires"),
	}
	t.PassthroughSource = assumed("a switch that does not know a TPID bridges the frame by what it knows")
	return t
}

// Offline returns what is known of a platform without a device at hand.
func Offline(platform string) func() vendors.Facts {
	return func() vendors.Facts { return profiles[platform].facts() }
}

func (p *profile) facts() vendors.Facts {
	x := p.texts()
	lines, reason := ceLines, untried+"; "+outerTags
	if p.name == SSeries {
		lines, reason = sLines, reason+"; "+sGap
	}
	f := vendors.Facts{
		Platform: p.name, Rules: Rules(), Traits: p.traits(), Unqualified: untried,
		Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: reason},
		ConfigUpdates: &vendors.ConfigUpdates{
			Interval: vendors.That(minInterval, assumed("no switch was measured; a change and its reports are about 20 commands")),
			Lines:    lines,
		},
		Wide:        vendors.Refusal("VLAN tags have 4 bytes: classifiers do not see the rest of a wide tag"),
		Strip:       vendors.Refusal(noStrip),
		Lease:       vendors.Refusal(noLease),
		Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "a frame whose outer TPID it does not know is an untagged frame to it (assumed)"},
		TagDepths: []vlanrules.Verdict{
			{Level: vlanrules.Degraded, Reason: untried},
			vendors.Refusal("the TPID of inner tags is 0x8100 here, which is no CSIG tag's: behind a VLAN tag it passes untouched"),
		},
		Notes: []string{
			"never saved: after a restart of the switch csig writes its policies again",
			"a tag with VID 4095 or 0 is matched by no classifier, and passes untouched (" + x.match.From + ")",
			"the order of classifiers: " + x.order.From,
			"an edit of an applied policy: " + x.edit.From,
			"counts: csig's behaviors have no statistic enable, and a port's policy is csig's alone, so that an edit disturbs no count of another user's; what it does to counts of classifiers that stay is not written anywhere",
			"what is in hardware: " + x.status.From,
			"capacity: " + x.limits.From + "; csig leaves at most 16 of each unused",
			"the TPID of outer tags is each port's own (qinq protocol): csig sets it at ports that update and have the default, and gives that back; another is refused; ports where tags come in, and which do not update, are the operator's",
			"the longest frame of a port is what display interface reports as The Maximum Frame Length, with L2 header and FCS (non-jumbo frames have 1518 bytes): csig sets it (jumboframe enable VALUE, 1536 at least) where a plan needs more, notes what was there, and gives that back; " + x.jumbo.From,
			"csig reads the running configuration, of which it keeps QoS objects and what concerns them at interfaces alone",
			"the hash of the profile is not recorded on the switch",
		},
	}
	if p.commits {
		f.Traits.Revert = vendors.That("commit trial … persist", read(ce+"commit, display configuration trial status: 60 to 65,535 s; csig confirms over a new login"))
		f.Notes = append(f.Notes, "without traffic-policy atomic-update-mode in system view, tags may pass untouched while a change is delivered: csig does not configure it")
	}
	return f
}

// Probe finds out what this switch can do, without changing it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := d.profile.facts()
	v, err := d.Look(ctx)
	if err != nil {
		return f, err
	}
	f.Identity = d.identity
	if d.profile.commits && !ownOf(v).atomic {
		f.Update.Reason += "; " + ceGap
	}
	for _, p := range v.Ports {
		if logical.MatchString(p.Name) {
			continue
		}
		f.Ports = append(f.Ports, p.Name)
		why := d.profile.portName(p.Name)
		if err := v.Foreign(p); why == "" && err != nil {
			why = err.Error()
		}
		if why != "" {
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.Name, Verdict: vendors.Refusal(why)})
		}
	}
	f.Rules.Ports = len(f.Ports)
	return f, nil
}

// logical are interfaces that send no frames of their own.
var logical = regexp.MustCompile(`^(Vlanif|NULL|LoopBack|MEth|Tunnel|Nve|Vbdif|Stack-Port)`)

var modelLine = regexp.MustCompile(`(?i)^Huawei (\S+)(?: .*)? uptime is `)

// identity is what `display version` reports; without a Version it is another software's.
func (p *profile) identity(lines []string) (id vendors.Identity) {
	id.Maker = "Huawei"
	for _, line := range lines {
		if m := p.version.FindStringSubmatch(line); m != nil {
			id.Version = untrusted.Text(m[2], 64)
		}
		if m := modelLine.FindStringSubmatch(line); m != nil && id.Model == "" {
			id.Model = untrusted.Text(m[1], 64)
		}
	}
	return id
}
