package ofp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// TLS names the files (PEM) of a mutual TLS connection. They are read at every
// connection, so that a renewed certificate counts from the next one on.
type TLS struct {
	CA        string // of the authority that certifies the switches
	Cert, Key string // csig's own

	// Peer is the name that the switch's certificate has to have, as a DNS name, an IP
	// address or its common name; "": the host of Config.Connect.
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

// isPeer checks the name of a switch whose certificate was verified: the authority
// certifies others, too, csig among them.
func (t *TLS) isPeer(s tls.ConnectionState) error {
	leaf := s.PeerCertificates[0]
	if leaf.Subject.CommonName == t.Peer || leaf.VerifyHostname(t.Peer) == nil {
		return nil
	}
	names := append([]string{}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if cn := leaf.Subject.CommonName; cn != "" && !slices.Contains(names, cn) {
		names = append(names, cn)
	}
	return fmt.Errorf("the switch's certificate is not that of %s but of %s: where that is the switch, set management: {openflow: {tls: {server_name: NAME}}} to one of its names", t.Peer, untrusted.Text(cmp.Or(strings.Join(names, ", "), "no name"), maxNames))
}

// maxNames bounds what is printed of a certificate's names, in bytes.
const maxNames = 200

// greeting explains why a connection ended before the switch's first message.
func greeting(err error, secured bool) error {
	text := err.Error()
	switch {
	case secured && (strings.Contains(text, "tls: ") || hungUp(err)):
		return fmt.Errorf("the switch ended it right after the TLS handshake, as one does that refuses csig's certificate (has the switch the authority of that certificate?): %w", err)
	case !secured && hungUp(err):
		return fmt.Errorf("%w before its first message: it may want TLS there: management: {openflow: {tls: …}} in place of plaintext: true", err)
	case !secured && errors.Is(err, ErrMalformed) && strings.Contains(text, "version 21"): // an alert of TLS begins with 21
		return fmt.Errorf("the switch speaks TLS there: management: {openflow: {tls: …}} in place of plaintext: true, or another port: %w", err)
	}
	return err
}

// hungUp reports whether the switch ended the connection: a read or a write sees it first.
func hungUp(err error) bool {
	return errors.Is(err, errHungUp) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// handshake explains why there is no TLS.
func handshake(err error) error {
	switch header := (tls.RecordHeaderError{}); {
	case errors.As(err, &header):
		return fmt.Errorf("the switch does not speak TLS there: have it use TLS (ssl: or pssl: in Open vSwitch), or set plaintext: true: %w", err)
	case strings.Contains(err.Error(), "remote error: tls: "):
		return fmt.Errorf("the switch refuses csig's certificate, or what TLS it offers: %w", err)
	case errors.Is(err, io.EOF) || hungUp(err):
		return fmt.Errorf("the switch ended it during the TLS handshake: it may not speak TLS there, or refuse csig's certificate: %w", err)
	}
	return err
}
