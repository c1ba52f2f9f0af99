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
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
)

func meshRun(cmd *cobra.Command, o *meshOptions) error {
	if !o.collect && (o.agents || o.metrics != "" || len(o.read) > 0) {
		return fmt.Errorf("--agents, --metrics and --tls-read go with --collect")
	}
	file := fleetFile[mesh.Member]{path: o.file, what: "the mesh", of: o.memberOf}
	cfg := mesh.DaemonConfig{Collect: o.collect, Socket: o.socket, TLS: o.tls, Read: o.read, HostSignals: o.host, Follow: file.follow}
	var err error
	if o.rate != "" {
		if cfg.Rate, err = inventory.ParseSpeed(o.rate); err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
	}
	if cfg.Member, err = file.load(cmd.Context()); err != nil {
		return err
	}
	if o.tls.Cert != "" {
		if err := o.tls.Check(cfg.Host.Name); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
	}
	if o.collect && o.agents {
		asked := agentsAsked{open: make(map[string]*device.Daemon)}
		defer asked.close()
		cfg.Agents = asked.ask
	}
	log, end, err := o.log.Open()
	if err != nil {
		return err
	}
	defer end()
	service := process.NewService(log)
	defer service.Close()
	ctx, reload, stop := process.OnReload(cmd.Context())
	defer stop()
	cfg.Log, file.log, file.wish, file.reloading = log, log, reload, service.Reloading
	cfg.OnReady = func(alive func() bool, line func() string) { service.Ready(ctx, alive, line) }
	if o.metrics != "" {
		cfg.Beside = func(ctx context.Context, c *mesh.Collector) error {
			h := metrics.Handler(metrics.Process{Version: version, Devices: func() []metrics.Device { return nil }, Reload: file.reloaded, More: c.Families})
			return api.Observed(o.metrics, o.tls, api.TLSAccess{Read: o.read}, h, log, func() error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
	}
	if err := mesh.Run(ctx, cfg); !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return err
	}
	return nil
}

// memberOf is the host of a fleet file that is this machine, with the key that the file names.
func (o *meshOptions) memberOf(ctx context.Context, fleet *inventory.Fleet) (member mesh.Member, err error) {
	local, err := localHost(fleet)
	if err != nil {
		return member, err
	}
	switch collector := fleet.Mesh.Collector; {
	case o.collect && o.tls.Cert != "" && collector == "":
		return member, fmt.Errorf("%s: mesh: collector is missing: the address that the other hosts send their rows to, e.g. collector: %s", o.file, net.JoinHostPort(local.Address, "9918"))
	case !o.collect && collector == "":
		return member, fmt.Errorf("%s: mesh: collector is missing: where this host sends its rows, e.g. collector: 192.0.2.7:9918", o.file)
	case !o.collect && o.tls.Cert == "":
		return member, fmt.Errorf("--tls-cert, --tls-key and --tls-ca are missing: rows are sent with a certificate that has this host's name, %s", local.Name)
	}
	key, err := fleet.Mesh.Key.Resolve(ctx)
	return mesh.Member{Fleet: fleet, Host: local, Key: key}, err
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

// agentsAsked asks the agents of a fleet again and again, by connections that stay while the fleet does.
type agentsAsked struct {
	fleet  *inventory.Fleet
	opener *device.Opener

	mu   sync.Mutex
	open map[string]*device.Daemon
}

// agentWait is how long an agent may take to answer.
const agentWait = 4 * time.Second

// ask is the statuses of the devices whose agent the fleet file names; nil: it does not answer.
func (a *agentsAsked) ask(ctx context.Context, fleet *inventory.Fleet) map[string]*api.Status {
	if a.fleet != fleet {
		a.close()
		a.fleet, a.opener = fleet, device.NewOpener(fleet)
	}
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
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.open {
		_ = d.Close()
	}
	clear(a.open)
}
