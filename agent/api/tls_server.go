package api

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// reloadEvery is how often the files of a listener are looked at.
const reloadEvery = time.Second

// serverTLS is what a daemon presents and accepts over TLS. The files are read
// again when one of them has changed; connections that are open then end.
type serverTLS struct {
	files  TLSFiles
	access TLSAccess
	conns  *limited
	log    func(format string, args ...any)
	login  bool     // clients without a certificate connect, too: another login is theirs
	protos []string // for ALPN

	reloading sync.Mutex // guards seen
	seen      [3]fileState

	mu  sync.Mutex // guards cfg
	cfg *tls.Config
}

// fileState is how a change of a file shows.
type fileState struct {
	size     int64
	modified time.Time
}

// ListenTLS lets the server answer at a TCP address, too, and returns the
// address it got: TLS 1.3, for clients whose certificate is from files.CA, is
// made for client authentication and has a name in access. Certificate, key and
// authorities are read again when their files change. It is called before Serve
// and after LogTo.
func (s *Server) ListenTLS(addr string, files TLSFiles, access TLSAccess) (net.Addr, error) {
	return s.listenTLS("--listen", addr, files, access)
}

// listenTLS is ListenTLS of the flag that has the address.
func (s *Server) listenTLS(flag, addr string, files TLSFiles, access TLSAccess) (net.Addr, error) {
	if len(access.Read)+len(access.Change) == 0 {
		return nil, fmt.Errorf("%s %s: no client may do anything: name certificates with --tls-change or --tls-read", flag, addr)
	}
	t := &serverTLS{files: files, access: access, log: s.warn, seen: files.states()}
	var err error
	if t.cfg, err = t.load(); err != nil {
		return nil, err
	}
	ln, err := listenTCP(flag, addr)
	if err != nil {
		return nil, err
	}
	s.tls, t.conns = t, &limited{Listener: ln}
	s.lns = append(s.lns, tls.NewListener(t.conns, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current(), nil },
	}))
	return ln.Addr(), nil
}

// load reads the files.
func (t *serverTLS) load() (*tls.Config, error) {
	files := t.files
	if t.login && files.CA == "" {
		files.CA = files.Cert // clients are not asked for certificates
	}
	cert, pool, err := files.load()
	if err != nil {
		return nil, err
	}
	for _, name := range certificateNames(cert.Leaf) {
		if slices.Contains(t.access.Read, name) || slices.Contains(t.access.Change, name) {
			return nil, fmt.Errorf("%s is a name of this daemon's own certificate %s: a switch is not an operator, leave it out of --tls-read and --tls-change", untrusted.Text(name, 100), t.files.Cert)
		}
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		SessionTicketsDisabled: true, // a session would outlive its authority
		NextProtos:             t.protos,
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 {
				return nil // where that is let through at all
			}
			return acceptClient(c.PeerCertificates[0], cert.Leaf)
		},
	}
	switch {
	case t.login && t.files.CA == "":
		cfg.ClientAuth = tls.NoClientCert
	case t.login:
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return cfg, nil
}

// acceptClient refuses certificates that were not made for clients, and the
// daemon's own key.
func acceptClient(c, own *x509.Certificate) error {
	switch {
	case bytes.Equal(c.RawSubjectPublicKeyInfo, own.RawSubjectPublicKeyInfo):
		return errors.New("the client has this daemon's own key")
	case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return errors.New("the client's certificate is not for client authentication (extended key usage clientAuth)")
	}
	return nil
}

// current is the configuration in force.
func (t *serverTLS) current() *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cfg
}

// watch looks at the files until stop is closed.
func (t *serverTLS) watch(stop <-chan struct{}) {
	ticks := time.NewTicker(reloadEvery)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticks.C:
			t.reload()
		}
	}
}

// reload puts files that have changed in force. New files that cannot be used
// leave the old ones in force.
func (t *serverTLS) reload() {
	t.reloading.Lock()
	defer t.reloading.Unlock()
	seen := t.files.states()
	if seen == t.seen {
		return
	}
	t.seen = seen
	cfg, err := t.load()
	if err != nil {
		t.log("new TLS files cannot be used, the old ones stay in force: %v", err)
		return
	}
	t.mu.Lock()
	t.cfg = cfg
	t.mu.Unlock()
	t.conns.closeAll()
}

// names reports whether a host is one of the daemon's certificate.
func (t *serverTLS) names(host string) bool {
	return t.current().Certificates[0].Leaf.VerifyHostname(host) == nil
}

func (f TLSFiles) states() (out [3]fileState) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if fi, err := os.Stat(name); err == nil {
			out[i] = fileState{fi.Size(), fi.ModTime()}
		}
	}
	return out
}

// LogTo has the server log here, where writers take turns: a line for each change that a client asks for,
// whatever the log's level, and at most a line a minute about connections that
// fail. It is called before Serve.
func (s *Server) LogTo(l *logrus.Entry) {
	audit := logrus.New()
	audit.SetOutput(l.Logger.Out)
	audit.SetFormatter(l.Logger.Formatter)
	audit.ReplaceHooks(l.Logger.Hooks)
	s.audit = audit.WithFields(l.Data)
	s.warn = l.Warnf
	s.sparse = &sparseLog{log: l, every: time.Minute}
	s.http.ErrorLog = log.New(s.sparse, "", 0)
}
