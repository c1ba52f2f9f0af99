package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	stdlog "log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	sys "golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestWhoOpensDevices sends every request, with every way to describe a device, in every role, to
// a daemon with and without a configuration, and to one that hands requests over to it: nobody
// opens a device but who may change it, and each opening has a line in the log with who it was. Every role sends
// each request in a third of the ways, and in each way a third of the requests.
func TestWhoOpensDevices(t *testing.T) { whoOpensDevices(t) }

// TestLongWhoOpensDevices has every request in every way.
func TestLongWhoOpensDevices(t *testing.T) { whoOpensDevices(t) }

func whoOpensDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this needs root, to be another user")
	}
	evil := changed("platform: test", "platform: test\n    counters: {source: snmp, snmp: {version: 2c, community: {command: [/bin/false]}}}\n    address: 192.0.2.1")
	if _, err := inventory.Parse("evil", []byte(evil)); err != nil {
		t.Fatal(err)
	}
	arguments := map[string]url.Values{
		"nothing":                   {},
		"a platform":                {"platform": {"test"}},
		"no platform":               {"platform": {"made-up"}},
		"a file as platform":        {"platform": {evil}},
		"a file":                    {"device": {deviceText}},
		"a file with a program":     {"device": {evil}},
		"both":                      {"platform": {"test"}, "device": {deviceText}},
		"a platform and no file":    {"platform": {"test"}, "device": {""}},
		"two platforms, one a file": {"platform": {evil, "test"}},
	}
	requests := []string{"GET /v1/facts", "GET /v1/setup", "GET /v1/health", "GET /v1/mtu", "HEAD /v1/facts", "POST /v1/facts", "GET /v1//facts", "GET /v1/facts/",
		"PUT /v1/mtu", "DELETE /v1/config", "POST /v1/armed", "GET /v1/config", "PUT /v1/config", "GET /v1/armed", "DELETE /v1/armed", "GET /v1/link", "POST /v1/link",
		"GET /v1/why", "PUT /v1/lock", "DELETE /v1/lock", "GET /v1/journals", "GET /v1/status", "GET /v1/nothing"}
	describing := slices.Index(requests, "GET /v1/config") // the first of those that describe no device
	bodies := map[string]string{"PUT /v1/mtu": `{"format":"csig.mtu/v1","ports":[{"port":"swp1","mtu":9000}]}`, "PUT /v1/config": evil,
		"POST /v1/armed": `{"format":"csig.armed/v1","after_ns":60000000000}`, "POST /v1/link": `{"format":"csig.link/v1","port":"swp1","size_bytes":64}`}
	// What describes no device need not be sent in every way, nor what no server reads.
	someWays := map[string]url.Values{"nothing": arguments["nothing"], "a platform": arguments["a platform"], "a file with a program": arguments["a file with a program"]}
	oneWay := map[string]url.Values{"a file with a program": arguments["a file with a program"]}
	for name, configured := range map[string]bool{"without a configuration": false, "with one": true} {
		t.Run(name, func(t *testing.T) {
			w := newRoles(t, configured)
			for c, who := range slices.Sorted(maps.Keys(w.clients)) {
				client := w.clients[who]
				changes := who == "root" || who == "operator" || who == "root at another controller"
				unread := strings.Contains(who, "no TLS") || strings.Contains(who, "stranger")
				for i, request := range requests {
					ways := arguments
					switch {
					case unread && i > 0:
						ways = oneWay
					case i >= describing:
						ways = someWays
					}
					for n, what := range slices.Sorted(maps.Keys(ways)) {
						args := ways[what]
						if (c+i+n)%vendorstest.Every(t, 3) > 0 && len(ways) > 1 {
							continue
						}
						w.opened.Store(0)
						w.log.reset()
						if code := w.send(t, client, request, args, bodies[request]); !changes && w.opened.Load() > 0 {
							t.Errorf("%s, %s with %s: %d devices opened, answer %d", who, request, what, w.opened.Load(), code)
						}
						if changes {
							w.check(t, who, request, what, args)
						}
					}
				}
			}
		})
	}
}

// check looks at what a request of one who may change the device has done.
func (w *roles) check(t *testing.T, who, request, what string, args url.Values) {
	t.Helper()
	line := w.log.String()
	peer := map[string]string{"root": `peer="user 0"`, "operator": `peer="certificate [operator]"`, "root at another controller": `peer="controller c2"`}[who]
	request = strings.Replace(request, "//", "/", 1) // where it was sent on to
	if n := w.opened.Load(); n > 0 && (strings.Count(line, peer) == 0 || !strings.Contains(line, `request="`+request)) && request != "POST /v1/link" {
		t.Errorf("%s, %s with %s: %d devices opened, and the log has %q", who, request, what, n, line)
	}
	if who == "root at another controller" && w.opened.Load() > 0 && !strings.Contains(line, `peer="user 0"`) && request != "POST /v1/link" {
		t.Errorf("%s, %s: the controller that was asked does not say by whom: %q", who, request, line)
	}
	named := args.Get("platform") == "test" && args.Get("device") == "" || args.Get("device") == deviceText && args.Get("platform") == ""
	if request == "GET /v1/facts" && (w.opened.Load() > 0) != (w.configured || named || what == "a file with a program") {
		t.Errorf("%s, %s with %s: %d devices opened", who, request, what, w.opened.Load())
	}
}

// roles is a daemon with a client in each role.
type roles struct {
	configured bool
	opened     atomic.Int64
	log        safeLog
	clients    map[string]*http.Client
}

