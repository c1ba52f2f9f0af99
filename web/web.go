// Package web is a page of what csig drives, for browsers: the fleet as a weather map, a
// table of its ports, and a port's history, live. It is read-only. Its assets are embedded,
// and nothing on it comes from another host.
package web

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
)

// Config is what a page needs.
type Config struct {
	Addr string       // HOST:PORT to listen at
	On   net.Listener // instead of one at Addr; nil: none

	// Fleet has the fleet's devices and links, for the map (nil: there are none known), and the
	// names of the devices that are driven here; a device without a name has that of its status.
	// It is called once a second, and what it returns is not changed any more.
	Fleet  func() (*inventory.Fleet, []string)
	Status func(device string) *api.Status // nil while no agent of it runs; called about once a second
	// Why is what has made a port's signals what they were, of the agent that runs here; nil: it is not known.
	Why   func(device, port string) (*api.Why, error)
	Owner func(device string) string // the controller that drives it, "" while none does; nil where there is one alone
	Mesh  *mesh.Collector            // of the hosts' mesh; nil: none is collected here

	TLS   api.TLSFiles // no Cert: there is no TLS, and Addr is of loopback
	Read  []string     // names of client certificates from TLS.CA that may read
	Token string       // file with a token, which a browser asks for as a password; "": there is none

	Plan string // file of csig plan -o whose differences the page shows; "": none

	Memory int // bytes that the history of all ports may take
	Log    *logrus.Entry
}

// Bounds of the server.
const (
	maxConns     = 192
	maxLive      = 64               // clients that follow the page live
	writeTimeout = 10 * time.Second // of an answer, or of one event; a client that is slower is dropped
)

// Server serves the page.
type Server struct {
	cfg   Config
	board *board
	ln    *api.Listener
	live  chan struct{} // a place for each client that follows
	drawn mapText
	plan  planFile
	paths fleetPaths
	mesh  meshText
	stop  chan struct{}

	travels chan struct{} // a place for each answer of the past
}

// Listen opens the page's address. Serve answers there.
func Listen(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, board: newBoard(&cfg), live: make(chan struct{}, maxLive), stop: make(chan struct{}), travels: make(chan struct{}, maxTravels)}
	var err error
	if s.ln, err = api.ListenTCP(api.ListenerConfig{
		Flag: "--web", Addr: cfg.Addr, On: cfg.On, TLS: cfg.TLS, Access: api.TLSAccess{Read: cfg.Read}, Login: cfg.Token != "", Conns: maxConns, Warn: cfg.Log.Warnf,
		Handler: s.guard(s.routes()),
	}); err != nil {
		return nil, err
	}
	return s, nil
}

// check refuses what would let anybody read the page.
func (cfg *Config) check() error {
	host, _, err := net.SplitHostPort(cfg.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("--web %s: %w: give HOST:PORT, as 127.0.0.1:8080", cfg.Addr, err)
	case (cfg.TLS.Cert == "") != (cfg.TLS.Key == ""):
		return errors.New("--web-cert and --web-key go together")
	case (cfg.TLS.CA == "") != (len(cfg.Read) == 0):
		return errors.New("--web-ca and --web-read go together: who signed the clients' certificates, and the names in them that may read the page")
	case cfg.TLS.Cert == "" && !api.IsLoopback(host):
		return fmt.Errorf("--web %s: anybody could read the page there: give --web-cert and --web-key, with --web-token or --web-ca, or listen at 127.0.0.1 and reach it with ssh -L", cfg.Addr)
	case cfg.TLS.Cert == "" && cfg.TLS.CA != "":
		return errors.New("--web-ca needs --web-cert and --web-key")
	case cfg.TLS.Cert != "" && cfg.TLS.CA == "" && cfg.Token == "":
		return errors.New("--web-cert: no client could read the page: give --web-token, or --web-ca and --web-read")
	}
	if cfg.Token != "" {
		_, err = readToken(cfg.Token)
	}
	return err
}

// Addr is where the page is.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve follows the devices and answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() { defer close(followed); s.board.follow(ctx) }()
	defer func() { cancel(); <-followed }()
	defer context.AfterFunc(ctx, func() { close(s.stop); _ = s.ln.Close() })()
	// Failed handshakes and the like are the clients' affair.
	errs := s.cfg.Log.WriterLevel(logrus.DebugLevel)
	defer errs.Close()
	if err := s.ln.Serve(log.New(errs, "", 0)); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--web %s: %w", s.cfg.Addr, err)
	}
	return nil
}

// Beside serves a page while run runs, if one has an address. A page that fails while it runs is logged: what keeps
// the switches' rules true goes on without it.
func Beside(ctx context.Context, cfg Config, run func(context.Context) error) error {
	if cfg.Addr == "" {
		if cfg.Token != "" || cfg.Plan != "" || cfg.TLS != (api.TLSFiles{}) || len(cfg.Read) > 0 {
			return errors.New("flags say how a page is served, and none where: give --web, e.g. --web 127.0.0.1:8080")
		}
		return run(ctx)
	}
	s, err := Listen(cfg)
	if err != nil {
		return err
	}
	cfg.Log.WithField("address", s.Addr().String()).Info("serving the page")
	wctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := s.Serve(wctx); err != nil {
			cfg.Log.WithError(err).Error("the page has ended")
		}
	}()
	defer func() { stop(); <-served }()
	return run(ctx)
}
