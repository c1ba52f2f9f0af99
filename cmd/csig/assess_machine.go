package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// machineResult is what assess finds out about the machine it runs on.
type machineResult struct {
	Format      string                 `json:"format"`
	Name        string                 `json:"name"`
	Level       string                 `json:"level"`
	Reason      string                 `json:"reason"`
	Update      vlanrules.Verdict      `json:"update"` // compare-and-replace in the nftables egress hook
	Wide        vlanrules.Verdict      `json:"wide"`
	Strip       vlanrules.Verdict      `json:"strip"` // in tcx
	Lease       vlanrules.Verdict      `json:"lease"`
	TagDepths   []vlanrules.Verdict    `json:"tag_depths"` // of tags behind 0, 1, … VLAN tags
	Setup       string                 `json:"setup"`      // what csig has there already
	Ports       []machinePort          `json:"ports"`
	Readings    int                    `json:"readings"`
	ReadP50NS   int64                  `json:"read_p50_ns"` // how long reading all counters takes
	ReadMaxNS   int64                  `json:"read_max_ns"`
	Refresh     counters.RefreshStatus `json:"refresh"`
	ShortestNS  int64                  `json:"shortest_interval_ns"`
	Limitations []string               `json:"limitations"`
	Notes       []string               `json:"notes"`
}

