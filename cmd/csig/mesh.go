package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

func newMesh() *cobra.Command {
	return group("mesh", "Hosts probe each other, and name the bottlenecks between them", `  csig mesh run -i fleet.yaml
  csig mesh status`, newMeshRun(), newMeshStatus())
}

// meshSocket is where a collector answers unless --socket says otherwise.
func meshSocket() string { return filepath.Join(vendors.AgentDir(), "mesh.sock") }

type meshOptions struct {
	file, socket, rate string
	collect, json      bool
	tls                api.TLSFiles
	read               []string
	log                process.LogOptions
}

func newMeshRun() *cobra.Command {
	var o meshOptions
	cmd := &cobra.Command{
		Use:   "run -i FLEET",
		Short: "Probe the other hosts of the mesh, and answer them (the daemon)",
		Long: `Probe the other hosts of the fleet file that have an address, and answer their probes.
The entry marked local is this machine. Each host is probed once in the interval of the
file's mesh section, with UDP datagrams with and without a tag.`,
		Example: `  csig mesh run -i fleet.yaml --collect`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return meshRun(cmd, &o) },
	}
	f := cmd.Flags()
	addFleet(cmd, &o.file)
	f.BoolVar(&o.collect, "collect", false, "this host collects what all find out, at the port of the fleet file's mesh: collector")
	f.StringVar(&o.rate, "rate", "", "what probes and answers may take of the link, e.g. 1M (default: a thousandth of what it reports)")
	f.StringVar(&o.socket, "socket", meshSocket(), "unix socket for csig mesh status, with --collect")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "certificate with this host's name (PEM)")
	f.StringVar(&o.tls.Key, "tls-key", "", "its key (PEM)")
	f.StringVar(&o.tls.CA, "tls-ca", "", "authorities of the other hosts' certificates (PEM)")
	f.StringSliceVar(&o.read, "tls-read", nil, "names of client certificates that may read the status")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key", "tls-ca")
	o.log.Flags(f)
	return cmd
}

// localHost is the host of the mesh that is this machine.
func localHost(f *inventory.Fleet) (*inventory.Host, error) {
	if f.Mesh == nil {
		return nil, fmt.Errorf("%s has no mesh: add one with its key, e.g. mesh: {key: {file: /etc/csig/mesh.key}}", f.Path)
	}
	var local *inventory.Host
	for i := range f.Hosts {
		switch h := &f.Hosts[i]; {
		case !h.Local:
		case local != nil:
			return nil, fmt.Errorf("%s: the hosts %s and %s are both marked local: leave it with the one that is this machine", f.Path, local.Name, h.Name)
		case h.Address == "":
			return nil, fmt.Errorf("%s: host %s has no address: add the one that other hosts reach it at", f.Path, h.Name)
		default:
			local = h
		}
	}
	if local == nil {
		return nil, fmt.Errorf("%s: no host is marked local: add local: true, and its interface, to the one that is this machine", f.Path)
	}
	return local, nil
}

func newMeshStatus() *cobra.Command {
	var o meshOptions
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the bottlenecks, by how many pairs of hosts they limit",
		Example: `  csig mesh status`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := meshStatus(cmd.Context(), o.socket)
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(cmd.OutOrStdout(), s)
			}
			printMesh(cmd.OutOrStdout(), s)
			return nil
		},
	}
	cmd.Flags().StringVar(&o.socket, "socket", meshSocket(), "unix socket of the collector")
	addJSON(cmd, &o.json)
	return cmd
}

// maxMeshStatus bounds what a collector may answer, in bytes.
const maxMeshStatus = 256 << 20

func meshStatus(ctx context.Context, socket string) (*mesh.Status, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://mesh"+mesh.StatusPath, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no collector answers at %s (%w): csig mesh run --collect has one", socket, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	var s mesh.Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxMeshStatus)).Decode(&s); err != nil || s.Format != mesh.StatusFormat {
		return nil, fmt.Errorf("the collector at %s answers with something else than %s: use the csig that goes with it", socket, mesh.StatusFormat)
	}
	return &s, nil
}
