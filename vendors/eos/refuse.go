package eos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
)

// refuses are why a switch cannot have a setup as it is configured: *PermanentError of a
// port, or of all.
func (d *Driver) refuses(v *view, want *vendors.Setup) (list []error) {
	if len(want.Ports) == 0 {
		return nil
	}
	add := func(port, why string) {
		list = append(list, &vendors.PermanentError{Port: port, Err: errors.New(why)})
	}
	if err := d.cfg.Undeclared(want); err != nil {
		list = append(list, err)
	}
	if why := v.foreign(d.cfg.Priority); why != "" {
		list = append(list, &vendors.PermanentError{Err: &vendors.ForeignError{What: why}})
	}
	if !v.on {
		add("", "DirectFlow is shut down: configure directflow, no shutdown")
	}
	if missing := v.missingVLANs(); missing != "" {
		add("", "the VID of a CSIG tag is a VLAN to it, and a frame whose VLAN is not configured is dropped: configure vlan "+missing)
	}
	for i := range want.Ports {
		if why := d.cannotTag(v, &want.Ports[i], want.TPID); why != "" {
			add(want.Ports[i].Port, why)
		}
	}
	return list
}

// cannotTag is why a port, or one that its frames come in by, cannot have a TPID; "" where
// they can.
func (d *Driver) cannotTag(v *view, p *vendors.PortSetup, tpid uint16) string {
	if why := v.port(p.Port).issue(tpid, v.has(ofPort(tpidRecord, p.Port))); why != "" || p.Action != updates {
		return why
	}
	for j := range d.cfg.Forwarding {
		f := &d.cfg.Forwarding[j]
		if f.Port != p.Port {
			continue
		}
		if why := v.port(f.InPort).issue(tpid, v.has(ofPort(tpidRecord, f.InPort))); why != "" {
			return "the port that its frames come in by, " + f.InPort + ": " + why
		}
	}
	return ""
}

// portIssue is why a port cannot update, "" where it can.
func (d *Driver) portIssue(v *view, name string, tpid uint16) string {
	if why := d.cfg.undeclared(name); why != "" {
		return why
	}
	return v.port(name).issue(tpid, v.has(ofPort(tpidRecord, name)))
}

// issue is why a port cannot have CSIG's tags as VLAN tags of this TPID, "" where it can.
// Another TPID may go where csig has set it.
func (p *port) issue(tpid uint16, ours bool) string {
	switch {
	case p == nil:
		return "the switch has no such interface"
	case p.member != "":
		return "it is a member of Port-Channel" + p.member + ": name that"
	case !p.trunk:
		return "it is not a trunk: configure switchport mode trunk"
	case p.allowed != "" && p.allowed != "1-4094":
		return "it allows the VLANs " + p.allowed + ", and the VID of a CSIG tag is a VLAN to it: configure switchport trunk allowed vlan 1-4094"
	case p.native > 127:
		return fmt.Sprintf("its native VLAN is %s, and untagged frames would be taken for tags: configure one of 1 to 127 (S=0)", nativeName(p.native))
	case p.tpid != tpid && p.tpid != defaultTPID && !ours:
		return fmt.Sprintf("its TPID is 0x%04x, which csig has not set: configure no switchport dot1q ethertype", p.tpid)
	}
	return ""
}

func nativeName(n int) string {
	if n > 4094 {
		return "tagged"
	}
	return strconv.Itoa(n)
}

// missingVLANs are those that are not configured, as a list.
func (v *view) missingVLANs() string {
	var out []string
	for n := 1; n <= 4094; n++ {
		first := n
		for n <= 4094 && !v.vlans[n] {
			n++
		}
		switch {
		case n-first == 1:
			out = append(out, strconv.Itoa(first))
		case n > first:
			out = append(out, fmt.Sprintf("%d-%d", first, n-1))
		}
	}
	if len(out) > 8 {
		out = []string{"1-4094"}
	}
	return strings.Join(out, ",")
}

// foreign is an object that csig's cannot be beside, and what to do; "" for none.
func (v *view) foreign(priority uint16) string {
	if v.misnamed != "" {
		return "mac access-list " + v.misnamed + " has entries, and its name is csig's: rename it"
	}
	for _, name := range sorted(v.flows) {
		if _, ok := parseRule(name); ok {
			continue
		}
		if strings.HasPrefix(name, prefix) {
			return "flow " + name + " is not as csig writes one, and its name is csig's: rename it"
		}
		for _, line := range v.flows[name] {
			if n, ok := strings.CutPrefix(line, "priority "); ok {
				if got, err := strconv.Atoi(n); err != nil || got >= int(priority) {
					return fmt.Sprintf("flow %s has priority %s, and csig's have %d to %d: give it a lower one, or set management: {eos: {priority: N}}", name, n, priority, int(priority)+deadBand)
				}
			}
		}
	}
	return ""
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// tryMask finds out whether match vlan takes a mask, in a session of the configuration that is
// aborted: no text shows the syntax, and what cannot be had is not to be promised.
func (d *Driver) tryMask(ctx context.Context) error {
	if d.masked != nil {
		return nil
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	takes := true
	for _, line := range []string{"configure session " + sessionName(vendors.NewToken()), "directflow", "flow csig-try", "match vlan 128 0xf80"} {
		err := d.send(ctx, line)
		if refused := (*cli.RefusedError)(nil); errors.As(err, &refused) && strings.HasPrefix(line, "match") {
			takes = false
		} else if err != nil {
			if d.session.Err() == nil {
				err = errors.Join(err, d.send(ctx, "abort"))
			}
			return err
		}
	}
	if err := d.send(ctx, "abort"); err != nil {
		return err
	}
	d.masked = &takes
	return nil
}
