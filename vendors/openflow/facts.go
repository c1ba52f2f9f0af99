package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Rules is what csig's tables can express. Each message takes effect by itself.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true}
}

func degraded(why string) vlanrules.Verdict {
	return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: why}
}

const (
	unseenR   = "whether a rewritten tag keeps R (the DEI) depends on the switch"
	unseenTag = "a match sees the outermost tag, and no TPID: only frames without an ordinary VLAN tag may be handed over"
	anyTag    = "the outermost tag is removed, whatever its TPID: what holds for updates holds here, too"
)

// facts is what is so on every switch that keeps to OpenFlow 1.3.
func facts(platform string) vendors.Facts {
	f := vendors.Facts{
		Platform:    platform,
		Rules:       Rules(),
		AckWaits:    7, // barriers of the longest change: docs/openflow.md
		Traits:      traits(platform),
		Update:      degraded(unseenR + "; " + unseenTag),
		Strip:       degraded(anyTag),
		Wide:        vendors.Refusal("wide tags pass through untouched, and cannot be removed either: to OpenFlow their TPID is the ethertype of a frame without a tag, which no action takes away"),
		Lease:       degraded("it expires by whole seconds: one of less than a second is one, and a switch may look for what has expired only now and then"),
		Passthrough: degraded("only where the flows that choose the port do not match the tag: to them it is a VLAN's"),
		TagDepths: []vlanrules.Verdict{
			{},
			vendors.Refusal("behind a VLAN tag a CSIG tag is not seen, and that VLAN's tag would be rewritten in its place"),
		},
		Notes: []string{
			"flows of the operator choose the port, and hand frames over with write_metadata and goto_table: what goes to NORMAL passes none of csig's tables (" + docs.OpenFlow + ")",
			"nothing on the switch keeps two agents from programming it, where neither is MASTER: run one agent for each switch: csig agent's own lock holds on its machine alone",
		},
		Off: []string{"after csig off the flows of csig's first table that send on what is handed over stay, where the operator's flows still hand frames over there"},
	}
	ofPlatform(&f)
	return f
}

// Offline is what is known of the platform without a device at hand.
func Offline(platform string) vendors.Facts {
	f := facts(platform)
	f.Notes = append(f.Notes, "assumed from the platform, not probed: three tables in a row that match METADATA, VLAN_VID with a mask and VLAN_PCP, and set VLAN_VID")
	return f
}

// Probe finds out what this switch can do, without changing it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := facts(d.cfg.Platform)
	if err := d.connect(ctx); err != nil {
		return f, err
	}
	s, err := d.read(ctx, true)
	if err != nil {
		return f, err
	}
	if d.reported, err = d.conditions(ctx, s); err != nil {
		return f, err
	}
	return d.factsOf(ctx, s, d.reported)
}

// conditions are what of the switch decides what csig can do there.
type conditions struct {
	frames   vlanrules.Verdict // whether they come to csig's tables
	foreign  string            // what others have in csig's tables
	anyVLAN  string            // which flows may hand over ordinary VLANs
	stays    bool              // what Remove leaves is there after it
	features features
}

func (d *Driver) conditions(ctx context.Context, s *state) (c conditions, err error) {
	f, err := d.askFeatures(ctx)
	if err != nil {
		return c, err
	}
	tpid := s.setup.TPID
	if d.setup != nil {
		tpid = d.setup.TPID
	}
	p := s.pathOf(tpid)
	return conditions{p.verdict(s.base, d.cfg.OrdinaryVLANs), s.foreignNote(), p.takesVLANs(d.cfg.OrdinaryVLANs), s.stays(), *f}, nil
}

// same compares conditions, but for numbers in the reason that the next look may find
// otherwise.
func (c conditions) same(o conditions) bool {
	c.frames.Reason, o.frames.Reason = "", ""
	c.anyVLAN, o.anyVLAN = "", ""
	c.features.of, o.features.of = nil, nil
	return c == o
}

// factsOf is what the switch can do.
func (d *Driver) factsOf(ctx context.Context, s *state, c conditions) (vendors.Facts, error) {
	f := facts(d.cfg.Platform)
	if err := d.describe(ctx, &s.portNames, &f); err != nil {
		return f, err
	}
	if !c.stays {
		f.Off = nil
	}
	f.Rules.Entries, f.Rules.Shared = c.features.entries, c.features.entries > 0
	f.Notes = append(f.Notes, fmt.Sprintf("OpenFlow %s, datapath %#x, csig's tables %d to %d", d.of.Version, d.of.Datapath.ID, d.cfg.Table, d.cfg.Table+tables-1))
	if c.foreign != "" {
		f.Notes = append(f.Notes, c.foreign)
	}
	if d.of.AsyncRefused != nil {
		f.Notes = append(f.Notes, "the switch does not mask packet-ins for csig, which drops them")
	}
	for _, why := range []string{c.frames.Reason, c.anyVLAN, c.features.assumed} {
		if why != "" {
			f.Update.Reason += "; " + why
		}
	}
	var none string
	switch {
	case c.frames.Level == vlanrules.Refused:
		none = c.frames.Reason
	case c.features.problem != "":
		none = c.features.problem
	case d.cfg.OrdinaryVLANs == "":
		none = undeclared
	}
	if none != "" {
		f.Update, f.Strip, f.Lease = vendors.Refusal(none), vendors.Refusal(none), vendors.Refusal("there are no rules to expire: "+none)
		for i := range f.TagDepths {
			f.TagDepths[i] = vendors.Refusal(none)
		}
	} else if c.features.strip != "" {
		f.Strip = vendors.Refusal(c.features.strip)
	}
	return f, nil
}

// pathEvery is how often the operator's flows are read, to see whether frames still
// come to csig's tables.
const pathEvery = 30 * time.Second

// news tells an update what has become of the switch since that was told last. The
// state is one of all tables.
func (d *Driver) news(ctx context.Context, s *state, res *vendors.UpdateResult) error {
	now, err := d.conditions(ctx, s)
	if err != nil {
		return err
	}
	d.bypassed = nil
	if now.frames.Level == vlanrules.Refused {
		d.bypassed = errors.New(now.frames.Reason)
	}
	if now.same(d.reported) {
		return nil
	}
	f, err := d.factsOf(ctx, s, now)
	if err != nil {
		return err
	}
	f.Lease = facts(d.cfg.Platform).Lease // there are rules, and they do expire
	d.reported, res.Facts = now, &f
	return nil
}
