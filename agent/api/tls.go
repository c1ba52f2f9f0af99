package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
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
	c.plainer = func(err error) error { return files.Explain(err, cfg, agentsDaemon) }
	return c
}

// TLSPeer is what messages about certificates call the other end, and the settings that they name.
type TLSPeer struct {
	Name    string // e.g. daemon
	CA      string // csig's: the authorities of its certificate
	Server  string // csig's: the name in its certificate; "": there is none
	Cert    string // its own: the certificate
	Clients string // its own: the authorities of csig's certificate
}

var agentsDaemon = TLSPeer{"daemon", "management: daemon: tls: ca", "management: daemon: tls: server_name", "csig agent --tls-cert", "--tls-client-ca"}

// Explain adds to an error of TLS whose certificate it is about, the file and what
// to do; it returns other errors as they are.
func (f TLSFiles) Explain(err error, cfg *tls.Config, peer TLSPeer) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		refused   *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("the %s's certificate: %w: it comes from none of the authorities in %s; name the file that has its own (%s)", peer.Name, authority, f.CA, peer.CA)
	case errors.As(err, &name):
		give := ""
		if peer.Server != "" {
			give = "give the name that is in it (" + peer.Server + "), or "
		}
		return fmt.Errorf("the %s's certificate: %w: %sgive the %s a certificate for this one (%s)", peer.Name, name, give, peer.Name, peer.Cert)
	case errors.As(err, &invalid):
		return fmt.Errorf("the %s's certificate: %w: give the %s a valid one (%s), and look at the clocks of both ends", peer.Name, invalid, peer.Name, peer.Cert)
	case errors.As(err, &refused) && refused.Op == "remote error" && strings.Contains(refused.Err.Error(), "certificate"):
		own := f.Cert
		if len(cfg.Certificates) > 0 && cfg.Certificates[0].Leaf != nil {
			own += ", which is valid until " + cfg.Certificates[0].Leaf.NotAfter.UTC().Format(time.RFC3339)
		}
		return fmt.Errorf("the %s refuses csig's own certificate %s (%w): it has to be valid by the %s's clock, made for client authentication (clientAuth), and from an authority of the %s's %s", peer.Name, own, refused.Err, peer.Name, peer.Name, peer.Clients)
	}
	return err
}

// Check reports what keeps the files from being those of a host with a name, now. Errors name the file.
func (f TLSFiles) Check(host string) error {
	cert, _, err := f.load()
	if err != nil {
		return err
	}
	names, now := certificateNames(cert.Leaf), time.Now()
	switch {
	case !slices.Contains(names, host):
		return fmt.Errorf("certificate %s is of %s: want one with the name %s", f.Cert, untrusted.Text(strings.Join(names, ", "), 200), host)
	case now.Before(cert.Leaf.NotBefore), now.After(cert.Leaf.NotAfter):
		return fmt.Errorf("certificate %s is valid from %s to %s, and it is %s: make a new one, or set the clock", f.Cert, cert.Leaf.NotBefore.UTC().Format(time.RFC3339), cert.Leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}
