package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/draw"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

type showFlags struct {
	file, device, graph, signal, from, to string
	lm                                    uint16
	asJSON, asYAML, resolved              bool
}

func newInventoryShow() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show -i FLEET",
		Short: "Show the resolved fleet, and where each value comes from",
		Long: `Show the devices of a fleet, or with --device the ports of one, as they are when
groups, defaults and links are resolved and locators are allocated. --resolved
shows where each value comes from. --graph draws the fabric. --lm lists the ports
that may have written a locator, --from and --to narrow them to those on a
shortest path between two hosts or devices.`,
		Example: `  csig inventory show -i fleet.yaml
  csig inventory show -i fleet.yaml --device leaf-1 --resolved
  csig inventory show -i fleet.yaml --graph svg > fabric.svg
  csig inventory show -i fleet.yaml --lm 17 --from gpu-1 --to gpu-9`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fleet, err := inventory.Load(f.file)
			if err != nil {
				return err
			}
			return f.show(cmd, fleet)
		},
	}
	addFleet(cmd, &f.file)
	flags := cmd.Flags()
	flags.StringVar(&f.device, "device", "", "only this device")
	flags.BoolVar(&f.resolved, "resolved", false, "show where each value comes from")
	flags.StringVar(&f.graph, "graph", "", "draw the fabric: svg or dot")
	flags.Uint16Var(&f.lm, "lm", 0, "list the ports that may have written this locator")
	flags.StringVar(&f.signal, "signal", "", "the signal of --lm (default: the first that the domain carries)")
	flags.StringVar(&f.from, "from", "", "where the frame with --lm came from: a host or device")
	flags.StringVar(&f.to, "to", "", "where it arrived")
	flags.BoolVar(&f.asYAML, "yaml", false, "print one fleet file without groups, ranges and includes")
	addJSON(cmd, &f.asJSON)
	cmd.MarkFlagsMutuallyExclusive("json", "yaml", "graph")
	cmd.MarkFlagsMutuallyExclusive("lm", "yaml")
	cmd.MarkFlagsMutuallyExclusive("lm", "graph")
	cmd.MarkFlagsMutuallyExclusive("lm", "device")
	return cmd
}

func (f *showFlags) show(cmd *cobra.Command, fleet *inventory.Fleet) error {
	w := cmd.OutOrStdout()
	if cmd.Flags().Changed("lm") {
		return f.candidates(w, fleet)
	}
	for _, name := range []string{"from", "to", "signal"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s goes with --lm", name)
		}
	}
	if f.device != "" {
		if f.graph != "" {
			return fmt.Errorf("--graph draws the whole fleet: leave out --device")
		}
		d, err := pickDevice(fleet, f.device)
		if err != nil {
			return err
		}
		only := *fleet
		if f.asYAML {
			only.Devices, only.Hosts = []inventory.Device{*d}, nil // one device may have peers that the file does not describe
			fleet = &only
		}
	}
	switch f.graph {
	case "":
	case "svg":
		return draw.SVG(w, fleet)
	case "dot":
		return draw.DOT(w, fleet)
	default:
		return fmt.Errorf("--graph %q: want svg or dot", f.graph)
	}
	switch {
	case f.asYAML:
		text, err := inventory.Marshal(fleet)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	case f.asJSON:
		return printJSON(w, newFleetResult(fleet, f.device, f.resolved))
	case f.resolved:
		return printResolved(w, fleet, f.device)
	case f.device != "":
		d, _ := fleet.Device(f.device) // it was found above
		return printDevice(w, fleet, d)
	}
	return printDevices(w, fleet)
}

// carried lists the signals of the profile in wire order.
func carried(f *inventory.Fleet) []quantize.Signal {
	return slices.DeleteFunc(slices.Clone(quantize.Signals[:]), func(s quantize.Signal) bool {
		_, ok := f.Profile.Signals[s]
		return !ok
	})
}

func locatorText(f *inventory.Fleet, sig quantize.Signal, lm uint16) string {
	text := f.Profile.Signals[sig].Locator.Text(f.Profile.Layout.LMBits(), lm)
	if text == fmt.Sprint(lm) {
		return text
	}
	return fmt.Sprintf("%d (%s)", lm, text)
}

type candidatesResult struct {
	Format  string          `json:"format"`
	Signal  string          `json:"signal"`
	LM      uint16          `json:"lm"`
	Locator string          `json:"locator"`
	From    string          `json:"from"`
	To      string          `json:"to"`
	Ports   []candidatePort `json:"ports"`
}

