package ofp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS names the files (PEM) of a mutual TLS connection. They are read at every
// connection, so that a renewed certificate counts from the next one on.
type TLS struct {
	CA        string // of the authority that certifies the switches
	Cert, Key string // csig's own

	// Peer is the name that the switch's certificate has to have, as a DNS name or
	// its common name; "": any that the authority certifies.
	Peer string
}

// files is t without Peer: what all the switches of one address share.
func (t TLS) files() TLS {
	t.Peer = ""
	return t
}

// config is that of one end of a connection.
func (t *TLS) config(server bool) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("csig's certificate: %w", err)
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("the switches' authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the switches' authority: %s has no certificate (PEM)", t.CA)
	}
	usage := x509.ExtKeyUsageServerAuth
	if server {
		usage = x509.ExtKeyUsageClientAuth
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		// Switches are certified by names that are not where they are reached:
		// the chain is verified here.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return verify(s, pool, usage) },
	}, nil
}

func verify(s tls.ConnectionState, authority *x509.CertPool, usage x509.ExtKeyUsage) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the switch has no certificate")
	}
	o := x509.VerifyOptions{Roots: authority, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

// isPeer checks the name of a switch whose certificate was verified.
func (t *TLS) isPeer(s tls.ConnectionState) error {
	leaf := s.PeerCertificates[0]
	if t.Peer == "" || leaf.Subject.CommonName == t.Peer || leaf.VerifyHostname(t.Peer) == nil {
		return nil
	}
	return fmt.Errorf("the switch's certificate is not that of %s", t.Peer)
}
