package owner

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// ServerConfig describes the NATS server in this process.
type ServerConfig struct {
	Name   string      // unique in the cluster
	Dir    string      // where it keeps its streams
	Listen string      // HOST:PORT for the servers of other controllers; "" for none
	Peers  []Peer      // those
	TLS    *tls.Config // of both ends; nil: plaintext

	ClientsAt string // HOST:PORT for clients with certificates of Roles; "" for none but this process
	Roles     Roles

	Log *logrus.Entry
}

// Bounds of what the server may keep, in bytes: the histories of 10,000 configurations of 16 KiB,
// and the statuses of 1,000 devices. Where the files have no room any more, owners cannot confirm.
const (
	storeLimit  = 16 << 30
	memoryLimit = 256 << 20
)

// Server is a NATS server with JetStream that takes no clients but this process, and those whose
// certificates are listed.
type Server struct {
	options *server.Options
	log     *logrus.Entry
	audit   *natsLog // who was refused
	token   string   // of its only client
	front   *front   // of other clients; nil: there are none

	admission *admission
	stop      context.CancelFunc
	watched   chan struct{} // closed when nothing starts the server again

	mu sync.Mutex // guards ns
	ns *server.Server
}

// Serve starts a server.
func Serve(ctx context.Context, cfg ServerConfig) (*Server, error) {
	// A server with routes has to listen for clients, too: here with a secret of this process.
	token := rand.Text()
	may := &admission{token: token, node: nodeMay(), roles: cfg.Roles}
	o := &server.Options{
		ServerName: cfg.Name, Host: "127.0.0.1", Port: server.RANDOM_PORT, CustomClientAuthentication: may, MaxSubs: maxSubscriptions, NoSigs: true, JetStream: true, StoreDir: filepath.Join(cfg.Dir, "nats"),
		JetStreamMaxMemory: memoryLimit, JetStreamMaxStore: storeLimit, DisableJetStreamBanner: true,
		SyncAlways: true, // what is confirmed outlives the machine's power
	}
	one := &Server{options: o, admission: may, log: cfg.Log.WithField("part", "nats"), audit: newNATSLog(cfg.Log.WithField("part", "audit")), token: token, watched: make(chan struct{})}
	if cfg.Listen != "" {
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("--cluster %s: %w", cfg.Listen, err)
		}
		o.Cluster = server.ClusterOpts{Name: "csig", Host: host, PoolSize: 3, NoAdvertise: true, ConnectRetries: 1 << 30, ConnectBackoff: true}
		if o.Cluster.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("--cluster %s: %w", cfg.Listen, err)
		}
		if cfg.TLS != nil {
			var names []string
			for _, p := range cfg.Peers {
				names = append(names, p.Name)
			}
			o.Cluster.TLSConfig, o.Cluster.TLSTimeout = one.listed(cfg.TLS, nil, "--peer NAME=HOST:PORT", names...), 10
		}
		for _, p := range cfg.Peers {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: p.Addr})
		}
	}
	if cfg.ClientsAt != "" {
		if err := one.takeClients(cfg.ClientsAt, cfg.TLS, cfg.Roles); err != nil {
			return nil, err
		}
	}
	if err := one.start(ctx); err != nil {
		if one.front != nil {
			one.front.close()
		}
		return nil, err
	}
	if one.front != nil {
		one.front.wg.Go(one.front.serve)
	}
	wctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	one.stop = stop
	go one.watch(wctx)
	return one, nil
}

// start starts the server, and waits until it takes connections.
func (s *Server) start(ctx context.Context) error {
	ns, err := server.NewServer(s.options.Clone())
	if err != nil {
		return fmt.Errorf("the NATS server: %w", err)
	}
	l := newNATSLog(s.log)
	ns.SetLoggerV2(l, false, false, false)
	ns.Start()
	for !ns.ReadyForConnections(100 * time.Millisecond) {
		fatal := l.fatal.Load()
		if ctx.Err() == nil && fatal == nil && ns.Running() {
			continue
		}
		ns.Shutdown()
		ns.WaitForShutdown()
		switch {
		case fatal != nil:
			return fmt.Errorf("the NATS server: %w", *fatal)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return errors.New("the NATS server does not start")
	}
	s.mu.Lock()
	s.ns = ns
	s.mu.Unlock()
	return nil
}

// Connect returns a connection of this process.
func (s *Server) Connect(name string, log *logrus.Entry) (*nats.Conn, error) {
	return connect("", name, log, nats.InProcessServer(s), nats.Token(s.token))
}

// InProcessConn is a connection to the server that runs now.
func (s *Server) InProcessConn() (net.Conn, error) { return s.now().InProcessConn() }

func (s *Server) now() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// Close ends the server, when its connections are closed.
func (s *Server) Close() {
	s.stop()
	if s.front != nil {
		s.front.close()
	}
	<-s.watched
	s.end()
}

func (s *Server) end() {
	ns := s.now()
	ns.Shutdown()
	ns.WaitForShutdown()
}

// Connect connects to a cluster that exists, and connects again until closed.
func Connect(urls, name, credentials string, conf *tls.Config, log *logrus.Entry) (*nats.Conn, error) {
	opts := []nats.Option{nats.RetryOnFailedConnect(true)}
	if credentials != "" {
		opts = append(opts, nats.UserCredentials(credentials))
	}
	if conf != nil {
		opts = append(opts, nats.Secure(conf))
	}
	return connect(urls, name, log, opts...)
}

// again is how long a lost connection rests before the next try, which is a part of the shortest
// term.
const again = MinTerm / 12

func connect(urls, name string, log *logrus.Entry, more ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(urls, append(more, nats.Name("csig-controller "+name), nats.CustomInboxPrefix(inbox(name)), nats.MaxReconnects(-1), nats.ReconnectWait(again),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.WithError(err).Warn("the connection to NATS is lost")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.WithError(err).Debug("NATS") }),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}
