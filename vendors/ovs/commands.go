package ovs

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

// Commands is a shell script that does by ovs-ofctl what Apply(want) does on the
// bridge of cfg that Observe finds to be have: for a person to read, or to carry
// out on the switch, as root. It needs no device. The lease is the agent's and no
// part of it, nor is what the bridge alone knows, of which it says what is
// missing: flows that join patch ports, and those of tables that csig had before.
func Commands(cfg Config, have, want vendors.Setup) ([]byte, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	changes, err := Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	pipe, err := newPipeline(cfg.Table, &want)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# csig's flows are those of cookie %#x in tables %d to %d; those that hand\n# frames over ("+docs.OVS+") are no part of this, nor those that join patch ports with\n# external_ids:csig-port, which csig apply and csig agent write\n", uint64(cookie), cfg.Table, cfg.Table+tables-1)
	if have.Damaged != "" {
		fmt.Fprintf(&b, "# ~ what csig apply repairs besides, as far as it is not in these tables: %s\n", strings.ReplaceAll(have.Damaged, "\n", " "))
	}
	b.WriteString("set -eu\n")
	if cfg.RunDir != DefaultRunDir {
		fmt.Fprintf(&b, "export OVS_RUNDIR=%s\n", quoted(cfg.RunDir))
	}
	numbers := map[string]uint32{}
	for i, p := range want.Ports {
		// A number that stands for a shell variable, and is no port's.
		numbers[p.Port] = placeholder + uint32(i)
		fmt.Fprintf(&b, "p%d=$(ovs-vsctl get Interface %s ofport)\n", i, quoted(p.Port))
	}
	fmt.Fprintf(&b, "ovs-ofctl -O OpenFlow14 bundle %s - <<END\n", quoted(cfg.Bridge))
	for t := range tables {
		fmt.Fprintf(&b, "flow delete table=%d,cookie=%#x/-1\n", int(cfg.Table)+t, uint64(cookie))
	}
	fmt.Fprintf(&b, "group add_or_mod group_id=%d,type=indirect,bucket=%s\n", groupID, pipe.group().Buckets[0].Text())
	flows := pipe.shared()
	for _, p := range want.Ports {
		flows = append(flows, pipe.port(numbers[p.Port], p.Action, false)...)
	}
	for i := range flows {
		fmt.Fprintf(&b, "flow add %s\n", flowText(&flows[i]))
	}
	b.WriteString("END\n")
	return b.Bytes(), nil
}

// quoted is a word as a shell reads it.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

const placeholder = 0xf0000000

// flowText is a flow as ovs-ofctl(8) takes it.
func flowText(f *ofp.Flow) string {
	parts := []string{fmt.Sprintf("cookie=%#x,table=%d,priority=%d", f.Cookie, f.Table, f.Priority)}
	m := &f.Match
	if m.InPort != 0 {
		parts = append(parts, fmt.Sprintf("in_port=%s", number(m.InPort)))
	}
	if m.EthType != 0 {
		parts = append(parts, fmt.Sprintf("dl_type=0x%04x", m.EthType))
	}
	tci, mask := m.VID, m.VIDMask
	if m.MatchPCP {
		tci, mask = tci|uint16(m.PCP)<<13, mask|7<<13
	}
	if mask != 0 {
		parts = append(parts, fmt.Sprintf("vlan_tci=0x%04x/0x%04x", tci, mask))
	}
	for r, v := range m.Regs {
		switch v.Mask {
		case 0:
		case 0xffffffff:
			parts = append(parts, fmt.Sprintf("reg%d=%s", r, number(v.Value)))
		default:
			parts = append(parts, fmt.Sprintf("reg%d=%#x/%#x", r, v.Value, v.Mask))
		}
	}
	if m.Mark.Mask != 0 {
		parts = append(parts, fmt.Sprintf("pkt_mark=%#x/%#x", m.Mark.Value, m.Mark.Mask))
	}
	return strings.Join(parts, ",") + ",actions=" + cmp.Or(f.Actions.Text(), "drop")
}

// number is a port's number, or the shell variable that holds it.
func number(v uint32) string {
	if v >= placeholder && v < ofp.PortMax {
		return fmt.Sprintf("${p%d}", v-placeholder)
	}
	return fmt.Sprintf("%#x", v)
}
