package ovs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// A bridge of csig's own has two ports for each port of the bridge behind it. If
// it switched by NORMAL, as Open vSwitch has it do where fail_mode is not secure
// and its flows are gone, every frame would go round through the patch ports. So
// each of its ports is an access port of a VLAN that no other has: NORMAL forwards
// nothing then, and flows that name a port are not concerned
// (ovs-vswitchd.conf.db(5), Port, VLAN Configuration). Unlike "protected", that
// stops no output of a flow's (ofproto-dpif-xlate.c, xlate_flow_is_protected).
// Remove takes it back by what vlanKey records.

// maxVLAN is the last VID that a port can have.
const maxVLAN = 4094

// isolation gives the ports of a bridge VLANs so that each is alone in its own.
// It has no entry for those that are.
func isolation(ports []*portRow) (map[*portRow]int, error) {
	taken := map[int]bool{}
	var loose []*portRow
	slices.SortFunc(ports, func(a, b *portRow) int { return slices.Compare(a.ID, b.ID) })
	for _, p := range ports {
		if v := p.vlan(); v.mode == "access" && v.tag > 0 && v.tag <= maxVLAN && !taken[v.tag] {
			taken[v.tag] = true
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

// vlanKey is the key of a port's external_ids where csig records the VLAN that it
// gave the port, and what the port had before.
const vlanKey = "csig-vlan"

// vlanOf is what NORMAL goes by of a port; mode "" and noTag are a port without.
type vlanOf struct {
	mode string
	tag  int
}

const noTag = -1

func (v vlanOf) String() string {
	tag := "-"
	if v.tag != noTag {
		tag = strconv.Itoa(v.tag)
	}
	return cmp.Or(v.mode, "-") + "/" + tag
}

func parseVLAN(text string) (v vlanOf, ok bool) {
	mode, tag, ok := strings.Cut(text, "/")
	v = vlanOf{mode, noTag}
	if mode == "-" {
		v.mode = ""
	}
	if tag != "-" {
		n, err := strconv.ParseUint(tag, 10, 12)
		v.tag, ok = int(n), ok && err == nil
	}
	return v, ok && mode != ""
}

// row is v as columns of a row in Port.
func (v vlanOf) row() map[string]any {
	row := map[string]any{"vlan_mode": []any{"set", []string{}}, "tag": []any{"set", []int{}}}
	if v.mode != "" {
		row["vlan_mode"] = v.mode
	}
	if v.tag != noTag {
		row["tag"] = v.tag
	}
	return row
}

// given is the VLAN that csig gave the port, and what it had before; ok tells
// whether csig did.
func (p *portRow) given() (made, before vlanOf, ok bool) {
	one, other, ok := strings.Cut(p.External.get(vlanKey), " was ")
	made, isMade := parseVLAN(one)
	before, isBefore := parseVLAN(other)
	return made, before, ok && isMade && isBefore
}

// isolate writes what isolation says. It does nothing unless the bridge's lock is
// ours.
func (d *database) isolate(bridge string, vlans map[*portRow]int) error {
	if len(vlans) == 0 {
		return nil
	}
	var ops []any
	for p, vlan := range vlans {
		made, before := vlanOf{"access", vlan}, p.vlan()
		if last, first, ok := p.given(); ok && before == last {
			before = first
		}
		ops = append(ops, p.note(made.String()+" was "+before.String()), p.update(made))
	}
	if err := d.change(bridge, ops); err != nil && !errors.Is(err, errNotOwner) {
		return fmt.Errorf("giving each port of bridge %s a VLAN of its own: %w", bridge, err)
	}
	return nil
}

// restore takes back what isolate wrote, but where the port has other values by
// now.
func (d *database) restore(bridge string, ports []*portRow) error {
	var ops []any
	for _, p := range ports {
		if p.External.get(vlanKey) == "" {
			continue
		}
		ops = append(ops, p.note(""))
		if made, before, ok := p.given(); ok && p.vlan() == made {
			ops = append(ops, p.update(before))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	if err := d.change(bridge, ops); err != nil {
		return fmt.Errorf("giving the ports of bridge %s the VLANs back that they had: %w", bridge, err)
	}
	return nil
}

// where is the row as it was read: one that was changed since is left alone.
func (p *portRow) where() [][3]any {
	w := [][3]any{{"_uuid", "==", []string{"uuid", p.ID.one()}}}
	for column, value := range p.vlan().row() {
		w = append(w, [3]any{column, "==", value})
	}
	return w
}

func (p *portRow) update(to vlanOf) any {
	return map[string]any{"op": "update", "table": "Port", "where": p.where(), "row": to.row()}
}

// note replaces the record, "" by none; it has to come before update.
func (p *portRow) note(record string) any { return external("Port", p.where(), vlanKey, record) }

// external has a row's external_ids say something, "" nothing, under a key.
func external(table string, where [][3]any, key, value string) any {
	m := [][3]any{{"external_ids", "delete", []any{"set", []string{key}}}}
	if value != "" {
		m = append(m, [3]any{"external_ids", "insert", []any{"map", [][2]string{{key, value}}}})
	}
	return map[string]any{"op": "mutate", "table": table, "where": where, "mutations": m}
}

var errNotOwner = errors.New("the bridge's lock is not ours")

// change carries operations out, all or none, where the bridge's lock is ours.
func (d *database) change(bridge string, ops []any) error {
	result, err := d.call("transact", append([]any{"Open_vSwitch", map[string]string{"op": "assert", "lock": lockName(bridge)}}, ops...)...)
	if err != nil {
		return err
	}
	var got []struct {
		Error   values `json:"error"`
		Details values `json:"details"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("the database's answer: %w", err)
	}
	for _, g := range got {
		switch {
		case g.Error.one() == "not owner":
			return errNotOwner
		case g.Error != nil:
			return fmt.Errorf("the database refuses: %s (%s)", g.Error.one(), g.Details.one())
		}
	}
	return nil
}

// keepsVLANs reports whether the ports keep their VLANs when csig goes: a bridge that
// may switch by NORMAL would send frames round without them.
func (i *bridgeInfo) keepsVLANs() bool { return i.isOwn() && i.failMode != "secure" }

// leftVLANs says what of the ports' VLANs Remove does not give back.
func (d *Driver) leftVLANs() []string {
	var made, changed []string
	for _, p := range d.info.ports {
		if p.External.get(vlanKey) == "" {
			continue
		}
		if given, _, ok := p.given(); ok && p.vlan() == given {
			made = append(made, p.Name.one())
		} else {
			changed = append(changed, p.Name.one())
		}
	}
	slices.Sort(made)
	slices.Sort(changed)
	var out []string
	if len(made) > 0 && d.info.keepsVLANs() {
		out = append(out, fmt.Sprintf("fail_mode of bridge %s is not secure, so that it would send frames round once its flows are lost: csig off leaves each port in a VLAN of its own (%s) until ovs-vsctl set-fail-mode %s secure and another csig off",
			d.cfg.Bridge, vendors.Names(made), d.cfg.Bridge))
	}
	if len(changed) > 0 {
		out = append(out, fmt.Sprintf("vlan_mode and tag of %s were changed after csig had set them: csig off leaves them as they are", vendors.Names(changed)))
	}
	return out
}
