package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
)

// fleetResult is a whole fleet as JSON. Secrets are the places where they are.
type fleetResult struct {
	Format      string         `json:"format"`
	File        string         `json:"file"`
	Hash        string         `json:"hash"`
	Profile     string         `json:"profile"`
	ProfileHash string         `json:"profile_hash"`
	TPID        uint16         `json:"tpid"`
	WideTPID    uint16         `json:"wide_tpid"`
	Retired     []uint16       `json:"retired_tpids"`
	RetiredWide []uint16       `json:"retired_wide_tpids"`
	Layout      string         `json:"layout"`
	IntervalNS  int64          `json:"interval_ns"`
	OnStale     string         `json:"on_stale"`
	Schedule    string         `json:"schedule"`
	Devices     []deviceResult `json:"devices"`
	Hosts       []fleetHost    `json:"hosts"`
}

type deviceResult struct {
	Name         string                      `json:"name"`
	Platform     string                      `json:"platform"`
	Local        bool                        `json:"local"`
	Address      string                      `json:"address"`
	Level        string                      `json:"level"`
	LevelReason  string                      `json:"level_reason"`
	Facts        string                      `json:"facts"` // "" for none
	Experimental bool                        `json:"experimental"`
	Updates      inventory.Updates           `json:"updates"` // "" for none that is named
	Lease        inventory.Lease             `json:"lease"`
	Tags         []string                    `json:"tags"`
	Management   []string                    `json:"management"`
	Counters     string                      `json:"counters"`
	IntervalNS   int64                       `json:"interval_ns"`
	Schedule     string                      `json:"schedule"`
	Ports        []fleetPort                 `json:"ports"`
	Origins      map[string]inventory.Origin `json:"origins,omitempty"`
}

type fleetPort struct {
	Name     string                      `json:"name"`
	Speed    uint64                      `json:"speed_bps"`
	Override bool                        `json:"overrides_device"` // it is the capacity, whatever the device reports
	MTU      int                         `json:"mtu_bytes"`
	Action   string                      `json:"action"`
	Strip    bool                        `json:"strip_retired"`
	LM       map[string]uint16           `json:"lm"`
	Locator  map[string]string           `json:"locator"`
	Peer     string                      `json:"peer"`
	Origins  map[string]inventory.Origin `json:"origins,omitempty"`
}

type fleetHost struct {
	Name string `json:"name"`
	MTU  int    `json:"mtu_bytes"`
	CSIG bool   `json:"csig"`
}

// newFleetResult shows a fleet, or one device of it.
func newFleetResult(f *inventory.Fleet, only string, resolved bool) fleetResult {
	out := fleetResult{
		Format: "csig.inventory/v1", File: f.Path, Hash: f.Hash(), Profile: f.Profile.Name, ProfileHash: f.Profile.Hash(),
		TPID: f.Profile.TPID, WideTPID: f.Profile.WideTPID, Layout: f.Profile.Layout.String(),
		IntervalNS: f.Profile.Interval.Nanoseconds(), OnStale: string(f.Policy.OnStale), Schedule: f.Policy.Schedule,
		Devices: []deviceResult{}, Hosts: []fleetHost{}, Retired: []uint16{}, RetiredWide: []uint16{},
	}
	for _, r := range f.Policy.Retired {
		if r.Wide {
			out.RetiredWide = append(out.RetiredWide, r.TPID)
		} else {
			out.Retired = append(out.Retired, r.TPID)
		}
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		if only != "" && d.Name != only {
			continue
		}
		one := deviceResult{
			Name: d.Name, Platform: d.Platform, Local: d.Local, Address: d.Address, Level: d.Level.Support.String(), LevelReason: d.Level.Reason, Updates: d.Updates, Lease: d.Lease,
			Tags: append([]string{}, d.Tags...), Management: managementText(&d.Management), Counters: device.SourceName(d),
			IntervalNS: d.Interval.Nanoseconds(), Schedule: d.Schedule, Ports: make([]fleetPort, 0, len(d.Ports)),
		}
		if one.Experimental = d.Experimental; d.Facts != nil {
			one.Facts = d.Facts.Name
		}
		if resolved {
			one.Origins = f.DeviceOrigins(d.Name)
		}
		for j := range d.Ports {
			p := &d.Ports[j]
			port := fleetPort{
				Name: p.Name, Speed: p.Speed, Override: p.SpeedOverride, MTU: p.MTU, Action: p.Action.String(), Strip: p.StripRetired, Peer: p.Peer.String(),
				LM: make(map[string]uint16), Locator: make(map[string]string),
			}
			for sig, lm := range p.LM {
				port.LM[sig.String()] = lm
				port.Locator[sig.String()] = f.Profile.Signals[sig].Locator.Text(f.Profile.Layout.LMBits(), lm)
			}
			if resolved {
				port.Origins = f.PortOrigins(inventory.PortRef{Device: d.Name, Port: p.Name})
			}
			one.Ports = append(one.Ports, port)
		}
		out.Devices = append(out.Devices, one)
	}
	for _, h := range f.Hosts {
		out.Hosts = append(out.Hosts, fleetHost{h.Name, h.MTU, h.CSIG})
	}
	return out
}

