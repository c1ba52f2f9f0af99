package ovs

import (
	"fmt"
	"slices"
)

// A bridge of csig's own has two ports for each port of the bridge behind it. If
// it switched by NORMAL, as Open vSwitch has it do where fail_mode is not secure
// and its flows are gone, every frame would go round through the patch ports. So
// each of its ports is an access port of a VLAN that no other has: NORMAL forwards
// nothing then, and flows that name a port are not concerned
// (ovs-vswitchd.conf.db(5), Port, VLAN Configuration). Unlike "protected", that
// stops no output of a flow's (ofproto-dpif-xlate.c, xlate_flow_is_protected).

// maxVLAN is the last VID that a port can have.
const maxVLAN = 4094

// isolation gives the ports of a bridge VLANs so that each is alone in its own.
// It has no entry for those that are.
func isolation(ports []*portRow) (map[*portRow]int, error) {
	taken := map[int]bool{}
	var loose []*portRow
	slices.SortFunc(ports, func(a, b *portRow) int { return slices.Compare(a.ID, b.ID) })
	for _, p := range ports {
		if p.Mode == "access" && len(p.Tag) == 1 && p.Tag[0] > 0 && p.Tag[0] <= maxVLAN && !taken[p.Tag[0]] {
			taken[p.Tag[0]] = true
			continue
		}
		loose = append(loose, p)
	}
	out := map[*portRow]int{}
	next := 1
	for _, p := range loose {
		for taken[next] {
			next++
		}
		if next > maxVLAN {
			return nil, fmt.Errorf("the bridge has %d ports, and csig's own needs a VLAN for each, of which there are %d: share them out over several bridges", len(ports), maxVLAN)
		}
		taken[next], out[p] = true, next
	}
	return out, nil
}

// isolate writes what isolation says. It does nothing unless the bridge's lock is
// ours.
func (d *database) isolate(bridge string, vlans map[*portRow]int) error {
	if len(vlans) == 0 {
		return nil
	}
	ops := []any{"Open_vSwitch", map[string]string{"op": "assert", "lock": lockName(bridge)}}
	for p, vlan := range vlans {
		ops = append(ops, map[string]any{
			"op": "update", "table": "Port",
			"where": [][3]any{{"_uuid", "==", []string{"uuid", p.ID.one()}}},
			"row":   map[string]any{"vlan_mode": "access", "tag": vlan},
		})
	}
	if _, err := d.call("transact", ops...); err != nil {
		return fmt.Errorf("giving each port of bridge %s a VLAN of its own: %w", bridge, err)
	}
	return nil
}
