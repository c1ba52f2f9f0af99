package gnmi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

func (t *Target) dial() (*grpc.ClientConn, error) {
	c := &t.cfg
	creds := insecure.NewCredentials()
	if !c.Plaintext {
		conf, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		creds = &watchedCredentials{credentials.NewTLS(conf), &t.handshake}
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		// A switch is reached directly, whatever proxy this host uses for the web.
		grpc.WithNoProxy(),
		grpc.WithUserAgent("csig"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.MaxMessage), grpc.ForceCodecV2(newCodec())),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithInitialWindowSize(windowSize), // and no more, however much is under way
		grpc.WithInitialConnWindowSize(windowSize),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: c.Backoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: c.MaxBackoff},
			MinConnectTimeout: c.Timeout,
		}),
		// Finds a peer that vanished. Servers tolerate no faster pings without
		// data in between.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	if c.Username != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(login{c.Username, string(c.Password), !c.Plaintext}))
	}
	opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		dial := c.Dial
		if dial == nil {
			dial = (&net.Dialer{}).DialContext
		}
		conn, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &throttledConn{Conn: conn, limit: throttle{rate: bytesPerSecond}}, nil
	}))
	return grpc.NewClient("passthrough:///"+c.Address, opts...)
}

// config reads the files and returns what crypto/tls needs.
func (t *TLS) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA file %s: no certificate in it: it should be PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("client certificate %s with key %s: %w", t.CertFile, t.KeyFile, err)
			}
			return &cert, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return conf, nil
}

// watchedCredentials keep the reason of a failed handshake.
type watchedCredentials struct {
	credentials.TransportCredentials
	last *handshake
}

// ClientHandshake is that of credentials.TransportCredentials.
func (w *watchedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if errors.Is(err, context.Canceled) {
		return conn, info, err // no fault of either side
	}
	w.last.set(err)
	if err == nil {
		conn = &watchedConn{conn, w.last}
	}
	return conn, info, err
}

// watchedConn keeps the alert with which a peer ends a connection: that is how a
// TLS 1.3 server refuses the client's certificate, after the handshake.
type watchedConn struct {
	net.Conn
	last *handshake
}

// Read is that of net.Conn.
func (w *watchedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		w.last.set(err)
	}
	return n, err
}

// Clone is that of credentials.TransportCredentials.
func (w *watchedCredentials) Clone() credentials.TransportCredentials {
	return &watchedCredentials{w.TransportCredentials.Clone(), w.last}
}

// login is username and password in the metadata of each call (gNMI
// authentication specification, "Credentials attached to RPC").
type login struct {
	username, password string
	tls                bool
}

// GetRequestMetadata is that of credentials.PerRPCCredentials.
func (l login) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"username": l.username, "password": l.password}, nil
}

// RequireTransportSecurity is that of credentials.PerRPCCredentials.
func (l login) RequireTransportSecurity() bool { return l.tls }
