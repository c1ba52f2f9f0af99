package sonic

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// portIssues finds what a TPID of csig's breaks of the ports' CONFIG_DB: ordinary VLANs,
// and classes of service by the PCP, which is the tag's T. What an aggregate
// has, its members have.
func (d *Driver) portIssues(ctx context.Context, lags map[string]string) ([]vendors.PortVerdict, error) {
	tagged, untagged, subs, maps := map[string][]string{}, map[string][]string{}, map[string][]string{}, map[string][]string{}
	members, err := d.table(ctx, sonicdb.Config, "VLAN_MEMBER|")
	if err != nil {
		return nil, err
	}
	for key, fields := range members {
		switch vlan, port, ok := strings.Cut(key, "|"); {
		case !ok:
		case fields["tagging_mode"] == "tagged":
			tagged[port] = append(tagged[port], vlan)
		default:
			untagged[port] = append(untagged[port], vlan)
		}
	}
	keys, err := d.db.Scan(ctx, sonicdb.Config, "VLAN_SUB_INTERFACE|")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		name := strings.Split(key, "|")[1] // its addresses have rows, too
		if parent := parentOf(name); !slices.Contains(subs[parent], name) {
			subs[parent] = append(subs[parent], name)
		}
	}
	qos, err := d.table(ctx, sonicdb.Config, "PORT_QOS_MAP|")
	if err != nil {
		return nil, err
	}
	for ports, fields := range qos {
		for port := range strings.SplitSeq(ports, ",") {
			if name := fields["dot1p_to_tc_map"]; name != "" {
				maps[port] = append(maps[port], name)
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