type candidatePort struct {
	Device string `json:"device"`
	Port   string `json:"port"`
	Peer   string `json:"peer"`
}

func (f *showFlags) candidates(w io.Writer, fleet *inventory.Fleet) error {
	sig := carried(fleet)[0] // a profile without a signal is refused
	if f.signal != "" {
		var err error
		if sig, err = quantize.ParseSignal(f.signal); err != nil {
			return fmt.Errorf("--signal: %w", err)
		}
		if _, ok := fleet.Profile.Signals[sig]; !ok {
			return fmt.Errorf("--signal %s: the domain does not carry it", sig)
		}
	}
	if most := fleet.Profile.Layout.LMAllOnes(); f.lm > most {
		return fmt.Errorf("--lm %d: %s has 0 to %d", f.lm, fleet.Profile.Layout, most)
	}
	list, err := fleet.Candidates(sig, f.lm, f.from, f.to)
	if err != nil {
		return err
	}
	res := candidatesResult{
		Format: "csig.inventory-candidates/v1", Signal: sig.String(), LM: f.lm, From: f.from, To: f.to, Ports: []candidatePort{},
		Locator: fleet.Profile.Signals[sig].Locator.Text(fleet.Profile.Layout.LMBits(), f.lm),
	}
	for _, ref := range list {
		d, _ := fleet.Device(ref.Device) // the fleet's own names
		p, _ := d.Port(ref.Port)
		res.Ports = append(res.Ports, candidatePort{ref.Device, ref.Port, p.Peer.String()})
	}
	if f.asJSON {
		return printJSON(w, res)
	}
	where := ""
	if f.from != "" {
		where += " from " + f.from
	}
	if f.to != "" {
		where += " to " + f.to
	}
	fmt.Fprintf(w, "%s %s%s: %s\n", sig, locatorText(fleet, sig, f.lm), where, count(len(list), "port"))
	for _, p := range res.Ports {
		fmt.Fprintf(w, "  %s:%s", p.Device, p.Port)
		if p.Peer != "" {
			fmt.Fprintf(w, " to %s", p.Peer)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func printDevices(w io.Writer, f *inventory.Fleet) error {
	fmt.Fprintf(w, "%s: profile %s, TPID 0x%04x, %s, Δt %s; inventory %.12s\n\n", f.Path, f.Profile.Name, f.Profile.TPID, f.Profile.Layout, f.Profile.Interval, f.Hash())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "device\tplatform\taddress\tlevel\ttags\tports\tupdate\tpassthrough\tstrip")
	for i := range f.Devices {
		d := &f.Devices[i]
		var count [vlanrules.Strip + 1]int
		for j := range d.Ports {
			count[d.Ports[j].Action]++
		}
		name := d.Name
		if d.Local {
			name += " (local)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", name, d.Platform, orDash(d.Address), d.Level.Support, orDash(strings.Join(d.Tags, ",")),
			len(d.Ports), count[vlanrules.Update], count[vlanrules.Passthrough], count[vlanrules.Strip])
	}
	return t.Flush()
}

func printDevice(w io.Writer, f *inventory.Fleet, d *inventory.Device) error {
	fmt.Fprintf(w, "%s: %s, address %s, level %s", d.Name, d.Platform, orDash(d.Address), d.Level.Support)
	if d.Level.Reason != "" {
		fmt.Fprintf(w, " (%s)", d.Level.Reason)
	}
	fmt.Fprintf(w, ", tags %s, Δt %s, schedule %s\n\n", orDash(strings.Join(d.Tags, ",")), d.Interval, d.Schedule)
	signals := carried(f)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "port\tspeed\tmtu\taction")
	for _, sig := range signals {
		fmt.Fprintf(t, "\t%s lm", sig)
	}
	fmt.Fprintln(t, "\tpeer")
	for j := range d.Ports {
		p := &d.Ports[j]
		mtu := "-"
		if p.MTU != 0 {
			mtu = fmt.Sprint(p.MTU)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s", p.Name, orDash(p.SpeedText()), mtu, p.Action)
		for _, sig := range signals {
			lm, ok := p.LM[sig]
			if !ok {
				fmt.Fprint(t, "\t-")
				continue
			}
			fmt.Fprintf(t, "\t%s", locatorText(f, sig, lm))
		}
		fmt.Fprintf(t, "\t%s\n", orDash(p.Peer.String()))
	}
	return t.Flush()
}
