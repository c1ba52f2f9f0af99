package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Rules is what csig's flow tables can express. A bundle takes every change at
// once.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnTable, Modify: true, ModifyEntry: true}
}

func degraded(why string) vlanrules.Verdict {
	return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: why}
}

const losesR = "tagged frames leave with R (the DEI) 0: Open vSwitch keeps the bit for itself"

const leaks = "a tag with an MPLS header behind it, one in front of a VLAN tag or behind two, and of two behind a VLAN tag both, are not stripped"

// facts is what is so on every Open vSwitch.
func facts() vendors.Facts {
	update := degraded(losesR)
	return vendors.Facts{
		Platform: "ovs",
		Rules:    Rules(),
		Traits:   traits(),
		Update:   update,
		Strip:    degraded(leaks),
		Wide:     vendors.Refusal("wide tags pass through untouched, and cannot be removed either, as those of TPIDs other than 0x88a8: to Open vSwitch their TPID is the ethertype of a frame without a tag, which no action takes away (ovs-actions(7))"),
		Lease:    degraded("it expires by whole seconds: one of less than a second is one, and the switch looks once a second, so that ports fall back up to two seconds later than they should; and while ovsdb-server is away ovs-vswitchd expires no flow, so that a datapath that goes on without it (the kernel's, DPDK's) keeps the last values"),
		TagDepths: []vlanrules.Verdict{
			{}, // as Update
			degraded(losesR + "; that of the VLAN tag in front, too, rewritten or not"),
			vendors.Refusal("behind two VLAN tags a tag is not seen: it passes untouched"),
		},
		Notes: []string{
			"no match sees a TPID: at ports that update or strip a frame with an ordinary VLAN's tag is parsed twice more, one with a CSIG tag three times, and one with a CSIG tag behind another four times, until it is known which it is, and to a patch port the first and the last of these once more; the userspace datapath drops a frame that is to be parsed more than six times more (eight since Open vSwitch 3.3, five in 2.8), those of conntrack and bonds included (openvswitch/ovs lib/dpif-netdev.c, MAX_RECIRC_DEPTH)",
			"R, or a VLAN's DEI, is lost where the tag is rewritten, and where the userspace datapath has a kernel's device for a port in every outermost tag that arrives there, with csig or without (openvswitch/ovs lib/packets.c, eth_push_vlan)",
			"a tag with an MPLS header behind it passes untouched",
			"one process programs a bridge at a time, by a lock of ovsdb-server (RFC 7047, §4.1.8): a second agent of the same bridge is refused",
			"after a change frames may have the old value until ovs-vswitchd is through with its cache, about twice the dump duration of ovs-appctl upcall/show: 81 ms at the most in 200 changes with 2,400 cached flows (" + docs.OVS + ")",
		},
	}
}

// Offline is what the platform promises without a device at hand.
func Offline() vendors.Facts {
	f := facts()
	f.Notes = append(f.Notes, "assumed from the platform, not probed: Open vSwitch 2.8 or newer with vlan-limit 1, and a bridge whose frames come to csig's tables with their egress port chosen ("+docs.OVS+")")
	return f
}

func limitReason(limit int) string {
	return fmt.Sprintf("other_config:vlan-limit is %d: what tells a CSIG tag from an ordinary VLAN's needs it to be 1, which is also the default: ovs-vsctl remove Open_vSwitch . other_config vlan-limit, and restart ovs-vswitchd", limit)
}

// Probe finds out what this bridge can do, without changing it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := facts()
	if err := d.connect(ctx); err != nil {
		return f, err
	}
	if err := d.look(ctx); err != nil {
		return f, err
	}
	s, err := d.read(ctx, true)
	if err != nil {
		return f, err
	}
	d.said = d.conditions(s)
	f = d.factsOf(s, d.said)
	return f, nil
}

// conditions are what of the bridge decides what csig can do there.
type conditions struct {
	frames        vlanrules.Verdict // whether they come to csig's tables
	path          pathKind
	passthrough   vlanrules.Verdict
	patches       string // what is wrong with those that name ports; "" where nothing is, as below
	tags          string // where those of CSIG's TPID come from that are not CSIG's
	recirculation string // what happens to frames in other bridges
	foreign       string // that csig's tables have foreign flows
}

func (d *Driver) conditions(s *state) conditions {
	c := conditions{
		passthrough: d.passthrough(s), patches: strings.Join(d.patchProblems(s), "; "),
		tags: strings.Join(d.foreignPushes(s), "; "), recirculation: d.recirculationLimits(s),
	}
	if n := len(s.foreign); n > 0 && s.found {
		c.foreign = fmt.Sprintf("csig's tables have flows that are not csig's, and csig leaves alone (%d; the first is in %s)", n, s.foreign[0].Where())
	}
	c.frames, c.path = d.framePath(s)
	return c
}

// same compares conditions, but for numbers in the reason that the next look may find
// otherwise.
func (c conditions) same(o conditions) bool {
	c.frames.Reason, o.frames.Reason = "", ""
	return c == o
}

