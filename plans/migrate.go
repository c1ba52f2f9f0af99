package plans

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A change of profile is a change of paths: every device between two hosts has
// to write and read tags alike (draft-00 §5.3.3), so that all of them change
// behind the fence. Where the TPID changes, hosts go on sending the old one for
// as long as their own change takes. Ports that face hosts strip both until
// every path is ready, and the old one for as long as the fleet file says.

// tpids lists, in the order of vendors.CompareTPIDs, the TPIDs that tags may
// have while the plan is carried out: those that devices have now, the next
// ones, and those of earlier profiles.
func (b *builder) tpids() []vendors.OtherTPID {
	all := map[vendors.OtherTPID]bool{}
	add := func(s *vendors.Setup) {
		if s.TPID != 0 {
			all[vendors.OtherTPID{TPID: s.TPID}] = true
		}
		if s.WideTPID != 0 {
			all[vendors.OtherTPID{TPID: s.WideTPID, Wide: true}] = true
		}
		for _, t := range s.Others {
			all[t] = true
		}
	}
	for i := range b.nodes {
		if n := &b.nodes[i]; n.seen.Err == nil {
			add(&n.seen.Setup)
			add(&n.want)
		}
	}
	return slices.SortedFunc(maps.Keys(all), vendors.CompareTPIDs)
}

// othersThan is a list of TPIDs without a setup's own.
func othersThan(s *vendors.Setup, list []vendors.OtherTPID) []vendors.OtherTPID {
	var out []vendors.OtherTPID
	for _, t := range list {
		if t.TPID != s.TPID && t.TPID != s.WideTPID {
			out = append(out, t)
		}
	}
	return out
}

// migration refuses what would let tags of two profiles mix.
func (b *builder) migration() {
	b.moving = b.tpids()
	if b.plan.Goal == RollOut {
		b.unlisted()
		b.mixed()
	}
}

// unlisted refuses a change of TPID after which no switch strips the old one:
// hosts send it until they are reconfigured, and receivers would take such a
// tag for one of a path that no switch updates.
func (b *builder) unlisted() {
	own := b.fleet.Profile.TPIDs()
	old := map[vendors.OtherTPID][]string{}
	faces := map[string][]string{} // devices whose hosts would get them, by why their platform cannot strip two
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.seen.Err != nil || n.level.Support == inventory.LevelDiscard {
			continue // no tag gets there
		}
		for _, t := range []vendors.OtherTPID{{TPID: n.seen.Setup.TPID}, {TPID: n.seen.Setup.WideTPID, Wide: true}} {
			if t.TPID != 0 && t.TPID != own.Compact && t.TPID != own.Wide && !slices.Contains(b.fleet.Policy.Retired, inventory.RetiredTPID(t)) {
				old[t] = append(old[t], n.dev.Name)
			}
		}
		if slices.ContainsFunc(n.dev.Ports, func(p inventory.Port) bool { return b.facesHost(&p) }) {
			why := ""
			if n.seen.NoDriver == "" && n.seen.Facts.Strip.Level != vlanrules.Refused && n.seen.Facts.Others == 0 {
				why = n.dev.Platform
			}
			faces[why] = append(faces[why], n.dev.Name)
		}
	}
	if len(old) == 0 || len(faces) == 0 {
		return
	}
	single := false
	for _, platform := range slices.Sorted(maps.Keys(faces)) {
		if platform != "" {
			single = true
			b.findFleet(findings.OneTPIDOnly, findings.Error, "the TPID changes, and hosts are at %s, whose platform %s strips one TPID at a time: have all hosts stop sending, take csig off with a plan of its own (csig plan --remove), and then roll the new profile out",
				vendors.Names(faces[platform]), platform)
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(old), vendors.CompareTPIDs) {
		if single {
			break // listing it would not help
		}
		key, now := "retired_tpids", own.Compact
		if t.Wide {
			key, now = "retired_wide_tpids", cmp.Or(own.Wide, own.Compact)
		}
		slices.SortFunc(old[t], inventory.CompareNames)
		b.findFleet(findings.TPIDNotRetired, findings.Error, "the TPID changes from 0x%04x, found on %s, to 0x%04x, and a host that still sends the old one would get its tags past every switch: "+
			"add %s: [0x%04x] to the profile, so that ports which face hosts keep stripping it, and remove it there once no host sends it",
			t.TPID, vendors.Names(old[t]), now, key, t.TPID)
	}
}

