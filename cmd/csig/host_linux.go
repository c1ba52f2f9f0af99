package main

import (
	"context"
	"errors"

	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/inventory"
)

// hostOf is the host of a fleet file that is this machine.
func hostOf(file string) (*tcp.Config, error) {
	fleet, err := inventory.Load(file)
	if err != nil {
		return nil, err
	}
	return tcp.Local(fleet)
}

func hostRun(cmd *cobra.Command, o *hostOptions) error {
	file := fleetFile[*tcp.Config]{path: o.file, what: "TCP", of: func(_ context.Context, f *inventory.Fleet) (*tcp.Config, error) { return tcp.Local(f) }}
	host, err := file.load(cmd.Context())
	if err != nil {
		return err
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
	file.log, file.wish, file.reloading = log, reload, service.Reloading
	cfg := tcp.RunConfig{Config: host, Socket: o.socket, Pin: o.pin, Log: log, Follow: file.follow}
	cfg.OnReady = func(alive func() bool, line func() string) { service.Ready(ctx, alive, line) }
	if o.metrics != "" {
		cfg.Beside = func(ctx context.Context, status func() (*tcp.Status, error)) error {
			families := func() []*dto.MetricFamily {
				s, err := status()
				if err != nil {
					return nil // it is ending
				}
				return s.Families()
			}
			h := metrics.Handler(metrics.Process{Version: version, Devices: func() []metrics.Device { return nil }, Reload: file.reloaded, More: families})
			return api.Observed(o.metrics, o.tls, api.TLSAccess{Read: o.read}, h, log, func() error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
	}
	if err := tcp.Run(ctx, cfg); ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

func hostCheck(o *hostOptions) (*tcp.Check, error) {
	if o.file == "" {
		return tcp.Look(nil), nil
	}
	host, err := hostOf(o.file)
	if err != nil {
		return nil, err
	}
	return tcp.Look(host), nil
}
