package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
)

func newInventory() *cobra.Command {
	return group("inventory", "Check, show and create fleet files", `  csig inventory check -i fleet.yaml
  csig inventory show -i fleet.yaml --device leaf-1 --resolved`, newInventoryCheck(), newInventoryShow(), newInventoryImport(), newInventorySchema())
}

type checkResult struct {
	Format      string           `json:"format"`
	File        string           `json:"file"`
	OK          bool             `json:"ok"`
	Errors      inventory.Errors `json:"errors"`
	Warnings    inventory.Errors `json:"warnings"`
	Files       int              `json:"files"`
	Devices     int              `json:"devices"`
	Ports       int              `json:"ports"`
	Links       int              `json:"links"`
	Hosts       int              `json:"hosts"`
	Profile     string           `json:"profile"`
	ProfileHash string           `json:"profile_hash"`
	Hash        string           `json:"hash"`
	Locators    []locatorResult  `json:"locators"`
	LLDP        *lldpResult      `json:"lldp"` // null without --lldp
}

// locatorResult counts what the locators of one signal leave open.
type locatorResult struct {
	Signal string `json:"signal"`
	inventory.Ambiguity
}

func newInventoryCheck() *cobra.Command {
	var file string
	var asJSON bool
	var lldp lldpOptions
	cmd := &cobra.Command{
		Use:   "check -i FLEET",
		Short: "Find every mistake in a fleet file, in one run",
		Long: `Read a fleet file with all that it includes. Every mistake is reported with its
file, line and column, and what to do about it; the exit code is then 1. What is
odd without being wrong is a warning. For a right file, count what the locators
leave open: they have too few bits to name every port of a fleet.

With --lldp, devices whose counters are read by SNMP or gNMI are asked for their LLDP
neighbours, and the cables of the file are compared with them. Nothing is changed on the
devices. Another neighbour than the file has, and a device that cannot be asked, are
mistakes; what only one of both knows is a warning.`,
		Example: `  csig inventory check -i fleet.yaml
  csig inventory check -i fleet.yaml --lldp
  csig inventory check -i fleet.yaml --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := lldp.check(cmd); err != nil {
				return err
			}
			res := checkResult{Format: "csig.inventory-check/v1", File: file, Errors: inventory.Errors{}, Warnings: inventory.Errors{}, Locators: []locatorResult{}}
			part, err := inventory.LoadPartial(file)
			fleet := part.Fleet
			var mistakes inventory.Errors
			if err != nil && !errors.As(err, &mistakes) {
				return err
			}
			if err != nil && fleet != nil {
				mistakes = append(mistakes, unknownPlatforms(fleet)...)
				err = mistakes
			}
			if err == nil {
				if mistakes = append(unknownPlatforms(fleet), withoutAgent(fleet)...); len(mistakes) > 0 {
					err = mistakes
				}
				res.fill(fleet)
				if lldp.on && err == nil {
					if mistakes, err = res.compare(cmd.Context(), fleet, &lldp); err != nil {
						return err
					}
					if len(mistakes) > 0 {
						err = mistakes
					}
				}
				res.OK = err == nil
			}
			res.Errors = append(res.Errors, mistakes...)
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), res); err != nil {
					return err
				}
			} else if err == nil {
				res.print(cmd.OutOrStdout())
			} else {
				if res.LLDP != nil {
					res.print(cmd.OutOrStdout())
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%v\n\n%s: %s\n", mistakes, file, count(len(mistakes), "mistake"))
			}
			if err != nil {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	addFleet(cmd, &file)
	addJSON(cmd, &asJSON)
	lldp.add(cmd)
	return cmd
}

// unknownPlatforms are the devices without known facts: csig does not have their
// platform, and the file does not have their level. Each place in the file
// is named once.
func unknownPlatforms(f *inventory.Fleet) (out inventory.Errors) {
	registry := all.Default()
	for i := range f.Devices {
		d := &f.Devices[i]
		if _, err := registry.Platform(d.Platform); err != nil && d.Platform != "" && d.Level.Support == inventory.LevelAuto {
			out = append(out, unknownPlatform(f, d, err))
		}
	}
	return eachPlaceOnce(out)
}

// eachPlaceOnce keeps the first mistake of each place in the file.
func eachPlaceOnce(list inventory.Errors) (out inventory.Errors) {
	at := func(e *inventory.Error) inventory.Origin {
		return inventory.Origin{File: e.File, Line: e.Line, Col: e.Col}
	}
	for _, alike := range findings.Alike(list, at) {
		out = append(out, alike[0])
	}
	return out
}

// withoutAgent are the devices that SSH leads to, and to no agent. Each place in the file
// is named once.
func withoutAgent(f *inventory.Fleet) (out inventory.Errors) {
	r := device.NewOpener(f)
	for i := range f.Devices {
		if e := r.MissingAgent(&f.Devices[i]); e != nil {
			out = append(out, e)
		}
	}
	return eachPlaceOnce(out)
}

// unknownPlatform is the mistake of a device whose platform csig does not know.
func unknownPlatform(f *inventory.Fleet, d *inventory.Device, err error) *inventory.Error {
	return f.Mistake(d.Name, "platform", "or give the device its level, passthrough or discard, with the reason", err)
}

// mtuWarnings are the ports whose MTU, as the file has it, is what csig assess
// and csig plan find too small: the first of each device, and each place in the
// file once.
func mtuWarnings(f *inventory.Fleet) (out inventory.Errors) {
	registry, longest := all.Default(), plans.LongestFrame(f)
	for i := range f.Devices {
		d := &f.Devices[i]
		p, err := registry.Platform(d.Platform)
		if err != nil || d.Level.Support == inventory.LevelDiscard {
			continue
		}
		facts := p.Offline()
		need := plans.LeastMTU(longest, &facts)
		j := slices.IndexFunc(d.Ports, func(p inventory.Port) bool { return p.MTU != 0 && p.MTU < need })
		if j < 0 {
			continue
		}
		at := f.PortOrigins(inventory.PortRef{Device: d.Name, Port: d.Ports[j].Name})["mtu"]
		out = append(out, &inventory.Error{File: at.File, Line: at.Line, Col: at.Col, Hint: "longer frames vanish here",
			Msg: fmt.Sprintf("device %s, port %s: mtu: %d is too small for full-size frames with their tags: want %d at least", d.Name, d.Ports[j].Name, d.Ports[j].MTU, need)})
	}
	return eachPlaceOnce(out)
}

// speedWarnings is about the ports of this machine without a speed: its kernel may not know
// it either, as of veths and cards of virtual machines.
func speedWarnings(f *inventory.Fleet) (out inventory.Errors) {
	for i := range f.Devices {
		d := &f.Devices[i]
		if !d.Local || device.SourceName(d) != string(inventory.LinuxSource) {
			continue
		}
		var ports []string
		for j := range d.Ports {
			if d.Ports[j].Speed == 0 && d.Ports[j].Action == vlanrules.Update {
				ports = append(ports, d.Ports[j].Name)
			}
		}
		if len(ports) == 0 {
			continue
		}
		msg := "port " + ports[0] + " has no speed: it stays stale unless the device reports one"
		if len(ports) > 1 {
			msg = "ports " + vendors.Names(ports) + " have no speed: they stay stale unless the device reports one"
		}
		at := f.PortOrigins(inventory.PortRef{Device: d.Name, Port: ports[0]})["name"]
		out = append(out, &inventory.Error{File: at.File, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("device %s: %s", d.Name, msg), Hint: "e.g. speed: 10G"})
	}
	return eachPlaceOnce(out)
}

// misfitWarnings are the ports whose loads the profile's buckets cannot tell apart.
func misfitWarnings(f *inventory.Fleet) (out inventory.Errors) {
	for i := range f.Devices {
		for _, misfit := range findings.Merge(plans.MisfitFindings(&f.Profile, &f.Devices[i])) {
			at := f.PortOrigins(inventory.PortRef{Device: misfit.Device, Port: misfit.Ports[0]})["speed"]
			what := "port "
			if len(misfit.Ports) > 1 {
				what = "ports "
			}
			out = append(out, &inventory.Error{File: at.File, Line: at.Line, Col: at.Col,
				Msg:  fmt.Sprintf("device %s, %s%s: %s", misfit.Device, what, vendors.Names(misfit.Ports), misfit.Reason),
				Hint: "csig inventory show has the buckets; correct the speed, or take other buckets for the profile"})
		}
	}
	return eachPlaceOnce(out)
}

func (r *checkResult) fill(f *inventory.Fleet) {
	r.Warnings = slices.Concat(r.Warnings, f.Warnings(), mtuWarnings(f), speedWarnings(f), misfitWarnings(f))
	r.Files, r.Devices, r.Links = len(f.Files()), len(f.Devices), len(f.Links())
	hosts := make(map[string]bool)
	for _, h := range f.Hosts {
		hosts[h.Name] = true
	}
	for i := range f.Devices {
		r.Ports += len(f.Devices[i].Ports)
		for j := range f.Devices[i].Ports {
			if p := f.Devices[i].Ports[j].Peer; p.Port == "" && p.Device != "" {
				hosts[p.Device] = true
			}
		}
	}
	r.Hosts = len(hosts)
	r.Profile, r.ProfileHash, r.Hash = f.Profile.Name, f.Profile.Hash(), f.Hash()
	for _, sig := range carried(f) {
		r.Locators = append(r.Locators, locatorResult{sig.String(), f.Ambiguity(sig)})
	}
}

func (r *checkResult) print(w io.Writer) {
	for _, one := range r.Warnings {
		fmt.Fprintf(w, "warning: %v\n\n", one)
	}
	fmt.Fprintf(w, "%s: %s, %s, %s and %s in %s; %s\n", r.File, count(r.Devices, "device"), count(r.Ports, "port"), count(r.Links, "link"),
		count(r.Hosts, "host"), count(r.Files, "file"), count(len(r.Warnings), "warning"))
	fmt.Fprintf(w, "profile %s %.12s, inventory %.12s\n", r.Profile, r.ProfileHash, r.Hash)
	for _, l := range r.Locators {
		fmt.Fprintf(w, "%s: %s\n", l.Signal, l.text())
	}
	if r.LLDP != nil {
		fmt.Fprintf(w, "LLDP: %s\n", r.LLDP.text())
	}
}

func (l *locatorResult) text() string {
	switch {
	case l.Ports == 0:
		return "no port writes a locator"
	case l.Alone == l.Ports:
		return fmt.Sprintf("each of the %s that write a locator has one of its own", count(l.Ports, "port"))
	}
	looked := fmt.Sprintf("%d pairs of devices with hosts", l.Pairs)
	if !l.AllPairs {
		looked += " (a sample)"
	}
	between := fmt.Sprintf("--from and --to leave one port in all %s", looked)
	switch {
	case l.Pairs == 0:
		between = "no two devices with hosts have a path"
	case l.PairsOpen > 0:
		between = fmt.Sprintf("between %d of %s, up to %d ports have the same", l.PairsOpen, looked, l.MostOpen)
	}
	return fmt.Sprintf("%s share %s, at most %d one of them; %d write that of a next hop; %s", count(l.Ports, "port"), count(l.Locators, "locator"), l.Most, l.Consecutive, between)
}

func newInventorySchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of fleet files, for editors",
		Long: `Print the JSON Schema (draft 2020-12) of fleet files. Editors complete and check
with it; with the YAML language server, for one, after this first line:

  # yaml-language-server: $schema=fleet.schema.json`,
		Example: "  csig inventory schema > fleet.schema.json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.Copy(cmd.OutOrStdout(), bytes.NewReader(inventory.Schema()))
			return err
		},
	}
}
