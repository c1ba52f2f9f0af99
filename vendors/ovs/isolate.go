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

// vlanKey is the key of a port's external_ids where csig records the VLAN that it
// gave the port, and what the port had before.
const vlanKey = "csig-vlan"

// vlanOf is what NORMAL goes by of a port; mode "" and no tag are a port without.
type vlanOf struct {
	mode string
	tag  []int
}

func (v vlanOf) same(o vlanOf) bool { return v.mode == o.mode && slices.Equal(v.tag, o.tag) }

func (v vlanOf) String() string {
	text := cmp.Or(v.mode, "-") + "/-"
	if len(v.tag) > 0 {
		text = fmt.Sprintf("%s/%d", cmp.Or(v.mode, "-"), v.tag[0])
	}
	return text
}

func parseVLAN(text string) (v vlanOf, ok bool) {
	mode, tag, ok := strings.Cut(text, "/")
	if mode != "-" {
		v.mode = mode
	}
	if tag != "-" {
		n, err := strconv.ParseUint(tag, 10, 12)
		v.tag, ok = []int{int(n)}, ok && err == nil
	}
	return v, ok && mode != ""
}

// row is v as columns of a row in Port.
func (v vlanOf) row() map[string]any {
	row := map[string]any{"vlan_mode": []any{"set", []string{}}, "tag": []any{"set", v.tag}}
	if v.mode != "" {
		row["vlan_mode"] = v.mode
	}
	if v.tag == nil {
		row["tag"] = []any{"set", []int{}}
	}
	return row
}

func (p *portRow) vlan() vlanOf { return vlanOf{string(p.Mode), p.Tag} }

// given is the VLAN that csig gave the port, and what it had before; ok tells
// whether csig did.
func (p *portRow) given() (made, before vlanOf, ok bool) {
	one, other, ok := strings.Cut(p.External[vlanKey], " was ")
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
		made, before := vlanOf{"access", []int{vlan}}, p.vlan()
		if last, first, ok := p.given(); ok && before.same(last) {
			before = first
		}
		ops = append(ops, p.change(map[string]string{vlanKey: made.String() + " was " + before.String()}), p.update(made))
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
		if _, is := p.External[vlanKey]; !is {
			continue
		}
		ops = append(ops, p.change(nil))
		if made, before, ok := p.given(); ok && p.vlan().same(made) {
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

// change replaces the record; it has to come before update.
func (p *portRow) change(record map[string]string) any {
	m := [][3]any{{"external_ids", "delete", []any{"set", []string{vlanKey}}}}
	for k, v := range record {
		m = append(m, [3]any{"external_ids", "insert", []any{"map", [][2]string{{k, v}}}})
	}
	return mutateOp{Op: "mutate", Table: "Port", Where: p.where(), Mutations: m}
}

var errNotOwner = errors.New("the bridge's lock is not ours")

// change carries operations out, all or none, where the bridge's lock is ours.
func (d *database) change(bridge string, ops []any) error {
	result, err := d.call("transact", append([]any{"Open_vSwitch", map[string]string{"op": "assert", "lock": lockName(bridge)}}, ops...)...)
	if err != nil {
		return err
	}
	var got []struct {
		Error   printable `json:"error"`
		Details printable `json:"details"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("the database's answer: %w", err)
	}
	for _, g := range got {
		switch {
		case g.Error == "not owner":
			return errNotOwner
		case g.Error != "":
			return fmt.Errorf("the database refuses: %s (%s)", g.Error, g.Details)
		}
	}
	return nil
}

// keepsVLANs tells whether the ports keep their VLANs when csig goes: a bridge that
// may switch by NORMAL would send frames round without them.
func (i *bridgeInfo) keepsVLANs() bool { return i.isOwn() && i.failMode != "secure" }

// leftVLANs says what of the ports' VLANs Remove does not give back.
func (d *Driver) leftVLANs() []string {
	var made, changed []string
	for _, p := range d.info.ports {
		if _, is := p.External[vlanKey]; !is {
			continue
		}
		if given, _, ok := p.given(); ok && p.vlan().same(given) {
			made = append(made, string(p.Name))
		} else {
			changed = append(changed, string(p.Name))
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
