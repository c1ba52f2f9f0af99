package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// sharing is how controllers share a fleet.
type sharing struct {
	name     string
	term     time.Duration
	nats     string
	creds    string
	replicas int

	listen        string
	peers         []string // NAME=HOST:PORT
	clients       string   // HOST:PORT for those of roles
	roles         owner.Roles
	cert, key, ca string
	plain         bool
}

func (s *sharing) flags(f *pflag.FlagSet) {
	f.StringVar(&s.name, "name", "", "this controller's name among others; the machine's unless given")
	f.DurationVar(&s.term, "term", 15*time.Second, "how long a device's owner must be silent until another controller takes the device")
	f.IntVar(&s.replicas, "replicas", 3, "how many servers of --nats keep each key: 1 where there is one")
	f.StringVar(&s.nats, "nats", "", "share the fleet through this NATS cluster (URLs, separated by commas)")
	f.StringVar(&s.creds, "nats-creds", "", "file with the credentials for --nats")
	f.StringVar(&s.listen, "cluster", "", "share the fleet with the controllers of --peer: HOST:PORT to listen at for their NATS servers")
	f.StringArrayVar(&s.peers, "peer", nil, "NAME=HOST:PORT of another controller's --cluster: its certificate has that name, and no other certificate gets in; two of them, or four")
	f.StringVar(&s.clients, "clients-at", "", "HOST:PORT for those of --clients and --observers, with --cluster")
	f.StringSliceVar(&s.roles.Clients, "clients", nil, "names of certificates of controllers that use this cluster with --nats")
	f.StringSliceVar(&s.roles.Observers, "observers", nil, "names of certificates of programs that read statuses (csig_status)")
	f.StringVar(&s.cert, "tls-cert", "", "this controller's certificate, for --cluster, --nats and --metrics")
	f.StringVar(&s.key, "tls-key", "", "its key")
	f.StringVar(&s.ca, "tls-ca", "", "who signed those of the other controllers, for --cluster and --nats")
	f.BoolVar(&s.plain, "insecure-cluster", false, "let --cluster do without TLS: every host that reaches it can drive all devices")
}

// files are those of TLS among controllers.
func (s *sharing) files() api.TLSFiles { return api.TLSFiles{Cert: s.cert, Key: s.key, CA: s.ca} }

// shared reports whether there are other controllers.
func (s *sharing) shared() bool { return s.nats != "" || s.listen != "" }

// check refuses what cannot be meant. Certificate and key may be those of metrics alone.
func (s *sharing) check(metrics bool) error {
	shared := s.shared()
	if err := s.checkClients(); err != nil {
		return err
	}
	switch {
	case s.nats != "" && s.listen != "":
		return errors.New("--nats and --cluster exclude each other: controllers use a NATS cluster that exists, or run their own")
	case !shared && s.ca != "":
		return errors.New("--tls-ca is for controllers, and goes with --cluster or --nats; that of clients of --metrics is --metrics-ca, and of --web --web-ca")
	case !shared && (len(s.peers) > 0 || !metrics && (s.cert != "" || s.key != "") || s.creds != "" || s.plain || s.name != ""):
		return errors.New("--name, --peer and --nats-creds go with --cluster or --nats, and --tls-cert and --tls-key with these, --metrics or --mesh")
	case s.listen != "" && len(s.peers) != 2 && len(s.peers) != 4:
		return fmt.Errorf("--cluster with %d other controllers (--peer): of three controllers two can continue when one is lost, of two none: give two others, or four", len(s.peers))
	case s.listen != "" && !s.plain && (s.cert == "" || s.key == "" || s.ca == ""):
		return errors.New("--cluster takes --tls-cert, --tls-key and --tls-ca: who reaches it can drive all devices (or --insecure-cluster)")
	case (s.cert == "") != (s.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case s.nats != "" && !metrics && (s.cert == "") != (s.ca == ""):
		return errors.New("--tls-cert, --tls-key and --tls-ca go together with --nats")
	case s.replicas != 1 && s.replicas != 3 && s.replicas != 5 || s.listen != "" && s.replicas != 3:
		return fmt.Errorf("--replicas %d: 3 with --cluster, else 1, 3 or 5", s.replicas)
	case s.name != "" && !plainName.MatchString(s.name):
		return fmt.Errorf("--name %q: want letters, digits and -_. alone, 64 at most", s.name)
	case s.term < owner.MinTerm:
		return fmt.Errorf("--term %v: it takes at least %v", s.term, owner.MinTerm)
	}
	for _, at := range []string{s.listen, s.clients} {
		if at != "" && !isAddress(at) {
			return fmt.Errorf("--cluster and --clients-at want HOST:PORT: %q", at)
		}
	}
	_, err := s.others()
	return err
}

// checkClients refuses clients without a listener, and the reverse.
func (s *sharing) checkClients() error {
	named := len(s.roles.Clients)+len(s.roles.Observers) > 0
	switch {
	case named != (s.clients != ""):
		return errors.New("--clients-at goes with --clients or --observers: it says where those connect, and they who may")
	case named && (s.listen == "" || s.plain):
		return errors.New("--clients-at, --clients and --observers go with --cluster and TLS: a client is known by its certificate")
	}
	for _, name := range s.roles.Observers {
		if slices.Contains(s.roles.Clients, name) {
			return fmt.Errorf("%q is among --clients and among --observers: a client reads statuses, too", name)
		}
	}
	return nil
}

// others are those of --peer.
func (s *sharing) others() (list []owner.Peer, err error) {
	seen := map[string]bool{s.name: true}
	for _, text := range s.peers {
		name, at, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "" || !isAddress(at):
			return nil, fmt.Errorf("--peer wants NAME=HOST:PORT, the NAME in that controller's certificate: %q", text)
		case seen[name]:
			return nil, fmt.Errorf("--peer %s: two controllers of one name: each needs a --name and a certificate of its own, and a --peer at the others with that name", text)
		}
		seen[name] = true
		list = append(list, owner.Peer{Name: name, Addr: at})
	}
	return list, nil
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && isPort(port)
}

