package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory/discovery"
	"github.com/csig-agent/csig/inventory/discovery/netbox"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/protocol/untrusted"
)

func newInventoryImport() *cobra.Command {
	return group("import", "Make a first fleet file from NetBox's export, or from LLDP", `  csig inventory import netbox netbox_devices.csv netbox_interfaces.csv -o fleet.yaml
  csig inventory import lldp leaf1 spine1 -v2c -c file:community -o fleet.yaml`, newImportNetBox(), newImportLLDP())
}

// importResult is an import as JSON.
type importResult struct {
	Format  string   `json:"format"`
	File    string   `json:"file"`  // that was written; "" for none
	Fleet   string   `json:"fleet"` // the fleet file's text, where none was written
	Devices int      `json:"devices"`
	Cables  int      `json:"cables"`
	FillIn  int      `json:"fill_in"` // places that a person has to complete
	Notes   []string `json:"notes"`
}

// draftOutput is where a fleet file goes.
type draftOutput struct {
	path   string // "": standard output
	asJSON bool
}

// write writes a fleet file; what is at the path already stays.
func (o *draftOutput) write(cmd *cobra.Command, d *discovery.Draft) error {
	text, err := d.YAML()
	if err != nil {
		return err
	}
	path, fillIn := o.path, strings.Count(string(text), "FILL IN")-1 // one is in the first line
	res := importResult{"csig.inventory-import/v1", path, "", len(d.Devices), len(d.Cables), fillIn, append([]string{}, d.Notes...)}
	switch {
	case path == "" && o.asJSON:
		res.Fleet = string(text)
		return printJSON(cmd.OutOrStdout(), res)
	case path == "":
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	if err := outfile.Write(path, 0o644, nil, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return err
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), res)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s and %s; %s to FILL IN\nnext: csig inventory check -i %s\n", path,
		count(len(d.Devices), "device"), count(len(d.Cables), "cable"), count(fillIn, "place"), untrusted.ShellWord(path))
	return nil
}

// check refuses a path that cannot be written, before anything is asked.
func (o *draftOutput) check() error {
	if o.path == "" {
		return nil
	}
	return outfile.Check(o.path, nil)
}

func (o *draftOutput) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.path, "output", "o", "", "fleet file to write, which must not exist (default: standard output)")
	addJSON(cmd, &o.asJSON)
}

func newImportNetBox() *cobra.Command {
	var (
		out   draftOutput
		roles []string
	)
	cmd := &cobra.Command{
		Use:   "netbox FILE...",
		Short: "Make a fleet file from NetBox's devices, interfaces and cables",
		Long: `Make a fleet file from what NetBox exports: the CSV files of its lists of devices,
interfaces and, where these do not have the connections, cables (Export, All Data), or
the JSON of its REST API (/api/dcim/devices/?limit=0 and so on). What kind a file is
shows in its columns. Devices that are active become switches; with --role those of
these roles alone, and the others that are cabled to them become hosts. Ports are
those that are enabled and cabled, with the speed of their type.

What only a person knows is marked FILL IN. csig inventory check accepts the file.`,
		Example: `  csig inventory import netbox netbox_devices.csv netbox_interfaces.csv -o fleet.yaml
  csig inventory import netbox devices.json interfaces.json cables.json --role leaf --role spine`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "FILE is missing: the exports of devices and of interfaces")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			var x netbox.Export
			for _, path := range args {
				f, err := os.Open(path)
				if err != nil {
					return err
				}
				err = x.Read(path, f)
				if err = errors.Join(err, f.Close()); err != nil {
					return err
				}
			}
			d, err := x.Draft("csig inventory import netbox", roles)
			if err != nil {
				return err
			}
			return out.write(cmd, d)
		},
	}
	out.add(cmd)
	cmd.Flags().StringArrayVar(&roles, "role", nil, "role of switches in NetBox; may be repeated (default: all devices are switches)")
	return cmd
}

// askedAtOnce is how many targets are asked at a time.
const askedAtOnce = 32

