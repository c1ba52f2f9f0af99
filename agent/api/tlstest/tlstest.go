// Package tlstest makes certificates for tests: authorities, and what they
// certify, in the files that csig takes.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Authority certifies who is who, for an hour. Tests in parallel may share one, not a name.
type Authority struct {
	CA string // file of its own certificate (PEM)

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next atomic.Int64
}

// New makes an authority whose files go with the test.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make([]string{"ca"}, true, time.Hour, bothEnds...)
	a.CA, _ = a.Files("ca")
	return a
}

// Certify makes a certificate for a name and more of them, for either end of a
// connection, and returns its files.
func (a *Authority) Certify(name string, more ...string) (cert, key string) {
	a.t.Helper()
	a.make(append([]string{name}, more...), false, time.Hour, bothEnds...)
	return a.Files(name)
}

// Expire makes a certificate that is not valid any more, and returns its files.
func (a *Authority) Expire(name string) (cert, key string) {
	a.t.Helper()
	a.make([]string{name}, false, -time.Minute, bothEnds...)
	return a.Files(name)
}

// CertifyServer makes a certificate that is not for clients, and returns its
// files.
func (a *Authority) CertifyServer(name string) (cert, key string) {
	a.t.Helper()
	a.make([]string{name}, false, time.Hour, x509.ExtKeyUsageServerAuth)
	return a.Files(name)
}

// CertifyAnything makes a certificate without a purpose, and returns its files.
func (a *Authority) CertifyAnything(name string) (cert, key string) {
	a.t.Helper()
	a.make([]string{name}, false, time.Hour)
	return a.Files(name)
}

var bothEnds = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// Files are those of a name that was certified.
func (a *Authority) Files(name string) (cert, key string) {
	return filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
}

// make certifies names, after the first of which the files are called.
func (a *Authority) make(names []string, ca bool, left time.Duration, usage ...x509.ExtKeyUsage) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.next.Add(1)), Subject: pkix.Name{CommonName: names[0]}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left),
		DNSNames: names, IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usage,
	}
	parent, signer := a.cert, a.key
	if ca {
		tmpl.KeyUsage, parent, signer = x509.KeyUsageCertSign, tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile := a.Files(names[0])
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}
