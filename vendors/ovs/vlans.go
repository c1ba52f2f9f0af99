package ovs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// normalVLANs is what NORMAL does with frames that come to a port with CSIG's tags,
// which to it are VLANs (ovs-vswitchd.conf.db(5), Port, vlan_mode).
type normalVLANs int

const (
	bridges   normalVLANs = iota // in the port's own VLAN, whatever their tags are
	separates                    // each value of the tag in a VLAN of its own
	discards                     // some of them, or all
)

// portRow is what the database has about a port.
type portRow struct {
	ID         values `json:"_uuid"`
	Name       values `json:"name"`
	Interfaces values `json:"interfaces"`
	Mode       values `json:"vlan_mode"`
	Tag        values `json:"tag"`
	Trunks     values `json:"trunks"`
	CVLANs     values `json:"cvlans"`
	Other      values `json:"other_config"`
	External   values `json:"external_ids"`
}

// vlan is what NORMAL goes by of the port.
func (p *portRow) vlan() vlanOf {
	tag, err := strconv.Atoi(p.Tag.one())
	if err != nil {
		tag = noTag
	}
	return vlanOf{p.Mode.one(), tag}
}

// outer is the VLAN whose tag NORMAL puts in front of what comes to the port, of
// TPID 0x88a8; 0: none.
func (p *portRow) outer() int {
	v := p.vlan()
	if v.mode != "dot1q-tunnel" || v.tag == noTag || p.Other.get("qinq-ethtype") == "802.1q" {
		return 0
	}
	return v.tag
}

// tags reports whether frames of a VLAN leave the port with its tag.
func (p *portRow) tags(vlan int) bool {
	switch v := p.vlan(); {
	case v.mode == "dot1q-tunnel", v.mode == "access", v.mode == "" && v.tag != noTag, v.mode == "native-untagged" && v.tag == vlan:
		return false
	default:
		return len(p.Trunks) == 0 || v.tag == vlan || slices.Contains(p.Trunks, strconv.Itoa(vlan))
	}
}

// peersPushingCSIG says which of the far ends of patches put tags of CSIG's TPID on that
// leave by others; "" where none do.
func peersPushingCSIG(far map[string]*portRow) string {
	var from, by []string
	for _, name := range slices.Sorted(maps.Keys(far)) {
		vlan := far[name].outer()
		for _, other := range slices.Sorted(maps.Keys(far)) {
			if vlan != 0 && far[other].tags(vlan) {
				from, by = append(from, name), append(by, other)
				break
			}
		}
	}
	if from == nil {
		return ""
	}
	return fmt.Sprintf("at the far end of the patch ports %s put a tag of 0x88a8 in front of what comes there (vlan_mode=dot1q-tunnel), with which it leaves by %s and is CSIG's tag to this switch: ovs-vsctl set port PORT other_config:qinq-ethtype=802.1q",
		vendors.Names(from), vendors.Names(slices.Compact(by)))
}

// foreignPushes says who puts tags of CSIG's TPID on that are none of CSIG's.
func (d *Driver) foreignPushes(s *state) []string {
	var out []string
	if why := peersPushingCSIG(d.info.beyond); why != "" {
		out = append(out, why)
	}
	for i := range s.others {
		f := &s.others[i]
		if slices.Contains(f.Actions.EffectsWith(s.groups).Pushes, tpidCSIG) {
			out = append(out, fmt.Sprintf("flows of bridge %s put tags of 0x88a8 on (one is in %s), which are CSIG's to this switch: push_vlan:0x8100 puts on those of VLANs", d.cfg.Bridge, f.Where()))
			break
		}
	}
	return out
}

func (p *portRow) normalVLANs() normalVLANs {
	switch v := p.vlan(); {
	case v.mode == "dot1q-tunnel" && len(p.CVLANs) == 0:
		return bridges
	case v.mode == "dot1q-tunnel", v.mode == "access", v.mode == "" && v.tag != noTag, len(p.Trunks) > 0:
		return discards
	}
	return separates
}

// normal is a flow by which the bridge switches by itself, nil where there is none;
// idle one that would, if it were not for csig's own, which take the frames of
// joined ports before it does.
func (d *Driver) normal(s *state) (met, idle *ofp.Flow) {
	for i := range s.others {
		f := &s.others[i]
		for _, to := range f.Actions.EffectsWith(s.groups).Ports {
			switch {
			case to != ofp.PortNormal && to != ofp.PortFlood && to != ofp.PortAll:
			case to == ofp.PortNormal && d.info.isOwn() && f.Table == 0 && f.Priority < priorityHook:
				idle = f
			default:
				return f, idle
			}
		}
	}
	return nil, idle
}

// passthrough reports whether frames with tags come through where NORMAL switches them:
// on the bridge itself, or on those that the far ends of its patch ports belong to.
func (d *Driver) passthrough(s *state) vlanrules.Verdict {
	ports, whose := slices.Collect(maps.Values(d.info.beyond)), "at the far end of the patch ports "
	if met, _ := d.normal(s); met != nil && !d.info.isOwn() {
		ports, whose = d.info.ports, ""
		ports = slices.DeleteFunc(slices.Clone(ports), func(p *portRow) bool { return p.Name.one() == d.cfg.Bridge })
	}
	slices.SortFunc(ports, func(a, b *portRow) int { return cmp.Compare(a.Name.one(), b.Name.one()) })
	var lost, apart []string
	for _, p := range ports {
		name := p.Name.one()
		switch p.normalVLANs() {
		case discards:
			lost = append(lost, name)
		case separates:
			apart = append(apart, name)
		}
	}
	const tunnel = "; ovs-vsctl set port PORT vlan_mode=dot1q-tunnel tag=VLAN has it bridge them in one VLAN whatever their tags are (" + docs.OVS + ")"
	switch {
	case len(lost) > 0:
		v := degraded(fmt.Sprintf("%s%s discard frames that come with CSIG's tags: NORMAL has no tag come in at an access port (tag, or vlan_mode=access), and none beside those of trunks and cvlans"+tunnel, whose, vendors.Names(lost)))
		if len(lost) == len(ports) {
			v.Level = vlanrules.Refused
		}
		return v
	case len(apart) > 0 && whose == "":
		return degraded(vendors.Names(apart) + " are trunks of all VLANs, and to NORMAL each value of a tag is a VLAN of its own, in which addresses are learned again" + tunnel)
	}
	return vlanrules.Verdict{}
}
