package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
)

func meshRun(cmd *cobra.Command, o *meshOptions) error {
	fleet, err := inventory.Load(o.file)
	if err != nil {
		return err
	}
	local, err := localHost(fleet)
	if err != nil {
		return err
	}
	cfg := mesh.DaemonConfig{Fleet: fleet, Host: local, Collect: o.collect, Socket: o.socket, TLS: o.tls, Read: o.read}
	switch {
	case !o.collect && (o.agents || o.metrics != "" || len(o.read) > 0):
		return fmt.Errorf("--agents, --metrics and --tls-read go with --collect")
	case o.collect && o.tls.Cert != "" && fleet.Mesh.Collector == "":
		return fmt.Errorf("%s: mesh: collector is missing: the address that the other hosts send their rows to, e.g. collector: %s", o.file, net.JoinHostPort(local.Address, "9918"))
	case !o.collect && fleet.Mesh.Collector == "":
		return fmt.Errorf("%s: mesh: collector is missing: where this host sends its rows, e.g. collector: 192.0.2.7:9918", o.file)
	case !o.collect && o.tls.Cert == "":
		return fmt.Errorf("--tls-cert, --tls-key and --tls-ca are missing: rows are sent with a certificate that has this host's name, %s", local.Name)
	}
	if o.rate != "" {
		if cfg.Rate, err = inventory.ParseSpeed(o.rate); err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
	}
	if cfg.Key, err = fleet.Mesh.Key.Resolve(cmd.Context()); err != nil {
		return err
	}
	if o.collect && o.agents {
		asked := newAgentsAsked(fleet)
		defer asked.close()
		cfg.Agents = asked.ask
	}
	log, end, err := o.log.Open()
	if err != nil {
		return err
	}
	defer end()
	cfg.Log = log
	if o.metrics != "" {
		cfg.Beside = func(ctx context.Context, c *mesh.Collector) error {
			h := metrics.Handler(metrics.Process{Version: version, Devices: func() []metrics.Device { return nil }, More: c.Families})
			return api.Observed(o.metrics, o.tls, api.TLSAccess{Read: o.read}, h, log, func() error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
	}
	if err := mesh.Run(cmd.Context(), cfg); !errors.Is(err, context.Canceled) && cmd.Context().Err() == nil {
		return err
	}
	return nil
}

// meshRatesHere is what a thousandth of the links of this machine is.
func meshRatesHere() string {
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	var b strings.Builder
	for i := range all {
		if speed := mesh.LinkSpeed(all[i].Name); speed > 0 {
			fmt.Fprintf(&b, "  %s  %s: %s, with 63 peers a probe of each every %v at least\n", all[i].Name, inventory.FormatSpeed(speed), inventory.FormatSpeed(speed/1000),
				mesh.Interval(0, mesh.MostPeers, speed/1000).Round(time.Millisecond))
		}
	}
	if b.Len() == 0 {
		return "\nNo interface of this machine reports its speed: --rate is 1M unless given.\n"
	}
	return "\nA thousandth of the links here:\n" + b.String()
}

// agentsAsked asks the agents of a fleet again and again, by connections that stay.
type agentsAsked struct {
	fleet  *inventory.Fleet
	opener *device.Opener

	mu   sync.Mutex
	open map[string]*device.Daemon
}

// agentWait is how long an agent may take to answer.
const agentWait = 4 * time.Second

func newAgentsAsked(f *inventory.Fleet) *agentsAsked {
	return &agentsAsked{fleet: f, opener: device.NewOpener(f), open: make(map[string]*device.Daemon)}
}

// ask is the statuses of the devices whose agent the fleet file names; nil: it does not answer.
func (a *agentsAsked) ask(ctx context.Context) map[string]*api.Status {
	all, err := device.Each(ctx, a.fleet, 64, nil, func(d *inventory.Device) *api.Status {
		if d.Management.Daemon == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, agentWait)
		defer cancel()
		return a.one(ctx, d.Name)
	})
	if err != nil {
		return nil
	}
	for i := range a.fleet.Devices {
		if d := &a.fleet.Devices[i]; d.Management.Daemon == nil {
			delete(all, d.Name)
		}
	}
	return all
}

func (a *agentsAsked) one(ctx context.Context, name string) *api.Status {
	a.mu.Lock()
	d := a.open[name]
	a.mu.Unlock()
	if d == nil {
		t, err := a.opener.Open(ctx, name)
		if err != nil {
			return nil
		}
		var is bool
		if d, is = t.(*device.Daemon); !is {
			_ = t.Close()
			return nil
		}
		a.mu.Lock()
		a.open[name] = d
		a.mu.Unlock()
	}
	s, err := d.Status(ctx)
	if err != nil {
		a.mu.Lock()
		delete(a.open, name)
		a.mu.Unlock()
		_ = d.Close()
		return nil
	}
	return s
}

func (a *agentsAsked) close() {
	for _, d := range a.open {
		_ = d.Close()
	}
}
