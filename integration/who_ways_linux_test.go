package integration

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// relay has connections to an address of this process go to one of the controllers.
func (d *controllersDoor) relay(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := dialFrom(context.Background(), d.host, sources[0], to)
				if err != nil {
					return
				}
				go func() { defer out.Close(); _, _ = io.Copy(out, in) }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String()
}

// dialer is how a client of NATS connects.
type dialer func() (net.Conn, error)

func (d dialer) Dial(string, string) (net.Conn, error) { return d() }

// connect is a connection of a client.
func (d *controllersDoor) connect(t *testing.T, v *visitor, from string) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect("nats://"+clientsAt(0), nats.Secure(v.conf()), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX."+v.name), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.SetCustomDialer(dialer(func() (net.Conn, error) { return dialFrom(t.Context(), d.host, from, clientsAt(0)) })))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// speaksPlainly is whether a port answers to the protocol of NATS without TLS, its greeting apart.
func (d *controllersDoor) speaksPlainly(t *testing.T, at string) bool {
	t.Helper()
	c, err := dialFrom(t.Context(), d.host, sources[0], at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, "CONNECT {\"verbose\":false,\"protocol\":1,\"cluster\":\"csig\",\"name\":\""+listedNode+"\"}\r\nPING\r\n")
	text, _ := io.ReadAll(c)
	return strings.Contains(string(text), "PONG")
}

// greets is whether a node sends one with the certificate of a visitor its information.
func (d *controllersDoor) greets(t *testing.T, v *visitor, from string) bool {
	t.Helper()
	c, err := dialFrom(t.Context(), d.host, from, nodesAt(0))
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(tls.Client(c, v.conf())).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "INFO ")
}

// measures is whether a reader of metrics gets them.
func (d *controllersDoor) measures(t *testing.T, from string) bool {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: d.reader.conf(), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialFrom(ctx, d.host, from, metricsOf(0))
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+metricsOf(0)+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// join is a connection to a NATS server of the visitor's own that has joined the controllers', nil where it may not.
func (d *controllersDoor) join(t *testing.T, v *visitor) *nats.Conn {
	t.Helper()
	if v.plain && !d.speaksPlainly(t, nodesAt(0)) || !v.plain && !d.greets(t, v, sources[0]) {
		return nil
	}
	o := &server.Options{ServerName: "own-" + v.name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Cluster: server.ClusterOpts{Name: "csig", Host: "127.0.0.1", Port: server.RANDOM_PORT, PoolSize: 3, NoAdvertise: true, TLSTimeout: 10}, Routes: d.routes}
	if !v.plain {
		o.Cluster.TLSConfig = v.conf()
	}
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !within(10*time.Second, func() bool { return ns.NumRoutes() > 0 }) || !ns.ReadyForConnections(patience) {
		return nil
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
