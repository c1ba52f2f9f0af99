package sonic

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vlanrules"
)

// portIssues finds what a TPID of csig's breaks of the ports' CONFIG_DB: ordinary VLANs,
// and classes of service by the PCP, which is the tag's T. What an aggregate
// has, its members have.
func (d *Driver) portIssues(ctx context.Context) ([]vendors.PortVerdict, error) {
	lags, err := d.members(ctx)
	if err != nil {
		return nil, err
	}
	var keys []string
	var cmds [][]string
	for _, table := range []string{"VLAN_MEMBER|", "VLAN_SUB_INTERFACE|", "PORT_QOS_MAP|"} {
		found, err := d.scan(ctx, sonicdb.Config, table)
		if err != nil {
			return nil, err
		}
		keys = append(keys, found...)
	}
	for _, k := range keys {
		cmds = append(cmds, []string{sonicdb.Config, "HGETALL", k})
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		return nil, err
	}
	tagged, untagged, subs, maps := map[string][]string{}, map[string][]string{}, map[string][]string{}, map[string][]string{}
	for i, k := range keys {
		parts := strings.Split(k, "|")
		switch table := parts[0]; {
		case table == "VLAN_MEMBER" && len(parts) == 3 && list[i]["tagging_mode"] == "tagged":
			tagged[parts[2]] = append(tagged[parts[2]], parts[1])
		case table == "VLAN_MEMBER" && len(parts) == 3:
			untagged[parts[2]] = append(untagged[parts[2]], parts[1])
		case table == "VLAN_SUB_INTERFACE":
			parent := parentOf(parts[1])
			if !slices.Contains(subs[parent], parts[1]) { // its addresses have rows, too
				subs[parent] = append(subs[parent], parts[1])
			}
		case table == "PORT_QOS_MAP" && list[i]["dot1p_to_tc_map"] != "":
			for port := range strings.SplitSeq(parts[1], ",") {
				maps[port] = append(maps[port], list[i]["dot1p_to_tc_map"])
			}
		}
	}
	var out []vendors.PortVerdict
	add := func(what map[string][]string, level vlanrules.Level, format string) {
		for _, name := range sortedKeys(what) {
			ports, who := []string{name}, "the port"
			if isAggregate(name) {
				ports, who = nil, name
				for _, p := range sortedKeys(lags) {
					if lags[p] == name {
						ports = append(ports, p)
					}
				}
			}
			slices.SortFunc(what[name], inventory.CompareNames)
			for _, p := range ports {
				out = append(out, vendors.PortVerdict{Port: p, Verdict: vlanrules.Verdict{Level: level, Reason: fmt.Sprintf(format, who, vendors.Names(what[name]))}})
			}
		}
	}
	add(tagged, vlanrules.Refused, "CONFIG_DB has %s tagged in %s, and with csig's TPID the port no longer understands these tags: take it out of them first (config vlan member del), or leave the port out")
	add(subs, vlanrules.Refused, "CONFIG_DB has sub-interfaces of %s (%s), and with csig's TPID the port no longer understands their tags: remove them first, or leave the port out")
	add(untagged, vlanrules.Degraded, "CONFIG_DB has %s untagged in %s: it is bridged, and a tagged frame's VLAN is its VID, which is the signal: such frames are dropped or change VLAN with the bucket (assumed); make it a routed port")
	add(maps, vlanrules.Degraded, "CONFIG_DB PORT_QOS_MAP gives %s dot1p_to_tc_map %s: the PCP is the tag's T, so that the signal chooses the class of service; take the map off this port")
	return out, nil
}

// parentOf is the port or aggregate of a sub-interface, whose short names are Eth0.10
// and Po7.10 (sonic-swss lib/subintf.cpp).
func parentOf(sub string) string {
	parent, _, _ := strings.Cut(sub, ".")
	for short, long := range map[string]string{"Eth": "Ethernet", "Po": aggregates} {
		if rest, ok := strings.CutPrefix(parent, short); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return long + rest
		}
	}
	return parent
}