// safeLog is a log that the test reads meanwhile.
type safeLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *safeLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// send sends a request, and waits for the beginning of its answer.
func (w *roles) send(t *testing.T, c *http.Client, request string, args url.Values, body string) int {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	scheme := "http"
	if tr, ok := c.Transport.(*http.Transport); ok && tr.TLSClientConfig != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://agent"+path+"?"+args.Encode(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "user 0")
	resp, err := c.Do(req)
	if err != nil && scheme == "https" && w.clients["operator"] == c {
		t.Errorf("operator, %s: %v", request, err)
	}
	if err != nil {
		return 0 // who has no certificate
	}
	defer resp.Body.Close()
	if resp.ContentLength >= 0 { // read to its end, so that the connection serves the next request
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	return resp.StatusCode
}

// tunnel is a connection of another controller.
type tunnel struct{ net.Conn }

func (tunnel) Peer() string { return "controller c2" }

// tunnels are those of a listener.
type tunnels struct{ net.Listener }

func (l tunnels) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return tunnel{c}, err
}

func newRoles(t *testing.T, configured bool) *roles {
	t.Helper()
	w := &roles{configured: configured}
	log := logrus.New()
	log.SetOutput(&w.log)
	k := newKeeper(t, &recorder{}, func(cfg *Config) {
		open := cfg.OpenDriver
		cfg.OpenDriver = func(d *inventory.Device) (vendors.Driver, error) {
			w.opened.Add(1)
			return open(d)
		}
		cfg.NoCommands = false
		cfg.KnowsPlatform = func(name string) error {
			if name != "test" {
				return errors.New("no such platform")
			}
			return nil
		}
	})
	k.begin(t)
	t.Cleanup(func() { k.close(t) })
	if configured {
		k.configure(t, deviceText)
	}
	dir, err := os.MkdirTemp("", "csig-roles-") // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	listen := func(name string) (*api.Server, string) {
		socket := filepath.Join(dir, name)
		s, err := api.Listen(socket, k.Status)
		if err == nil {
			err = s.Share("47110")
		}
		if err != nil {
			t.Fatal(err)
		}
		s.LogTo(logrus.NewEntry(log))
		return s, socket
	}
	serve := func(s *api.Server) {
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		t.Cleanup(func() {
			if err := errors.Join(s.Close(), <-done); err != nil {
				t.Error(err)
			}
		})
	}
	ca := tlstest.New(t)
	certify := func(name string) api.TLSFiles {
		cert, key := ca.Certify(name)
		return api.TLSFiles{Cert: cert, Key: key, CA: ca.CA}
	}
	access := api.TLSAccess{Read: []string{"reader"}, Change: []string{"operator"}}
	own := certify("agent") // once: files that change end all connections
	owner, socket := listen("owner")
	owner.Manage(unchanged{k.Daemon})
	owner.Explain(k.Why)
	addr, err := owner.ListenTLS("127.0.0.1:0", own, access)
	if err != nil {
		t.Fatal(err)
	}
	between, err := net.Listen("unix", filepath.Join(dir, "between"))
	if err != nil {
		t.Fatal(err)
	}
	owner.Also(tunnels{between})
	other, otherSocket := listen("other")
	other.Forward(handOver(between.Addr().String()))
	otherAddr, err := other.ListenTLS("127.0.0.1:0", own, access)
	if err != nil {
		t.Fatal(err)
	}
	serve(owner)
	serve(other)
	client := func(dial func(ctx context.Context) (net.Conn, error), files *api.TLSFiles) *http.Client {
		tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
		if files != nil {
			if tr.TLSClientConfig, err = files.Client("agent"); err != nil {
				t.Fatal(err)
			}
			if files.Cert == "" {
				tr.TLSClientConfig.Certificates = nil
			}
		}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	}
	dial := func(network, at string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, at) }
	}
	as := func(socket string) func(context.Context) (net.Conn, error) {
		return func(context.Context) (net.Conn, error) { return dialAs(47111, 47110, socket) }
	}
	w.clients = map[string]*http.Client{
		"root":                         client(dial("unix", socket), nil),
		"a member":                     client(as(socket), nil),
		"root at another controller":   client(dial("unix", otherSocket), nil),
		"a member at another":          client(as(otherSocket), nil),
		"an anonymous client, no TLS":  client(dial("tcp", addr.String()), nil),
		"no TLS at another controller": client(dial("tcp", otherAddr.String()), nil),
	}
	for _, name := range []string{"operator", "reader", "stranger"} {
		files := certify(name)
		w.clients[name] = client(dial("tcp", addr.String()), &files)
		if name != "operator" {
			w.clients[name+" at another controller"] = client(dial("tcp", otherAddr.String()), &files)
		}
	}
	return w
}

// unchanged is a daemon that takes every change, and makes none but to the ports: each request
// finds the same daemon.
type unchanged struct{ *Daemon }

func (unchanged) Configure(context.Context, []byte, string) error { return nil }
func (u unchanged) RemoveSetup(ctx context.Context, d api.Described, _ string) error {
	return u.look(d, func(vendors.Driver) error { return nil })
}

// handOver sends requests on as controllers do.
func handOver(socket string) http.Handler {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	return &httputil.ReverseProxy{Transport: tr, ErrorLog: stdlog.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "agent", "agent"
	}}
}

// dialAs connects as another user. The thread that became that user ends with its goroutine.
func dialAs(uid, gid int, socket string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		for _, call := range [][4]uintptr{{sys.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)}, {sys.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)}} {
			if _, _, e := sys.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				err = e
				return
			}
		}
		var fd int
		if fd, err = sys.Socket(sys.AF_UNIX, sys.SOCK_STREAM|sys.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		f := os.NewFile(uintptr(fd), socket)
		defer f.Close()
		if err = sys.Connect(fd, &sys.SockaddrUnix{Name: socket}); err == nil {
			c, err = net.FileConn(f)
		}
	}()
	<-done
	return c, err
}
