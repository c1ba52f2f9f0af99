package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// DaemonConfig is what csig mesh run does on one host.
type DaemonConfig struct {
	Fleet   *inventory.Fleet // with a Mesh
	Host    *inventory.Host  // this machine
	Key     string
	Rate    uint64       // bit/s that probes and answers may take at most; 0: a thousandth of the link
	Collect bool         // this host is the collector, too, at the port of the mesh's collector
	Socket  string       // unix socket for csig mesh status, where Collect
	TLS     api.TLSFiles // towards the other hosts; empty: rows stay here
	Read    []string     // names of certificates that may read the status
	Log     *logrus.Entry

	// Agents asks the agents of switches, where Collect; nil: nobody does. As Collector.Agents.
	Agents func(ctx context.Context) map[string]*api.Status

	// Beside runs beside a collector: its metrics. Nil: nothing.
	Beside func(ctx context.Context, c *Collector) error
}

// LinkSpeed is what a network interface reports, in bit/s; 0 where it does not.
func LinkSpeed(name string) uint64 {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "speed"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return uint64(n) * 1_000_000
}

// unknownSpeed is that of a link that reports none.
const unknownSpeed = 1_000_000_000

// Run probes, answers and collects until ctx ends.
func Run(ctx context.Context, cfg DaemonConfig) error {
	self := netip.MustParseAddr(cfg.Host.Address).Unmap()
	mesh := cfg.Fleet.Mesh
	sockets, err := OpenSockets(&cfg.Fleet.Profile, self, mesh.Port)
	if err != nil {
		return err
	}
	defer sockets.Close() // where it does not come to that below
	p := Config{CSIG: cfg.Host.CSIG, Profile: &cfg.Fleet.Profile, Signals: cfg.Fleet.Profile.Carried(), Key: []byte(cfg.Key), Packets: sockets}
	for i := range cfg.Fleet.Hosts {
		h := &cfg.Fleet.Hosts[i]
		if h.Address == "" || h.Name == cfg.Host.Name {
			continue
		}
		addr := netip.MustParseAddr(h.Address).Unmap()
		if addr.Is4() != self.Is4() {
			cfg.Log.WithField("peer", h.Name).Warn("the peer has an address of another family: it is not probed")
			continue
		}
		p.Peers = append(p.Peers, Peer{Name: h.Name, Addr: addr, CSIG: h.CSIG})
	}
	rate := cfg.Rate
	if rate == 0 {
		own, err := interfaceOf(self)
		if err != nil {
			return err
		}
		speed := LinkSpeed(own.Name)
		if speed == 0 {
			speed = unknownSpeed
			cfg.Log.WithField("interface", own.Name).Warn("the interface reports no speed: taken for 1 Gbit/s; give --rate")
		}
		rate = speed / 1000
	}
	p.Interval, p.Asked = Interval(mesh.Interval, len(p.Peers), rate), mesh.Interval
	prober, err := NewProber(p)
	if err != nil {
		return err
	}
	cfg.Log.WithFields(logrus.Fields{"host": cfg.Host.Name, "peers": len(p.Peers), "interval": p.Interval.String()}).Info("mesh runs")

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts []func() error
	var collector *Collector
	if cfg.Collect {
		to := ServerConfig{Fleet: cfg.Fleet, Socket: cfg.Socket, TLS: cfg.TLS, Read: cfg.Read, Log: cfg.Log, Agents: cfg.Agents}
		if cfg.TLS.Cert != "" {
			to.Addr = ":" + CollectorPort(cfg.Fleet)
		}
		server, err := NewServer(to)
		if err != nil {
			return err
		}
		collector = server.Collector
		parts = append(parts, func() error { return server.Run(ctx) })
		if cfg.Beside != nil {
			parts = append(parts, func() error { return cfg.Beside(ctx, collector) })
		}
	}
	parts = append(parts,
		func() error { return sockets.Receive(ctx, prober) },
		func() error { return prober.Run(ctx) },
		func() error { return cfg.report(ctx, prober, collector) })
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() { cancel(part()) })
	}
	<-ctx.Done()
	err = context.Cause(ctx)
	_ = sockets.Close() // which ends who receives
	all.Wait()
	return err
}

// report hands rows on, MostRows a second at most.
func (cfg *DaemonConfig) report(ctx context.Context, p *Prober, c *Collector) error {
	var client *http.Client
	if c == nil && cfg.Fleet.Mesh.Collector != "" && cfg.TLS.Cert != "" {
		tls, err := cfg.TLS.Client(collectorName(cfg.Fleet))
		if err != nil {
			return err
		}
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: tls, MaxResponseHeaderBytes: 16 << 10}, Timeout: 10 * time.Second}
	}
	every := max(time.Second, cfg.Fleet.Mesh.Interval)
	for {
		if err := wait(ctx, every); err != nil {
			return err
		}
		r := Report{Format: RowsFormat, Host: cfg.Host.Name, Rows: p.Rows(most(cfg.Fleet.Mesh.Interval)), Counts: p.Counts()}
		var err error
		switch {
		case c != nil:
			err = c.Add(cfg.Host.Name, &r)
		case client != nil:
			err = send(ctx, client, cfg.Fleet.Mesh.Collector, &r)
		}
		if err != nil && ctx.Err() == nil {
			cfg.Log.WithError(err).Warn("the collector does not take the rows")
		}
	}
}

// collectorName is the name in the collector's certificate: that of a host where it is one of the mesh.
func collectorName(f *inventory.Fleet) string {
	name, _, _ := net.SplitHostPort(f.Mesh.Collector)
	for i := range f.Hosts {
		if f.Hosts[i].Address == name {
			return f.Hosts[i].Name
		}
	}
	return name
}

func send(ctx context.Context, client *http.Client, addr string, r *Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+RowsPath, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", resp.Status, untrusted.Text(string(said), 300))
	}
	return nil
}