// plainName is a name that NATS takes for a server's.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// with runs the controller with its store, or without one where it shares with none.
func (s *sharing) with(ctx context.Context, state string, log *logrus.Entry, run func(context.Context, *owner.Store) error) error {
	if !s.shared() {
		return run(ctx, nil)
	}
	if s.name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--name: %w", err)
		}
		s.name = name
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	nc, end, err := s.connect(ctx, state, log)
	if err != nil {
		return err
	}
	defer end()
	file := epochFile(filepath.Join(state, "epoch"))
	epoch, err := file.read()
	if err != nil {
		return err
	}
	store, err := owner.Open(nc, owner.Config{Name: s.name, Term: s.term, Replicas: s.replicas, Epoch: epoch, SawEpoch: file.write, Log: log})
	if err != nil {
		return err
	}
	wctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() { defer close(watched); store.Watch(wctx) }()
	defer func() { stop(); <-watched }()
	return run(ctx, store)
}

// connect is a connection to NATS; end ends it, and the server of this process.
func (s *sharing) connect(ctx context.Context, state string, log *logrus.Entry) (nc *nats.Conn, end func(), err error) {
	conf, err := s.tls()
	if err != nil {
		return nil, nil, err
	}
	if s.nats != "" {
		nc, err = owner.Connect(s.nats, s.name, s.creds, conf, log)
		if err != nil {
			return nil, nil, err
		}
		return nc, nc.Close, nil
	}
	peers, err := s.others()
	if err != nil {
		return nil, nil, err
	}
	server, err := owner.Serve(ctx, owner.ServerConfig{Name: s.name, Dir: state, Listen: s.listen, Peers: peers, TLS: conf, ClientsAt: s.clients, Roles: s.roles, Log: log})
	if err != nil {
		return nil, nil, err
	}
	if nc, err = server.Connect(s.name, log); err != nil {
		server.Close()
		return nil, nil, err
	}
	return nc, func() { nc.Close(); server.Close() }, nil
}

// tls is that of both ends; nil without files. In its own cluster a controller is known by its
// certificate, which has to have its name.
func (s *sharing) tls() (*tls.Config, error) {
	if s.ca == "" {
		return nil, nil //nolint:nilnil // the defaults of NATS
	}
	conf, err := s.files().Client("")
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key, --tls-ca: %w", err)
	}
	if names := owner.Names(conf.Certificates[0].Leaf); s.listen != "" && !slices.Contains(names, s.name) {
		return nil, fmt.Errorf("--tls-cert %s has the names [%s], and --name %s is none of them: the others know this controller by it, as --peer %s=HOST:PORT", s.cert, untrusted.Text(strings.Join(names, " "), 200), s.name, s.name)
	}
	return conf, nil
}

// epochFile has the highest epoch that this machine has seen.
type epochFile string

const epochMark = "csig epoch "

func (f epochFile) read() (uint64, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(string(text), epochMark)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is damaged: remove it when no device of the fleet has an owner (%w)", f, err)
	}
	return n, nil
}

func (f epochFile) write(n uint64) error {
	return outfile.Write(string(f), 0o600, outfile.Prefix(epochMark), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s%d\n", epochMark, n)
		return err
	})
}
