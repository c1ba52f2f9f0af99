package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/sirupsen/logrus"
)

// observePaths are those of Observe.
var observePaths = []string{"/metrics", "/healthz", "/readyz"}

// Observe answers at /metrics, /healthz and /readyz with a handler, for everyone who may read
// the status. It is called before Serve.
func (s *Server) Observe(h http.Handler) {
	for _, path := range observePaths {
		s.mux.Handle("GET "+path, h)
	}
}

// NewObserver is a server of Observe's paths alone, at the TCP address of --metrics: on a loopback
// address plain HTTP for everyone on this machine, elsewhere as ListenTLS.
func NewObserver(addr string, files TLSFiles, access TLSAccess, h http.Handler, log *logrus.Entry) (*Server, net.Addr, error) {
	s := newServer(nil)
	s.Observe(h)
	s.LogTo(log)
	host, _, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("--metrics %s: %w: give an address like 127.0.0.1:9343", addr, err)
	case IsLoopback(host):
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("--metrics %s: %w", addr, err), s.Close())
		}
		s.plain = true
		s.lns = append(s.lns, &limited{Listener: ln, plain: roleStatus})
		return s, ln.Addr(), nil
	case files == TLSFiles{}:
		return nil, nil, fmt.Errorf("--metrics %s: everyone who reaches it could read how loaded every port is: give --tls-cert, --tls-key, --tls-client-ca and --tls-read, or a loopback address", addr)
	}
	got, err := s.listenTLS("--metrics", addr, files, access)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, got, nil
}

// Observed runs something beside a NewObserver, whose failure does not end it.
func Observed(addr string, files TLSFiles, access TLSAccess, h http.Handler, log *logrus.Entry, run func() error) error {
	s, got, err := NewObserver(addr, files, access, h, log)
	if err != nil {
		return err
	}
	log.WithField("address", got.String()).Info("listening for /metrics")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(); err != nil {
			log.WithError(err).Error("metrics end")
		}
	}()
	err = run()
	_ = s.Close() // its clients wait for nothing
	<-ended
	return err
}

// IsLoopback reports whether a host is this machine alone.
func IsLoopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