func newImportLLDP() *cobra.Command {
	var (
		out draftOutput
		t   targetFlags
	)
	cmd := &cobra.Command{
		Use:   "lldp TARGET...",
		Short: "Make a fleet file from the LLDP neighbours of devices",
		Long: `Ask devices by SNMP or gNMI for their interfaces and LLDP neighbours, with the flags of
csig counters scan, and make a fleet file of them: ports with a neighbour, their
speeds, and the cables. A neighbour that is no target becomes a host, and is marked.
A target that does not answer is left out, with a note; the exit code is then 1.

What only a person knows is marked FILL IN. csig inventory check accepts the file.`,
		Example: `  csig inventory import lldp leaf1 leaf2 spine1 -v2c -c file:/etc/csig/community -o fleet.yaml
  csig inventory import lldp leaf1 leaf2 --gnmi -u csig -p env:PASSWORD --tls-ca ca.pem`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "TARGET is missing: the devices to ask")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(cmd); err != nil {
				return err
			}
			if err := out.check(); err != nil {
				return err
			}
			t.warn(cmd.ErrOrStderr())
			scanned, failed, err := t.scanAll(cmd, args)
			if err != nil {
				return err
			}
			d := discovery.FromLLDP("csig inventory import lldp", scanned)
			d.Notes = append(d.Notes, failed...)
			if err := out.write(cmd, d); err != nil {
				return err
			}
			if len(failed) > 0 {
				return fmt.Errorf("%s of %d did not answer: they are left out", count(len(failed), "target"), len(args))
			}
			return nil
		},
	}
	out.add(cmd)
	t.add(cmd)
	return cmd
}

// scanAll asks targets, many at a time. Those that fail are in failed, in words.
func (t *targetFlags) scanAll(cmd *cobra.Command, targets []string) (scanned []discovery.Scanned, failed []string, err error) {
	all, errs := make([]discovery.Scanned, len(targets)), make([]error, len(targets))
	for i, target := range targets {
		s := &all[i]
		s.Target = target
		if s.Address, s.Counters, s.FillIn, err = t.inFleetFile(target); err != nil {
			return nil, nil, err
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for i := range all {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer wg.Done()
			defer func() { <-slots }()
			all[i].Listing, errs[i] = t.scan(cmd.Context(), targets[i])
		}()
	}
	wg.Wait()
	if err := cmd.Context().Err(); err != nil { // no fleet file of those that had answered by then
		return nil, nil, err
	}
	for i := range all {
		if errs[i] != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "csig:", errs[i])
			failed = append(failed, errs[i].Error())
		} else {
			scanned = append(scanned, all[i])
		}
	}
	if len(scanned) == 0 {
		return nil, nil, errors.New("no target answered")
	}
	return scanned, failed, nil
}

// inFleetFile is how a fleet file says that a target is read: its address, its counters, and
// what is to be filled in of them.
func (t *targetFlags) inFleetFile(target string) (address, counters, fill string, err error) {
	usual := uint16(snmpPort)
	if t.gnmi {
		usual = gnmiPort
	}
	address, port, err := hostPort(target, usual)
	if err != nil {
		return "", "", "", err
	}
	var keys []string
	add := func(format string, args ...any) { keys = append(keys, fmt.Sprintf(format, args...)) }
	secret := func(key, text, variable string) string {
		if name, ok := strings.CutPrefix(text, "env:"); ok {
			return fmt.Sprintf("%s: {env: %s}", key, discovery.QuoteName(name))
		}
		if path, ok := strings.CutPrefix(text, "file:"); ok && strings.HasPrefix(path, "/") {
			return fmt.Sprintf("%s: {file: %q}", key, path)
		}
		fill = "where the secrets are: {env: NAME} or {file: /PATH}"
		return fmt.Sprintf("%s: {env: %s}", key, variable)
	}
	if port != usual {
		add("port: %d", port)
	}
	if t.gnmi {
		var tls []string
		for _, one := range [...]struct{ key, value string }{{"ca", t.ca}, {"cert", t.cert}, {"key", t.key}, {"server_name", t.name}} {
			if one.value != "" {
				tls = append(tls, fmt.Sprintf("%s: %q", one.key, one.value))
			}
		}
		switch {
		case t.insecure:
			add("plaintext: true")
			if t.user != "" {
				add("allow_plaintext_password: true")
			}
		case t.skipVerify:
			tls = append(tls, "insecure_skip_verify: true")
		}
		if len(tls) > 0 {
			add("tls: {%s}", strings.Join(tls, ", "))
		}
		if t.user != "" {
			add("username: %q", t.user)
			add("%s", secret("password", t.password, "GNMI_PASSWORD"))
		}
		if t.target != "" {
			add("target: %q", t.target)
		}
		return address, "{source: gnmi, gnmi: {" + strings.Join(keys, ", ") + "}}", fill, nil
	}
	keys = append([]string{"version: " + t.version}, keys...)
	if t.version == "2c" {
		add("%s", secret("community", t.community, "SNMP_COMMUNITY"))
	} else {
		add("user: %q", t.user)
		if t.auth != "" {
			add("auth: {protocol: %s, %s}", strings.ToLower(t.auth), secret("key", t.authPass, "SNMP_AUTH"))
		}
		if t.priv != "" {
			add("priv: {protocol: %s, %s}", strings.ToLower(t.priv), secret("key", t.privPass, "SNMP_PRIV"))
		}
		if t.context != "" {
			add("context: %q", t.context)
		}
	}
	return address, "{source: snmp, snmp: {" + strings.Join(keys, ", ") + "}}", fill, nil
}
