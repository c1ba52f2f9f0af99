package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// TLSFiles are the files of one end of a connection: its certificate and key,
// and the authorities that the other end's certificate has to come from, all
// in PEM.
type TLSFiles struct {
	Cert, Key, CA string
}

// Client is the configuration of a client of a daemon whose certificate is for
// this name. Errors name the file.
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

// NewTLSClient returns a client of the daemon at this TCP address; cfg is that
// of the files' Client.
func NewTLSClient(addr string, cfg *tls.Config, files TLSFiles) *Client {
	c := NewDialClient(addr, func(ctx context.Context) (net.Conn, error) {
		d := tls.Dialer{Config: cfg}
		return d.DialContext(ctx, "tcp", addr)
	})
	c.plainer = func(err error) error { return files.plainer(err, cfg) }
	return c
}

// plainer adds to an error of TLS whose certificate it is about, the file and what
// to do; it returns other errors as they are.
func (f TLSFiles) plainer(err error, cfg *tls.Config) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		refused   *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("the daemon's certificate: %w: it comes from none of the authorities in %s; name the file that has its own (management: daemon: tls: ca)", authority, f.CA)
	case errors.As(err, &name):
		return fmt.Errorf("the daemon's certificate: %w: give the name that is in it (management: daemon: tls: server_name), or the daemon a certificate for this one (csig agent --tls-cert)", name)
	case errors.As(err, &invalid):
		return fmt.Errorf("the daemon's certificate: %w: give the daemon a valid one (csig agent --tls-cert), and look at the clocks of both ends", invalid)
	case errors.As(err, &refused) && refused.Op == "remote error" && strings.Contains(refused.Err.Error(), "certificate"):
		own := f.Cert
		if len(cfg.Certificates) > 0 && cfg.Certificates[0].Leaf != nil {
			own += ", which is valid until " + cfg.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339)
		}
		return fmt.Errorf("the daemon refuses csig's own certificate %s (%w): it has to be valid by the daemon's clock, made for client authentication (clientAuth), and from an authority of the daemon's --tls-client-ca", own, refused.Err)
	}
	return err
}