// factsOf is what the bridge can do.
func (d *Driver) factsOf(s *state, c conditions) vendors.Facts {
	f := facts()
	f.Identity = vendors.Identity{Model: "Open vSwitch", Version: d.info.version}
	f.Notes = append(f.Notes, fmt.Sprintf("Open vSwitch %s, bridge %s, datapath %s", cmp.Or(d.info.version, "of a version that its database does not tell"), d.cfg.Bridge, cmp.Or(d.info.datapath, "system")))
	if c.foreign != "" {
		f.Notes = append(f.Notes, c.foreign)
	}
	f.Ports = slices.Sorted(maps.Keys(s.ports))
	f.Off = d.leftVLANs()
	f.Passthrough = c.passthrough
	v := c.frames
	if v.Level != vlanrules.Refused && c.passthrough.Level == vlanrules.Refused {
		v = c.passthrough
	}
	switch v.Level {
	case vlanrules.Refused:
		f.Update, f.Strip, f.Lease = v, v, vendors.Refusal("there are no rules to expire: "+v.Reason)
		for i := range f.TagDepths {
			f.TagDepths[i] = v
		}
		return f
	case vlanrules.Degraded:
		f.Update.Reason += "; " + v.Reason
		f.Strip.Reason += "; " + v.Reason
	}
	for _, why := range []string{c.passthrough.Reason, c.patches, c.tags, c.recirculation} {
		if why != "" {
			f.Update.Reason += "; " + why
		}
	}
	for _, why := range []string{c.tags, c.recirculation} {
		if why != "" {
			f.Strip.Reason += "; " + why
		}
	}
	return f
}

// news tells an update what has become of the bridge since it was told last, and
// is why no frame comes to csig's tables any more, nil where they do. The state is
// one of all tables.
func (d *Driver) news(s *state, res *vendors.UpdateResult) error {
	now := d.conditions(s)
	if !now.same(d.said) {
		f := d.factsOf(s, now)
		always := facts()
		f.Lease, f.TagDepths = always.Lease, always.TagDepths // there are rules, and they do expire
		d.said, res.Facts = now, &f
	}
	if now.frames.Level == vlanrules.Refused {
		return errors.New(now.frames.Reason)
	}
	return nil
}

// pathKind is how frames come to csig's tables, or why they do not.
type pathKind int

// The ways, of which a bridge has the first that holds.
const (
	handedOver pathKind = iota
	limited             // it parses more tags than it may
	switches            // by itself
	elsewhere           // to tables that csig had before
	direct              // to ports, bypassing csig's tables
	opaque              // perhaps to ports
	notYet              // no flow hands frames over
	standalone          // to csig's tables, on a bridge of csig's that has a NORMAL as well
)

// framePath says which way frames take through the bridge.
func (d *Driver) framePath(s *state) (vlanrules.Verdict, pathKind) {
	if d.info.vlanLimit != 1 {
		return vendors.Refusal(limitReason(d.info.vlanLimit)), limited
	}
	return d.flowsPath(s)
}

// flowsPath reports whether frames leave the bridge without coming to csig's tables.
func (d *Driver) flowsPath(s *state) (vlanrules.Verdict, pathKind) {
	handed, partners := false, map[uint32]bool{}
	for name := range d.info.partner {
		number := d.partnerOf(s, name)
		handed = handed || number != 0 && s.ports[name].Number != 0
		partners[number] = true
	}
	f, idle := d.normal(s)
	if f != nil {
		next := "put csig's bridge between it and its ports (" + docs.OVS + ")"
		if d.info.isOwn() {
			next = "it is csig's own, and is to forward by csig's flows: delete that one"
		}
		return vendors.Refusal(fmt.Sprintf("bridge %s switches by itself (a flow of %s outputs to NORMAL, FLOOD or ALL), and what it sends out so passes no table: %s",
			d.cfg.Bridge, f.Where(), next)), switches
	}
	moves := s.found && s.at != d.cfg.Table
	past, hidden := 0, 0
	var first *ofp.Flow
	for i := range s.others {
		f := &s.others[i]
		e := f.Actions.EffectsWith(s.groups)
		if moves && (slices.Contains(e.Resubmits, s.at) || f.Goes && f.Goto == s.at) {
			return vendors.Refusal(fmt.Sprintf("bridge %s: csig's tables are to begin at %d, and flows still hand frames to table %d, where they begin now (one is in %s): add table=%d,priority=0,actions=output:NXM_NX_REG15[] and have those flows hand over to table %d first, or leave table at %d ("+docs.OVS+")",
				d.cfg.Bridge, d.cfg.Table, s.at, f.Where(), d.cfg.Table, d.cfg.Table, s.at)), elsewhere
		}
		for _, t := range e.Resubmits {
			handed = handed || t == d.cfg.Table
		}
		handed = handed || f.Goes && f.Goto == d.cfg.Table
		for _, to := range e.Ports {
			if to < ofp.PortMax && !partners[to] {
				past++
				first = f
			}
		}
		if e.Opaque || !f.Plain() {
			hidden++
		}
	}
	switch {
	case past > 0:
		return degraded(fmt.Sprintf("%d flows of bridge %s send frames to ports without handing them to table %d (one is in %s): their tags are not updated ("+docs.OVS+")",
			past, d.cfg.Bridge, d.cfg.Table, first.Where())), direct
	case hidden > 0:
		return degraded(fmt.Sprintf("%d flows of bridge %s may send frames out in ways that csig does not look into (registers, learned flows)", hidden, d.cfg.Bridge)), opaque
	case !handed:
		return degraded(fmt.Sprintf("no flow of bridge %s hands frames to table %d yet ("+docs.OVS+")", d.cfg.Bridge, d.cfg.Table)), notYet
	case d.info.isOwn() && d.info.failMode != "secure":
		return degraded(fmt.Sprintf("the fail_mode of bridge %s, which is csig's own, is %s: with a controller set it may leave csig's flows aside, and forwards nothing then: ovs-vsctl set-fail-mode %s secure ("+docs.OVS+")",
			d.cfg.Bridge, cmp.Or(d.info.failMode, "not set, which is standalone"), d.cfg.Bridge)), standalone
	case idle != nil:
		return degraded(fmt.Sprintf("bridge %s is csig's own, and has a flow that outputs to NORMAL (priority %d, cookie %#x), which forwards nothing there: delete it", d.cfg.Bridge, idle.Priority, idle.Cookie)), standalone
	}
	return vlanrules.Verdict{}, handedOver
}
