package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// meshFlags are those of a collector of the hosts' mesh.
type meshFlags struct {
	addr, ca, socket string

	collector *mesh.Collector // that runs; nil: none does
}

func (m *meshFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&m.addr, "mesh", "", "collect what hosts of the fleet file's mesh find out, at this address, e.g. :9918; needs --tls-cert, --tls-key and --mesh-ca")
	f.StringVar(&m.ca, "mesh-ca", "", "who signed the certificates of the mesh's hosts (PEM)")
	f.StringVar(&m.socket, "mesh-socket", filepath.Join(vendors.AgentDir(), "mesh.sock"), "unix socket for csig mesh status, with --mesh")
}

// check refuses a collector whose hosts are not known.
func (m *meshFlags) check(cert string) error {
	switch {
	case m.addr == "" && m.ca != "":
		return errors.New("--mesh-ca goes with --mesh")
	case m.addr == "":
		return nil
	case m.ca == "" || cert == "":
		return fmt.Errorf("--mesh %s needs --tls-cert, --tls-key and --mesh-ca: a host's rows come with a certificate that has its name", m.addr)
	}
	return nil
}

// hasMesh refuses a fleet file that no collector can run with.
func hasMesh(f *inventory.Fleet) error {
	if f.Mesh == nil {
		return fmt.Errorf("--mesh: %s has no mesh: add one with its key, e.g. mesh: {key: {file: /etc/csig/mesh.key}}", f.Path)
	}
	return nil
}

// families are the collector's metrics; nil: none runs.
func (m *meshFlags) families() func() []*dto.MetricFamily {
	if m.collector == nil {
		return nil
	}
	return m.collector.Families
}

// with runs the controller, and the collector beside it.
func (m *meshFlags) with(ctx context.Context, cfg *controller.Config, files api.TLSFiles, read []string, run func() error) error {
	if m.addr == "" {
		return run()
	}
	if err := hasMesh(cfg.Fleet); err != nil {
		return err
	}
	files.CA = m.ca
	s, err := mesh.NewServer(mesh.ServerConfig{
		Fleet: cfg.Fleet, Socket: m.socket, Addr: m.addr, TLS: files, Read: read, Log: cfg.Agent.Log,
		Agents: func(_ context.Context, fleet *inventory.Fleet) map[string]*api.Status {
			out := make(map[string]*api.Status)
			for i := range fleet.Devices {
				if s := cfg.Statuses.Status(fleet.Devices[i].Name); s != nil && s.Waiting == "" {
					out[s.Device] = s
				}
			}
			return out
		},
	})
	if err != nil {
		return err
	}
	cfg.Check, cfg.OnReload = hasMesh, s.Reload
	m.collector = s.Collector
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Run(ctx); err != nil && ctx.Err() == nil {
			cfg.Agent.Log.WithError(err).Error("the mesh's collector ends")
		}
	}()
	err = run()
	cancel()
	<-ended
	return err
}