// facesHost reports whether no device of the fleet is known to be at a port's
// other end.
func (b *builder) facesHost(p *inventory.Port) bool {
	_, device := b.index[p.Peer.Device]
	return !device
}

// canStripOthers refuses more TPIDs at once than a platform strips.
func (b *builder) canStripOthers(n *node, s *vendors.Setup, why string) {
	if len(s.Others) <= n.seen.Facts.Others || !s.Strips() || n.seen.Facts.Strip.Level == vlanrules.Refused { // which canStrip has said
		return
	}
	can := fmt.Sprintf("%d beside the domain's own", n.seen.Facts.Others)
	next := "take those that no host sends any more out of the profile's retired_tpids"
	if n.seen.Facts.Others == 0 {
		can = "the domain's own only"
		next = "have all hosts stop sending, take csig off with a plan of its own (csig plan --remove), and then roll the new profile out without retired_tpids"
	}
	b.find(findings.TooManyTPIDs, findings.Error, n, nil, "it has to strip tags of %s beside 0x%04x (%s), and can strip %s: %s", vendors.TPIDNames(s.Others), s.TPID, why, can, next)
}

// mixed refuses to change the profile around devices that csig does not change.
func (b *builder) mixed() {
	now := b.fleet.Profile.Hash()
	changed := map[string][]string{} // devices, by the profile that they had
	for i := range b.nodes {
		if n := &b.nodes[i]; n.seen.Err == nil && n.seen.Setup.Profile != "" && n.seen.Setup.Profile != now && !n.want.Nothing() {
			changed[n.seen.Setup.Profile] = append(changed[n.seen.Setup.Profile], n.dev.Name)
		}
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.level.Support != inventory.LevelNative || !n.want.Nothing() || !b.onPath(n) {
			continue
		}
		has := n.dev.Level.Profile
		if has == "" && n.seen.Err == nil {
			has = n.seen.Setup.Profile // as the device tells
		}
		switch {
		case has != "" && !strings.HasPrefix(now, has):
			b.find(findings.ProfilesMixed, findings.Error, n, nil, "mixed profiles: the device compares and replaces natively for profile %s, and the fleet's is %s: configure it for that one, then say so (level: {is: native, profile: %s}), or give it another level until then",
				vendors.ShortProfile(has), vendors.ShortProfile(now), now[:12])
		case has == "" && len(changed) > 0:
			old := slices.Sorted(maps.Keys(changed))
			b.find(findings.ProfilesMixed, findings.Error, n, nil, "mixed profiles: the profile changes from %s to %s, and csig does not manage this device: configure it for the new one, then say so (level: {is: native, profile: %s}), or give it another level until then",
				vendors.ShortProfile(old[0]), vendors.ShortProfile(now), now[:12])
		}
	}
}

// onPath reports whether tags may cross a device: whether another device of the
// fleet is at one of its links.
func (b *builder) onPath(n *node) bool {
	return slices.ContainsFunc(n.dev.Ports, func(p inventory.Port) bool {
		j, device := b.index[p.Peer.Device]
		return device && b.nodes[j].level.Support != inventory.LevelDiscard
	})
}

// retired says where tags of retired TPIDs get through to hosts, because csig
// does not drive the device.
func (b *builder) retired(n *node) {
	if len(b.fleet.Policy.Retired) == 0 || n.level.Support == inventory.LevelDiscard || !n.want.Nothing() || b.plan.Goal != RollOut {
		return
	}
	var ports []string
	for i := range n.dev.Ports {
		if p := &n.dev.Ports[i]; p.StripRetired && !(p.Peer == inventory.Peer{}) {
			ports = append(ports, p.Name)
		}
	}
	if len(ports) == 0 {
		return
	}
	var list []vendors.OtherTPID
	for _, t := range b.fleet.Policy.Retired {
		list = append(list, vendors.OtherTPID(t))
	}
	b.find(findings.RetiredNotStrip, findings.Error, n, ports, "hosts get tags of %s here: csig sets nothing up on a device of level %s; have it strip them by itself and then say strip_retired: false for the port, or take them out of the profile once no host sends them", vendors.TPIDNames(list), n.level.Support)
}
