package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"syscall"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Listener is a TCP listener for another HTTP server of the process, with the bounds of the
// agent's own: a number of connections, deadlines, and TLS whose files may change.
type Listener struct {
	ln   net.Listener
	tls  *serverTLS // nil without files
	http *http.Server
}

// ListenerConfig is what a Listener needs.
type ListenerConfig struct {
	Flag   string // that has the address, for errors
	Addr   string
	On     net.Listener // nil: one at Addr
	TLS    TLSFiles     // no Cert: there is no TLS; no CA: clients have no certificates
	Access TLSAccess
	Login  bool // clients without a certificate connect, too: the server asks them for something else
	Conns  int  // at most; each address has half of them
	Warn   func(format string, args ...any)

	Handler http.Handler // of requests without a body: those that have one are refused

	// Body reports whether a request has a body that Handler may want, which it reads with ReadBody; nil: none has.
	Body func(*http.Request) bool
}

// ReadBody reads the body of a request, of so many bytes at most.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	wantBody(w, r)
	return io.ReadAll(http.MaxBytesReader(w, r.Body, most))
}

// ListenTCP opens a listener. Who may connect is known then: with TLS a client has a certificate
// from TLS.CA, or Login.
func ListenTCP(cfg ListenerConfig) (*Listener, error) {
	l := &Listener{http: newHTTP(cfg.Handler, cfg.Body)}
	if cfg.TLS.Cert != "" {
		l.tls = &serverTLS{files: cfg.TLS, access: cfg.Access, log: cfg.Warn, seen: cfg.TLS.states(), login: cfg.Login, protos: []string{"h2", "http/1.1"}}
		var err error
		if l.tls.cfg, err = l.tls.load(); err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.Flag, err)
		}
	}
	ln := cfg.On
	if ln == nil {
		var err error
		if ln, err = listenTCP(cfg.Flag, cfg.Addr); err != nil {
			return nil, err
		}
	}
	conns := &limited{Listener: ln, most: cfg.Conns, mostUser: (cfg.Conns + 1) / 2}
	l.ln = conns
	if l.tls != nil {
		l.tls.conns = conns
		l.ln = tls.NewListener(conns, &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: l.tls.protos,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.tls.current(), nil },
		})
	}
	return l, nil
}

// listenTCP is net.Listen of the flag that has the address.
func listenTCP(flag, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %s: %w: ss -ltnp shows which program has the port", flag, addr, syscall.EADDRINUSE)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	return ln, nil
}

// Addr is where it listens.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// TLS reports whether its connections are encrypted.
func (l *Listener) TLS() bool { return l.tls != nil }

// Serve answers until Close. What fails at a connection is logged to errs.
func (l *Listener) Serve(errs *log.Logger) error {
	l.http.ErrorLog = errs
	if l.tls != nil {
		stop := make(chan struct{})
		defer close(stop)
		go l.tls.watch(stop)
	}
	return l.http.Serve(l.ln)
}

// Close ends it, and its connections.
func (l *Listener) Close() error {
	err := l.http.Close()
	_ = l.ln.Close() // where Serve was not called
	return err
}

// Names reports whether a host is one of the certificate's.
func (l *Listener) Names(host string) bool { return l.tls != nil && l.tls.names(host) }

// NamesOf are the names of the certificate that a request comes with, as TLSAccess compares them.
func (l *Listener) NamesOf(r *http.Request) []string {
	if l.tls == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return certificateNames(r.TLS.PeerCertificates[0])
}

// Reads reports whether a request comes with a certificate that may read, and who that is, or why not.
func (l *Listener) Reads(r *http.Request) (who string, err error) {
	if l.tls == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", fmt.Errorf("there is no certificate of a client")
	}
	p := l.tls.access.peerOf(r.TLS.PeerCertificates[0])
	if p.err != nil {
		return "", untrusted.Error(p.err)
	}
	return p.name, nil
}
