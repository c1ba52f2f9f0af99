package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/linux"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// machinePorts lists this machine's network devices, those that can be egress
// ports and those that cannot, with the reason.
func machinePorts() ([]machinePort, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing this machine's network devices: %w", err)
	}
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
	}
	roots := map[int]string{}
	qdiscs, err := netlink.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("listing this machine's queueing disciplines: %w", err)
	}
	for _, q := range qdiscs {
		if q.Attrs().Parent != netlink.HANDLE_ROOT {
			continue
		}
		roots[q.Attrs().LinkIndex] = q.Type()
		if t, ok := q.(*netlink.Tbf); ok {
			roots[q.Attrs().LinkIndex] = fmt.Sprintf("tbf at %s", bps(8*t.Rate))
		}
	}
	out := []machinePort{}
	for _, l := range links {
		a := l.Attrs()
		if a.EncapType == "loopback" {
			continue
		}
		p := machinePort{Name: a.Name, Kind: l.Type(), Up: a.OperState == netlink.OperUp, MTU: a.MTU, Qdisc: roots[a.Index]}
		master := ""
		if m := byIndex[a.MasterIndex]; m != nil && a.MasterIndex != 0 {
			master = m.Type()
			if master == "bridge" {
				p.Bridge = m.Attrs().Name
			}
		}
		p.Excluded = excluded(&p, a.EncapType, master)
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b machinePort) int { return inventory.CompareNames(a.Name, b.Name) })
	return out, nil
}

// excluded returns why a network device is no egress port to measure, "" for one
// that is.
func excluded(p *machinePort, encap, master string) string {
	switch {
	case strings.ContainsAny(p.Name, "[]") || strings.ContainsFunc(p.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "fleet files cannot have its name: ip link set … name gives it another"
	case encap != "ether":
		return "it is not Ethernet (" + encap + ")"
	case p.Kind == "bridge":
		return "it is a bridge: its ports are what is measured"
	case p.Kind == "bond" || p.Kind == "team":
		return "it is a link aggregate, whose sum does not show a member that is full: its members are what is measured"
	case p.Kind == "vlan" || p.Kind == "macvlan" || p.Kind == "macvtap" || p.Kind == "ipvlan":
		return "its frames leave through the device below it"
	case p.Kind == "device" || p.Kind == "veth" || p.Bridge != "" || master == "bond" || master == "team":
		return ""
	}
	return "it is virtual (" + p.Kind + ") and in no bridge"
}

// machineFacts asks this machine's kernel, and reads back what csig has there.
func machineFacts(ctx context.Context) (vendors.Facts, vendors.Setup, error) {
	d, err := all.Open("linux", vendors.Config{})
	if err != nil {
		return vendors.Facts{}, vendors.Setup{}, err
	}
	defer d.Close()
	facts, err := d.Probe(ctx)
	if err != nil {
		return facts, vendors.Setup{}, err
	}
	setup, err := d.Observe(ctx)
	return facts, setup, err
}

// portFacts adds to the ports what their counters' source found out.
func portFacts(ports []machinePort, src counters.Source) {
	s, ok := src.(*linux.Source)
	if !ok {
		return
	}
	facts := map[string]linux.Facts{}
	for _, f := range s.Facts() {
		facts[f.Port] = f
	}
	for i := range ports {
		p := &ports[i]
		f, ok := facts[p.Name]
		if !ok {
			continue
		}
		p.Speed, p.SpeedFrom, p.Counter = f.Speed, f.SpeedFrom, f.Counter
		p.Notes = append(p.Notes, f.Notes...)
		if f.Degraded != "" {
			p.Notes = append(p.Notes, f.Degraded)
		}
	}
}
