package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
)

// TLSFiles are the files of one end of a connection: its certificate and key,
// and the authorities that the other end's certificate has to come from, all
// in PEM.
type TLSFiles struct {
	Cert, Key, CA string
}

// Server is the configuration of a daemon: TLS 1.3, and nobody without a
// certificate gets in. Errors name the file.
func (f TLSFiles) Server() (*tls.Config, error) {
	cert, pool, err := f.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}, nil
}

// Client is the configuration of who talks to a daemon whose certificate is
// for this name. Errors name the file.
func (f TLSFiles) Client(serverName string) (*tls.Config, error) {
	cert, pool, err := f.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: serverName}, nil
}

func (f TLSFiles) load() (tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return cert, nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return cert, nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return cert, nil, fmt.Errorf("certificate authorities %s: there is no certificate in it", f.CA)
	}
	return cert, pool, nil
}

// ListenTLS lets the server answer at a TCP address, too, and returns the
// address it got. It is called before Serve; cfg is that of TLSFiles.Server.
func (s *Server) ListenTLS(addr string, cfg *tls.Config) (net.Addr, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", addr, err)
	}
	s.lns = append(s.lns, tls.NewListener(ln, cfg))
	return ln.Addr(), nil
}

// NewTLSClient returns a client of the daemon at this TCP address; cfg is that
// of TLSFiles.Client.
func NewTLSClient(addr string, cfg *tls.Config) *Client {
	return NewDialClient(addr, func(ctx context.Context) (net.Conn, error) {
		d := tls.Dialer{Config: cfg}
		return d.DialContext(ctx, "tcp", addr)
	})
}
