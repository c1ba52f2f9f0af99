package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Member is one host of a mesh, as its fleet file has it.
type Member struct {
	Fleet *inventory.Fleet // with a Mesh
	Host  *inventory.Host  // this machine
	Key   string
}

// DaemonConfig is what csig mesh run does on one host.
type DaemonConfig struct {
	Member
	Rate    uint64       // bit/s that probes and answers may take at most; 0: a thousandth of the link
	Collect bool         // this host is the collector, too, at the port of the mesh's collector
	Socket  string       // unix socket for csig mesh status, where Collect
	TLS     api.TLSFiles // towards the other hosts; empty: rows stay here
	Read    []string     // names of certificates that may read the status
	Log     *logrus.Entry

	// HostSignals is the socket at which csig host run of this machine offers signals; "" is the one that is there of the unit's and the usual one.
	HostSignals string

	// Follow runs beside, until ctx ends, and has every change of the fleet file put in force; of what cannot be,
	// the error says why, and the host goes on as it was. Nil: the fleet file does not change.
	Follow func(ctx context.Context, put func(Member) error)

	// Agents asks the agents of switches, where Collect; nil: nobody does. As ServerConfig.Agents.
	Agents func(ctx context.Context, fleet *inventory.Fleet) map[string]*api.Status

	// Beside runs beside a collector: its metrics. Nil: nothing.
	Beside func(ctx context.Context, c *Collector) error

	// OnReady is called when the host probes: with whether it makes progress, and its state in a few words. Nil: nobody.
	OnReady func(alive func() bool, line func() string)
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

// membership is a host that probes by one fleet file.
type membership struct {
	Member
	cfg     *DaemonConfig
	sockets *Sockets
	prober  *Prober
}

// join opens what a host needs to probe and to answer.
func (cfg *DaemonConfig) join(m Member) (*membership, error) {
	self := netip.MustParseAddr(m.Host.Address).Unmap()
	p := Config{Addr: self, CSIG: m.Host.CSIG, Profile: &m.Fleet.Profile, Signals: m.Fleet.Profile.Carried(), Key: []byte(m.Key)}
	for i := range m.Fleet.Hosts {
		h := &m.Fleet.Hosts[i]
		if h.Address == "" || h.Name == m.Host.Name {
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
			return nil, err
		}
		speed := LinkSpeed(own.Name)
		if speed == 0 {
			speed = unknownSpeed
			cfg.Log.WithField("interface", own.Name).Warn("the interface reports no speed: taken for 1 Gbit/s; give --rate")
		}
		rate = speed / 1000
	}
	p.Interval = Interval(m.Fleet.Mesh.Interval, len(p.Peers), rate)
	sockets, err := OpenSockets(&m.Fleet.Profile, self, m.Fleet.Mesh.Port, cfg.HostSignals)
	if err != nil {
		return nil, err
	}
	p.Packets = sockets
	prober, err := NewProber(p)
	if err != nil {
		return nil, errors.Join(err, sockets.Close())
	}
	cfg.Log.WithFields(logrus.Fields{"host": m.Host.Name, "peers": len(p.Peers), "interval": p.Interval.Round(time.Millisecond).String(), "sockets": sockets.Kind()}).Info("mesh runs")
	return &membership{m, cfg, sockets, prober}, nil
}

// run probes, answers and reports until ctx ends.
func (m *membership) run(ctx context.Context, c *Collector, reported func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, part := range []func() error{
		func() error { return m.sockets.Receive(ctx, m.prober, m.changed) },
		func() error { return m.prober.Run(ctx) },
		func() error { return m.report(ctx, c, reported) },
	} {
		all.Go(func() { cancel(part()) })
	}
	<-ctx.Done()
	_ = m.sockets.Close() // which ends who receives
	all.Wait()
	return context.Cause(ctx)
}

// changed logs that tagged probes cannot be received, and that they are again, or in another way.
func (m *membership) changed(err error) {
	if err != nil {
		m.cfg.Log.WithError(err).Warn("no tagged probes are received: tried again each second")
	} else {
		m.cfg.Log.WithField("sockets", m.sockets.Kind()).Info("tagged probes are received")
	}
}

// socketsKind is that of the host's sockets; "" where it has none, in a test.
func (m *membership) socketsKind() string {
	if m.sockets == nil {
		return ""
	}
	return m.sockets.Kind()
}

// newFile is a changed fleet file, and where to say whether it is in force.
type newFile struct {
	Member
	done chan error
}

// Run probes, answers and collects until ctx ends.
func Run(ctx context.Context, cfg DaemonConfig) error {
	now, err := cfg.join(cfg.Member)
	if err != nil {
		return err
	}
	defer func() { _ = now.sockets.Close() }() // where it does not come to run
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	var collector *Collector
	if cfg.Collect {
		if is := CollectorName(cfg.Fleet); cfg.Fleet.Mesh.Collector != "" && is != cfg.Host.Name {
			cfg.Log.WithField("collector", cfg.Fleet.Mesh.Collector).Warn("--collect: by the fleet file the hosts send what they find to another collector (mesh: collector)")
		}
		to := ServerConfig{Fleet: cfg.Fleet, Socket: cfg.Socket, TLS: cfg.TLS, Read: cfg.Read, Log: cfg.Log, Agents: cfg.Agents}
		if cfg.TLS.Cert != "" {
			to.Addr = ":" + CollectorPort(cfg.Fleet)
		}
		server, err := NewServer(to)
		if err != nil {
			return err
		}
		collector = server.Collector
		all.Go(func() { cancel(server.Run(ctx)) })
		if cfg.Beside != nil {
			all.Go(func() { cancel(cfg.Beside(ctx, collector)) })
		}
	}
	var reported, peers atomic.Int64 // when, in ns since it began, which no clock that is set changes; how many
	began := time.Now()
	reports := func() { reported.Store(int64(time.Since(began))) }
	peers.Store(int64(len(now.prober.cfg.Peers)))
	changes := make(chan newFile)
	if cfg.Follow != nil {
		all.Go(func() {
			cfg.Follow(ctx, func(m Member) error {
				c := newFile{m, make(chan error, 1)}
				select {
				case changes <- c:
					return <-c.done
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		})
	}
	if cfg.OnReady != nil {
		cfg.OnReady(func() bool { return time.Since(began)-time.Duration(reported.Load()) < hangs }, func() string {
			if n := peers.Load(); n != 1 {
				return fmt.Sprintf("%s: probes %d hosts", cfg.Host.Name, n)
			}
			return cfg.Host.Name + ": probes 1 host"
		})
	}
	ended := make(chan error, 1)
	start := func() (end func()) {
		one, end := context.WithCancel(ctx)
		go func() { ended <- now.run(one, collector, reports) }()
		return end
	}
	end := start()
	defer func() { end() }()
	for {
		select {
		case err := <-ended:
			return err
		case c := <-changes:
			err := cfg.checkPort(c.Member)
			if err == nil && !now.same(c.Member) {
				end()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					cfg.Log.WithError(err).Warn("probing had failed before the fleet file changed")
				}
				next, failed := cfg.replace(now, c.Member)
				if next == nil {
					c.done <- failed
					return failed
				}
				now, err = next, failed
				peers.Store(int64(len(now.prober.cfg.Peers)))
				end = start()
			}
			if err == nil && collector != nil {
				collector.Reload(c.Fleet)
			}
			c.done <- err
		}
	}
}

// hangs is for how long no rows were handed on of a host that makes no progress: an interval may be a minute, and an
// answer takes its time.
const hangs = 2 * time.Minute

// checkPort refuses what a collector that runs cannot do.
func (cfg *DaemonConfig) checkPort(m Member) error {
	if is, was := CollectorPort(m.Fleet), CollectorPort(cfg.Fleet); cfg.Collect && cfg.TLS.Cert != "" && is != was {
		return fmt.Errorf("mesh: collector: port %s: this collector keeps port %s until csig mesh run is started again", is, was)
	}
	return nil
}

// same reports whether a host probes as before by another fleet file.
func (m *membership) same(o Member) bool {
	return m.Key == o.Key && m.Fleet.Profile.Hash() == o.Fleet.Profile.Hash() && reflect.DeepEqual(m.Fleet.Mesh, o.Fleet.Mesh) &&
		reflect.DeepEqual(m.Host, o.Host) && reflect.DeepEqual(m.Fleet.Hosts, o.Fleet.Hosts)
}

// replace has a host that has ended probe by another fleet file, or with an error as before; nil: it can neither.
func (cfg *DaemonConfig) replace(before *membership, m Member) (*membership, error) {
	next, err := cfg.join(m)
	if err == nil {
		return next, nil
	}
	again, failed := cfg.join(before.Member)
	return again, errors.Join(err, failed)
}

// report hands rows on, MostRows a second at most.
func (m *membership) report(ctx context.Context, c *Collector, reported func()) error {
	every := max(time.Second, m.Fleet.Mesh.Interval)
	var client *http.Client
	defer func() {
		if client != nil {
			client.CloseIdleConnections()
		}
	}()
	var refused string // why, and since when the log has that
	var logged time.Time
	for {
		if err := wait(ctx, every); err != nil {
			return err
		}
		r := Report{Format: RowsFormat, Host: m.Host.Name, IntervalNS: min(m.prober.cfg.Interval, longestInterval).Nanoseconds(), Sockets: m.socketsKind(), Rows: m.prober.Rows(most(m.Fleet.Mesh.Interval)), Counts: m.prober.Counts()}
		var err error
		switch {
		case c != nil:
			err = c.Add(m.Host.Name, &r)
		case m.Fleet.Mesh.Collector != "" && m.cfg.TLS.Cert != "":
			if client == nil {
				client, err = m.client()
			}
			if err == nil {
				err = send(ctx, client, m.cfg.TLS, m.Fleet.Mesh.Collector, &r)
			}
			if err != nil && client != nil { // a certificate that was renewed is read then
				client.CloseIdleConnections()
				client = nil
			}
		}
		reported()
		if err != nil {
			m.prober.Untaken(r.Rows)
		}
		switch {
		case ctx.Err() != nil:
		case err == nil && refused != "":
			m.cfg.Log.Info("the collector takes the rows again")
			refused = ""
		case err != nil && (refused == "" || time.Since(logged) >= time.Minute): // reasons may come in turns
			m.cfg.Log.WithError(err).Warn("the collector does not take the rows")
			refused, logged = err.Error(), time.Now()
		}
	}
}

// client is one of the collector, with the certificates as they are now.
func (m *membership) client() (*http.Client, error) {
	tls, err := m.cfg.TLS.Client(CollectorName(m.Fleet))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tls, MaxResponseHeaderBytes: 16 << 10}, Timeout: 10 * time.Second}, nil
}

// send hands a report to the collector at an address; files are those of the client.
func send(ctx context.Context, client *http.Client, files api.TLSFiles, addr string, r *Report) error {
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
		return files.Explain(err, client.Transport.(*http.Transport).TLSClientConfig, CollectorPeer("--tls-ca", ""))
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	var why api.Error
	if json.Unmarshal(said, &why) != nil || why.Message == "" {
		why.Message = resp.Status
	}
	return errors.New(untrusted.Text(why.Message, 300))
}
