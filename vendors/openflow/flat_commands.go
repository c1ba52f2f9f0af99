package openflow

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// FlatCommands is what Commands is, of a switch with one table. Groups of OF-DPA stand
// with what they do.
func FlatCommands(cfg FlatConfig, have, want vendors.Setup) ([]byte, error) {
	changes, err := FlatDiff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	ports := newPortNames(nil) // with numbers that stand for the ports'
	add := func(port string) {
		if n := uint32(len(ports.names) + 1); port != "" && ports.number[port] == 0 {
			ports.number[port], ports.names[n] = n, port
		}
	}
	for i := range cfg.Forwarding {
		add(cfg.Forwarding[i].InPort)
		add(cfg.Forwarding[i].Port)
	}
	for i := range want.Ports {
		add(want.Ports[i].Port)
	}
	forwards, err := resolve(cfg.Forwarding, &ports)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	cfg = cfg.complete()
	f := newFlat(cfg.Table, cfg.Priority, cfg.OFDPA, &want, forwards)
	stale, err := f.stale()
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# csig's flows are those whose cookie begins with %#x, in table %d; %s at most\n", uint64(cookie)>>32, cfg.Table, f.entries())
	for _, fl := range f.record(ports.number) {
		_, n := isNowhere(&fl.Match)
		conditions := fmt.Sprintf("eth_src=%02x:%02x:%02x:%02x:%02x:%02x", 0x03, 'c', 's', 'i', 'g', fl.Match.Else[len(fl.Match.Else)-1])
		if n && fl.Match.InPort != 0 {
			conditions = "in_port=" + placeholder(ports.names[fl.Match.InPort]) + "," + conditions
		}
		fmt.Fprintf(&b, "cookie=%#x,table=%d,priority=%d,%s,actions=drop\n", fl.Cookie, fl.Table, fl.Priority, conditions)
	}
	for i := range forwards {
		w := &forwards[i]
		if want.ActionOf(w.Port) != vlanrules.Update {
			continue
		}
		for _, c := range stale {
			fmt.Fprintf(&b, "cookie=%#x,table=%d,priority=%d%s,vlan_vid=%#04x/%#04x,vlan_pcp=%d,actions=%s\n", uint64(cookie), cfg.Table, cfg.Priority,
				w.conditions(), ofp.VLANPresent|c.match.Value, ofp.VLANPresent|c.match.Mask, c.signal, f.actionText(w.Port, c))
		}
	}
	return b.Bytes(), nil
}

func placeholder(port string) string {
	return "{" + strings.NewReplacer("{", "", "}", "").Replace(port) + "}"
}

// conditions are those of a forwarding flow as ovs-ofctl(8) writes them.
func (f *Forwarding) conditions() (text string) {
	if f.IPDst != "" {
		text += ",ip,nw_dst=" + f.IPDst
	}
	if f.EthDst != "" {
		text += ",eth_dst=" + f.EthDst
	}
	if f.InPort != "" {
		text += ",in_port=" + placeholder(f.InPort)
	}
	return text
}

func (f *flat) actionText(port string, c cover) string {
	out, set := placeholder(port), ""
	if c.rewrite {
		set = fmt.Sprintf("set_field:%#x->vlan_vid,", ofp.VLANPresent|c.vid)
	}
	if f.ofdpa {
		return fmt.Sprintf("clear_actions,write_actions(group:{L2 Rewrite: %sgroup:{L2 Unfiltered Interface of %s}})", set, strings.Trim(out, "{}"))
	}
	return set + "output:" + out
}
