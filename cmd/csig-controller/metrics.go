package main

import (
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/controller"
)

// metricsFlags are those of the metrics of all devices.
type metricsFlags struct {
	addr string
	read []string
}

func (m *metricsFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&m.addr, "metrics", "", "serve metrics of all devices for Prometheus at this address, e.g. 127.0.0.1:9343; needs the TLS files and --tls-read unless it is a loopback address")
	f.StringSliceVar(&m.read, "tls-read", nil, "names of client certificates that may read --metrics")
}

// with runs the controller, with its metrics where they are to be served.
func (m *metricsFlags) with(cfg *controller.Config, files api.TLSFiles, run func() error) error {
	if m.addr == "" {
		return run()
	}
	all := metrics.Process{Version: cfg.Agent.Version, Devices: func() []metrics.Device { return cfg.Statuses.Devices(cfg.Share) }, Reload: cfg.Statuses.Reload}
	return api.Observed(m.addr, files, api.TLSAccess{Read: m.read}, metrics.Handler(all), cfg.Agent.Log, run)
}