// machinePort is a network device of this machine.
type machinePort struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`   // as the kernel calls it: "device", "veth", …
	Bridge    string   `json:"bridge"` // that it is a port of
	Up        bool     `json:"up"`
	MTU       int      `json:"mtu_bytes"`
	Speed     uint64   `json:"speed_bps"` // bit/s; 0: the kernel does not know
	SpeedFrom string   `json:"speed_from"`
	Qdisc     string   `json:"qdisc"` // at the root: who shapes
	Counter   string   `json:"counter"`
	Excluded  string   `json:"excluded"` // why it is no egress port; "" for one that is
	Notes     []string `json:"notes"`
}

func runAssessMachine(cmd *cobra.Command, o *assessOptions) error {
	res, fleet, err := assessMachine(cmd.Context(), o)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	switch {
	case o.json:
		return printJSON(w, res)
	case o.init:
		if fleet == nil {
			return fmt.Errorf("this machine has no network device that can be an egress port: run it on the switch; csig assess lists what there is")
		}
		text, err := initFile(res)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, text)
		return err
	}
	return res.write(w, newScreen(w).columns())
}

// assessMachine looks at this machine. The fleet is nil where it has no ports.
func assessMachine(ctx context.Context, o *assessOptions) (*machineResult, *inventory.Fleet, error) {
	ports, err := machinePorts()
	if err != nil {
		return nil, nil, err
	}
	res := &machineResult{
		Format: "csig.assess-machine/v1", Name: machineName(), Ports: ports, Limitations: []string{}, Notes: []string{}, TagDepths: []vlanrules.Verdict{},
	}
	for i := range ports {
		ports[i].Notes = []string{}
	}
	probing, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	facts, setup, err := machineFacts(probing)
	if err != nil {
		return nil, nil, err
	}
	res.facts(&facts, &setup)
	if len(res.egress()) == 0 {
		return res, nil, nil
	}
	// The counters are read as an agent would, with a first fleet file that
	// leaves the speeds to the kernel.
	text, err := initFile(res)
	if err != nil {
		return nil, nil, err
	}
	fleet, err := inventory.Parse("this machine", []byte(text))
	if err != nil {
		return nil, nil, err
	}
	if o.readings == 0 {
		return res, fleet, nil
	}
	src, err := device.OpenSource(ctx, &fleet.Profile, &fleet.Devices[0], o.every)
	if err != nil {
		return nil, nil, fmt.Errorf("this machine's counters: %w", err)
	}
	defer src.Close()
	read, err := readCounters(ctx, fleet, &fleet.Devices[0], src, o.every, o.readings)
	if err != nil {
		return nil, nil, err
	}
	res.Readings = read.Readings - read.Failed
	res.ReadP50NS, res.ReadMaxNS, res.Refresh, res.Limitations = read.ReadP50NS, read.ReadMaxNS, read.Refresh, read.Limitations
	// An unknown refresh is no short one.
	if read.Refresh.Kind == counters.RefreshLive || read.Refresh.Period > 0 {
		res.ShortestNS = max(read.ShortestNS, inventory.MinPeriod.Nanoseconds())
	}
	portFacts(ports, src)
	return res, fleet, nil
}

func (r *machineResult) facts(facts *vendors.Facts, setup *vendors.Setup) {
	level := plans.LevelOf(&inventory.Device{}, facts, 0x9900) // as --init writes it
	r.Level, r.Reason = level.Support.String(), level.Reason
	r.Update, r.Wide, r.Strip, r.Lease = facts.Update, facts.Wide, facts.Strip, facts.Lease
	r.TagDepths = append(r.TagDepths, facts.TagDepths...)
	r.Notes = append(r.Notes, facts.Notes...)
	switch {
	case setup.Damaged != "":
		r.Setup = "damaged: " + setup.Damaged
	case len(setup.Ports) == 0:
		r.Setup = "nothing of csig"
	default:
		var names []string
		for _, p := range setup.Ports {
			names = append(names, p.Port)
		}
		r.Setup = fmt.Sprintf("TPID 0x%04x on %s", setup.TPID, vendors.Names(names))
	}
}

// egress lists the ports that the fleet file is to have: those of bridges,
// where there are any, and else all that can be.
func (r *machineResult) egress() []*machinePort {
	var out, bridged []*machinePort
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Excluded == "" {
			out = append(out, p)
			if p.Bridge != "" {
				bridged = append(bridged, p)
			}
		}
	}
	if len(bridged) > 0 {
		return bridged
	}
	return out
}

// machineName is this machine's name, as a device of a fleet may be called.
func machineName() string {
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	name, _, _ = strings.Cut(name, ".")
	name = strings.TrimLeft(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name), "-_")
	if name == "" {
		return "switch"
	}
	return name[:min(len(name), 63)]
}

func (r *machineResult) write(w io.Writer, columns int) error {
	fmt.Fprintf(w, "%s: %s", r.Name, wrap("level "+r.Level+suffix(": ", r.Reason), columns-len(r.Name)-2, 2))
	row := func(what, text string) { fmt.Fprintf(w, "  %-20s  %s", what, wrapFrom(text, columns, 24)) }
	row("update (nft egress)", abilityText(r.Update))
	row("strip (tcx)", abilityText(r.Strip))
	row("lease", abilityText(r.Lease))
	row("wide tags", abilityText(r.Wide))
	for n, c := range r.TagDepths {
		if c != r.Update {
			row(fmt.Sprintf("behind %d VLAN tags", n), abilityText(c))
		}
	}
	row("there already", r.Setup)
	if r.Readings > 0 {
		row("counters", refreshText(&r.Refresh))
		row("", fmt.Sprintf("reading all takes %v (median), %v at most", micros(r.ReadP50NS), micros(r.ReadMaxNS)))
		shortest := "not known: " + refreshText(&r.Refresh)
		if r.ShortestNS > 0 {
			shortest = time.Duration(r.ShortestNS).Round(10 * time.Microsecond).String()
		}
		row("shortest honest Δt", shortest)
	}
	if len(r.egress()) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "PORT\tKIND\tBRIDGE\tLINK\tSPEED\tFROM\tMTU\tQDISC\tCOUNTER")
		for i := range r.Ports {
			p := &r.Ports[i]
			if p.Excluded != "" {
				continue
			}
			speed := "?"
			if p.Speed > 0 {
				speed = bps(p.Speed)
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Name, p.Kind, orDash(p.Bridge), map[bool]string{true: "up", false: "down"}[p.Up],
				speed, orDash(p.SpeedFrom), p.MTU, orDash(p.Qdisc), orDash(p.Counter))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(w, "\nNo network device of this machine can be an egress port.")
	}
	var notes []findings.Finding
	put := func(name, text string) {
		notes = append(notes, findings.Finding{Ports: []string{name}, Reason: text})
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		if p.Excluded != "" {
			put(p.Name, "left out: "+p.Excluded)
			continue
		}
		for _, n := range p.Notes {
			put(p.Name, n)
		}
		if p.Speed == 0 && r.Readings > 0 {
			put(p.Name, "the kernel does not know its speed: give it in the fleet file")
		}
	}
	if len(notes)+len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, f := range findings.Merge(notes) {
		fmt.Fprint(w, wrap(f.String(), columns, 2))
	}
	for _, n := range r.Notes {
		fmt.Fprint(w, wrap("note: "+n, columns, 2))
	}
	_, err := fmt.Fprintf(w, "\nA fleet file for it: csig assess --init > %s.yaml\n", r.Name)
	return err
}
