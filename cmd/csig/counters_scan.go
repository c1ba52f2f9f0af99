package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// scanResult is what a device says of itself, as JSON.
type scanResult struct {
	Format      string          `json:"format"`
	Target      string          `json:"target"`
	Protocol    string          `json:"protocol"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	UptimeNS    *int64          `json:"uptime_ns"` // null where the device does not tell
	Interfaces  []scanInterface `json:"interfaces"`
	Neighbors   []scanNeighbor  `json:"neighbors"`
	Notes       []string        `json:"notes"`
	Error       string          `json:"error"` // why the listing is not complete; "" where it is
}

type scanInterface struct {
	Index      uint32   `json:"ifindex"` // 0 where the device does not tell
	Name       string   `json:"name"`
	Alias      string   `json:"alias"`
	SpeedBPS   *uint64  `json:"speed_bps"`
	OperStatus string   `json:"oper_status"`
	Wide       []string `json:"counters_64_bit"`
	Uses       []string `json:"uses"` // what csig would read; [] where it cannot
	Note       string   `json:"note"`
}

type scanNeighbor struct {
	Port     string `json:"port"`
	System   string `json:"system"`
	Chassis  string `json:"chassis"`
	PeerPort string `json:"peer_port"`
	PeerText string `json:"peer_port_description"`
}

func newCountersScan() *cobra.Command {
	var (
		t      targetFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "scan TARGET",
		Short: "List the interfaces of a device that is in no fleet file",
		Long: `Ask a device by SNMP or gNMI, as snmpwalk and gnmic would, and list what it is, its
interfaces with their speed and status, which 64-bit counters each has, what csig
would read of it, and its LLDP neighbours. Nothing is changed on the device.

TARGET is HOST, HOST:PORT or [ADDRESS]:PORT; ports are 161 and, of gNMI, 9339.

Arguments can be seen by all users of a machine: write env:NAME or file:PATH instead
of a community, passphrase or password. A file must not be readable by others.

An answer that ends early is listed as far as it came; the exit code is then 1.`,
		Example: `  csig counters scan leaf7.example.net -v2c -c file:community
  csig counters scan leaf7.example.net -v3 -u csig -a SHA -A env:AUTH -x AES -X env:PRIV
  csig counters scan leaf8.example.net --gnmi -u admin -p env:PASSWORD --tls-ca ca.pem`,
		Args: oneArg("target"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(cmd); err != nil {
				return err
			}
			t.warn(cmd.ErrOrStderr())
			l, err := t.scan(cmd.Context(), args[0])
			if l == nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), newScanResult(args[0], l, err)); err != nil {
					return err
				}
			} else if err := writeListing(cmd.OutOrStdout(), args[0], l); err != nil {
				return err
			}
			return err
		},
	}
	t.add(cmd)
	addJSON(cmd, &asJSON)
	return cmd
}

func newScanResult(target string, l *counters.Listing, err error) *scanResult {
	r := &scanResult{
		Format: "csig.scan/v1", Target: target, Protocol: l.Protocol, Name: l.Name, Description: l.Description,
		Interfaces: []scanInterface{}, Neighbors: []scanNeighbor{}, Notes: append([]string{}, l.Notes...),
	}
	if l.Uptime > 0 {
		ns := l.Uptime.Nanoseconds()
		r.UptimeNS = &ns
	}
	if err != nil {
		r.Error = err.Error()
	}
	for i := range l.Interfaces {
		p := &l.Interfaces[i]
		r.Interfaces = append(r.Interfaces, scanInterface{
			Index: p.Index, Name: p.Name, Alias: p.Alias, SpeedBPS: known(p.Speed), OperStatus: p.OperStatus,
			Wide: append([]string{}, p.Wide...), Uses: append([]string{}, p.Uses...), Note: p.Note,
		})
	}
	for _, n := range l.Neighbors {
		r.Neighbors = append(r.Neighbors, scanNeighbor{n.Port, n.System, n.Chassis, n.PeerPort, n.PeerText})
	}
	return r
}

// longestCell is how many bytes of a device's text a cell of the table has.
const longestCell = 40

func writeListing(w io.Writer, target string, l *counters.Listing) error {
	fmt.Fprintf(w, "%s  %s", target, l.Protocol)
	if l.Name != "" {
		fmt.Fprintf(w, "  %s", l.Name)
	}
	if l.Uptime > 0 {
		fmt.Fprintf(w, "  up %v", l.Uptime.Truncate(time.Second))
	}
	fmt.Fprintln(w)
	if l.Description != "" {
		fmt.Fprintln(w, l.Description)
	}
	usable := 0
	for i := range l.Interfaces {
		if len(l.Interfaces[i].Uses) > 0 {
			usable++
		}
	}
	fmt.Fprintf(w, "%s, %d readable by csig; %s\n", count(len(l.Interfaces), "interface"), usable, count(len(l.Neighbors), "LLDP neighbour"))
	for _, note := range l.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	neighbors := make(map[string][]string)
	for _, n := range l.Neighbors {
		neighbors[n.Port] = append(neighbors[n.Port], untrusted.Text(neighborText(&n), longestCell))
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "IFINDEX\tNAME\tALIAS\tSPEED\tSTATUS\t64-BIT\tCSIG READS\tNEIGHBOUR\tNOTE")
	for i := range l.Interfaces {
		p := &l.Interfaces[i]
		index := "-"
		if p.Index > 0 {
			index = fmt.Sprint(p.Index)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", index, untrusted.Text(p.Name, longestCell), orDash(untrusted.Text(p.Alias, longestCell)),
			bpsOrDash(known(p.Speed)), orDash(p.OperStatus), orDash(wideText(p.Wide)), orDash(inBrief(p.Uses)),
			orDash(strings.Join(neighbors[p.Name], "; ")), p.Note)
	}
	return tw.Flush()
}

// wideText says what an interface has 64-bit counters of.
func wideText(names []string) string {
	octets := slices.ContainsFunc(names, func(name string) bool { return strings.Contains(strings.ToLower(name), "octets") })
	switch {
	case octets && len(names) > 1:
		return "octets, packets"
	case octets:
		return "octets"
	case len(names) > 0:
		return "packets"
	}
	return ""
}

// inBrief are counters by their names: the octets, and how many count packets.
func inBrief(names []string) string {
	if len(names) <= 1 || !strings.Contains(strings.ToLower(names[0]), "octets") {
		return strings.Join(names, ", ")
	}
	if n := len(names) - 1; n > 1 {
		return fmt.Sprintf("%s + %d of packets", names[0], n)
	}
	return strings.Join(names, " + ")
}

// neighborText is a neighbour with the name of its port, as far as it is known.
func neighborText(n *counters.Neighbor) string {
	system, port := n.System, n.PeerPort
	if system == "" {
		system = n.Chassis
	}
	if n.PeerKind == counters.MACPortID && n.PeerText != "" {
		port = n.PeerText
	}
	return strings.TrimSpace(system + " " + port)
}