// managementText returns how csig reaches a device, a line for each way.
func managementText(m *inventory.Management) []string {
	out := []string{}
	if s := m.SSH; s != nil {
		how := []string{}
		if s.Key != "" {
			how = append(how, "key "+s.Key)
		}
		if s.Agent {
			how = append(how, "agent")
		}
		if !s.Password.IsZero() {
			how = append(how, "password "+s.Password.String())
		}
		if s.Sudo != nil {
			sudo := "sudo"
			if !s.Sudo.Password.IsZero() {
				sudo += " with password " + s.Sudo.Password.String()
			}
			how = append(how, sudo)
		}
		out = append(out, fmt.Sprintf("ssh %s, port %d, %s", s.User, s.Port, strings.Join(how, ", ")))
	}
	if d := m.Daemon; d != nil {
		if d.Socket != "" {
			out = append(out, "daemon "+d.Socket)
		} else {
			out = append(out, fmt.Sprintf("daemon, port %d with TLS", d.Port))
		}
	}
	return out
}

// printResolved prints each value with where it comes from.
func printResolved(w io.Writer, f *inventory.Fleet, only string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(indent, key, value string, from map[string]inventory.Origin, origin string) {
		if o, ok := from[origin]; ok {
			fmt.Fprintf(t, "%s%s\t%s\t%s\n", indent, key, value, o)
		}
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		if only != "" && d.Name != only {
			continue
		}
		from := f.DeviceOrigins(d.Name)
		row("", "device", d.Name, from, "name")
		row("  ", "platform", d.Platform, from, "platform")
		if d.Local {
			row("  ", "local", "true", from, "local")
		}
		row("  ", "address", d.Address, from, "address")
		for _, text := range managementText(&d.Management) {
			kind, _, _ := strings.Cut(strings.ReplaceAll(text, ",", " "), " ")
			row("  ", "management", text, from, "management: "+kind)
		}
		level := d.Level.Support.String()
		if d.Level.Reason != "" {
			level += ": " + d.Level.Reason
		}
		row("  ", "level", level, from, "level")
		if d.Facts != nil {
			row("  ", "facts", d.Facts.Name, from, "facts")
		}
		if d.Experimental {
			row("  ", "experimental", "true", from, "experimental")
		}
		if d.Updates != "" {
			row("  ", "updates", string(d.Updates), from, "updates")
		}
		if d.Lease != "" {
			row("  ", "lease", string(d.Lease), from, "lease")
		}
		for _, key := range slices.Sorted(maps.Keys(from)) {
			if tag, ok := strings.CutPrefix(key, "tags: "); ok {
				row("  ", "tags", tag, from, key)
			}
		}
		row("  ", "interval", d.Interval.String(), from, "interval")
		row("  ", "schedule", d.Schedule, from, "schedule")
		row("  ", "estimator", string(d.Estimator.Method), from, "estimator")
		row("  ", "counters", device.SourceName(d), from, "counters")
		for j := range d.Ports {
			p := &d.Ports[j]
			from := f.PortOrigins(inventory.PortRef{Device: d.Name, Port: p.Name})
			row("  ", "port", p.Name, from, "name")
			row("    ", "speed", p.SpeedText(), from, "speed")
			row("    ", "mtu", fmt.Sprint(p.MTU), from, "mtu")
			row("    ", "action", p.Action.String(), from, "action")
			for _, sig := range carried(f) {
				if lm, ok := p.LM[sig]; ok {
					row("    ", sig.String()+" lm", locatorText(f, sig, lm), from, "lm")
				}
			}
			row("    ", "peer", p.Peer.String(), from, "peer")
		}
	}
	return t.Flush()
}
