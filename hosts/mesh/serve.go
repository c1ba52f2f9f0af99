package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Where a collector answers.
const (
	RowsPath   = "/v1/mesh/rows" // POST: a Report
	StatusPath = "/v1/mesh"      // GET: a Status
	WhyPath    = "/v1/mesh/why"  // GET, with from and to: a Why

	HistogramsPath = "/v1/mesh/histograms" // GET: Histograms

	maxReport   = 1 << 20         // bytes
	leastConns  = 4096            // hosts may join
	agentsEvery = 5 * time.Second // agents are asked
)

// ServerConfig is a collector and where it answers.
type ServerConfig struct {
	Fleet  *inventory.Fleet // with a Mesh
	Socket string           // unix socket for csig mesh status
	Addr   string           // TCP, where hosts send their rows, with TLS; "": nowhere
	TLS    api.TLSFiles
	Read   []string // names of client certificates that may read, too
	Log    *logrus.Entry

	// Agents asks the agents of the fleet's switches, as Collector.Agents takes them; nil: nobody asks.
	Agents func(ctx context.Context, fleet *inventory.Fleet) map[string]*api.Status
}

// Server is a collector that answers.
type Server struct {
	*Collector
	cfg       ServerConfig
	listeners []*api.Listener

	mu     sync.Mutex
	logged map[string]time.Time // when rows were refused last that said they are of a host; "" is all others
}

// NewServer opens a collector's socket and address. Errors name the flag.
func NewServer(cfg ServerConfig) (*Server, error) {
	s := &Server{Collector: NewCollector(cfg.Fleet), cfg: cfg, logged: make(map[string]time.Time)}
	unix, err := api.ListenSocket(cfg.Socket)
	if err != nil {
		return nil, err
	}
	if err := s.listen(api.ListenerConfig{Flag: "--socket", On: unix, Conns: 64, Handler: s.handler(nil)}); err != nil {
		return nil, err
	}
	if cfg.Addr == "" {
		return s, nil
	}
	var rows *api.Listener
	err = s.listen(api.ListenerConfig{
		Flag: "the mesh's collector", Addr: cfg.Addr, TLS: cfg.TLS, Conns: max(leastConns, 2*(len(cfg.Fleet.Hosts)+32)), Warn: cfg.Log.Warnf,
		Handler: s.handler(func(r *http.Request) []string { return rows.NamesOf(r) }), Body: hasBody,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	rows = s.listeners[1]
	return s, nil
}

func (s *Server) listen(cfg api.ListenerConfig) error {
	l, err := api.ListenTCP(cfg)
	if err == nil {
		s.listeners = append(s.listeners, l)
	}
	return err
}

// Close ends it.
func (s *Server) Close() (err error) {
	for _, l := range s.listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan error, len(s.listeners)+1)
	for _, l := range s.listeners {
		go func() { ended <- l.Serve(log.New(io.Discard, "", 0)) }()
	}
	go func() { // findings have to last, whether or not somebody asks
		for wait(ctx, s.often()) == nil {
			s.Status()
		}
	}()
	if s.cfg.Agents != nil {
		go func() {
			for {
				s.Agents(s.cfg.Agents(ctx, s.now()))
				if wait(ctx, agentsEvery) != nil {
					return
				}
			}
		}()
	}
	select {
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), s.Close())
	case err := <-ended:
		return errors.Join(err, s.Close())
	}
}

// often is how often the status is worked out where nobody asks.
func (c *Collector) often() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent() / 2
}

// now is the fleet as it was last read.
func (c *Collector) now() *inventory.Fleet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fleet
}

// hasBody reports whether a request has a body.
func hasBody(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == RowsPath }

// handler answers for the collector. names are those of who sends a request; nil: everyone may read, and nobody send.
func (s *Server) handler(names func(*http.Request) []string) http.Handler {
	mux := http.NewServeMux()
	mayRead := func(r *http.Request) bool {
		return names == nil || slices.ContainsFunc(names(r), func(n string) bool { return slices.Contains(s.cfg.Read, n) })
	}
	read := func(path string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !mayRead(r) {
				api.WriteError(w, &vendors.PermanentError{Err: errors.New("none of the names of this certificate may read here (--tls-read)")})
				return
			}
			out, err := answer(r)
			if err != nil {
				api.WriteError(w, &vendors.PermanentError{Err: err})
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out) // its reader has gone
		})
	}
	read(StatusPath, func(*http.Request) (any, error) { return s.Status(), nil })
	read(WhyPath, func(r *http.Request) (any, error) { return s.Why(r.URL.Query().Get("from"), r.URL.Query().Get("to")) })
	read(HistogramsPath, func(*http.Request) (any, error) { return s.Histograms(), nil })
	mux.HandleFunc("POST "+RowsPath, func(w http.ResponseWriter, r *http.Request) {
		body, err := api.ReadBody(w, r, maxReport)
		var report Report
		if err == nil {
			err = json.Unmarshal(body, &report)
		}
		switch {
		case err != nil:
		case report.Format != RowsFormat:
			err = fmt.Errorf("format %q, want %q", report.Format, RowsFormat)
		case names == nil || !slices.Contains(names(r), report.Host):
			err = errors.New("rows of a host come with a certificate that has its name")
		default:
			err = s.Add(report.Host, &report)
		}
		if err != nil {
			s.refused(report.Host, r.RemoteAddr, err)
			api.WriteError(w, &vendors.PermanentError{Err: err})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// refused logs that rows were, of each host once a minute.
func (s *Server) refused(host, from string, err error) {
	if !s.has(host) {
		host = ""
	}
	s.mu.Lock()
	last := s.logged[host]
	now := time.Now()
	if last.IsZero() || now.Sub(last) >= time.Minute {
		s.logged[host] = now
	}
	s.mu.Unlock()
	if last.IsZero() || now.Sub(last) >= time.Minute {
		s.cfg.Log.WithFields(logrus.Fields{"from": from, "error": untrusted.Text(err.Error(), 300)}).Warn("rows are refused")
	}
}

// CollectorPort is the port of a mesh's collector.
func CollectorPort(f *inventory.Fleet) string {
	_, port, _ := net.SplitHostPort(f.Mesh.Collector)
	return port
}

// CollectorPeer is what messages say of a collector's certificates; the settings are the client's own.
func CollectorPeer(ca, server string) api.TLSPeer {
	return api.TLSPeer{Name: "collector", CA: ca, Server: server, Cert: "its --tls-cert", Clients: "--tls-ca (of a controller, --mesh-ca)"}
}

// CollectorName is the name in the collector's certificate: that of a host where it is one of the mesh.
func CollectorName(f *inventory.Fleet) string {
	name, _, _ := net.SplitHostPort(f.Mesh.Collector)
	for i := range f.Hosts {
		if f.Hosts[i].Address == name {
			return f.Hosts[i].Name
		}
	}
	return name
}
