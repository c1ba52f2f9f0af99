package main

import (
	"errors"
	"fmt"
	"net"

	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/controller"
)

// metricsFlags are those of the metrics of all devices.
type metricsFlags struct {
	addr string
	ca   string
	read []string
}

func (m *metricsFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&m.addr, "metrics", "", "serve metrics of all devices for Prometheus at this address, e.g. 127.0.0.1:9343; needs --tls-cert, --tls-key, --metrics-ca and --tls-read unless it is a loopback address")
	f.StringVar(&m.ca, "metrics-ca", "", "who signed the certificates of clients of --metrics (PEM)")
	f.StringSliceVar(&m.read, "tls-read", nil, "names of client certificates that may read --metrics, and csig mesh status")
}

// check refuses metrics whose readers are not known, or by the authority of controllers.
func (m *metricsFlags) check(cert string) error {
	host, _, err := net.SplitHostPort(m.addr)
	switch local := err == nil && api.IsLoopback(host); {
	case m.addr == "" && m.ca != "":
		return errors.New("--metrics-ca goes with --metrics")
	case m.addr == "" || err != nil || local: // the listener says what is wrong
		return nil
	case m.ca == "":
		return fmt.Errorf("--metrics %s: --metrics-ca is missing: who signed the certificates that may read it. --tls-ca does not serve for that: it is for controllers, which drive all devices", m.addr)
	case cert == "" || len(m.read) == 0:
		return fmt.Errorf("--metrics %s needs --tls-cert, --tls-key and --tls-read, too", m.addr)
	}
	return nil
}

// with runs the controller, with its metrics where they are to be served.
func (m *metricsFlags) with(cfg *controller.Config, files api.TLSFiles, more func() []*dto.MetricFamily, run func() error) error {
	if m.addr == "" {
		return run()
	}
	files.CA = m.ca
	all := metrics.Process{Version: cfg.Agent.Version, Devices: func() []metrics.Device { return cfg.Statuses.Devices(cfg.Share) }, Reload: cfg.Statuses.Reload, More: more}
	return api.Observed(m.addr, files, api.TLSAccess{Read: m.read}, metrics.Handler(all), cfg.Agent.Log, run)
}
