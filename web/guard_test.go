package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/web/webtest"
)

// one is the configuration of a page of one switch.
func one(t testing.TB) Config {
	log := logrus.New()
	log.SetOutput(io.Discard)
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("swp1", 10e9, 1e9))}}
	return Config{Addr: "127.0.0.1:0", Log: logrus.NewEntry(log), Status: a.status, Fleet: func() (*inventory.Fleet, []string) { return nil, []string{"s1"} }}
}

// inMemory serves a page in memory, in a bubble, with a client of it. Each connection comes from
// another address of two.
func inMemory(t *testing.T, cfg Config) (*Server, *memnet.Listener, *http.Client) {
	t.Helper()
	ln := memnet.Listen("127.0.0.1:8080")
	cfg.Addr, cfg.On = ln.Addr().String(), &twoHosts{Listener: ln}
	s := run(t, cfg)
	synctest.Wait() // the first look at the devices
	return s, ln, &http.Client{Transport: over(ln, nil)}
}

// over connects to a listener in memory for each request.
func over(ln *memnet.Listener, conf *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) },
		TLSClientConfig: conf, ForceAttemptHTTP2: conf != nil, DisableKeepAlives: true,
	}
}

// twoHosts has connections come from two addresses by turns.
type twoHosts struct {
	net.Listener
	accepted byte
}

func (l *twoHosts) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.accepted++
	return fromHost{c, 1 + l.accepted%2}, err
}

type fromHost struct {
	net.Conn
	host byte
}

func (c fromHost) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, c.host), Port: c.Conn.RemoteAddr().(*net.TCPAddr).Port}
}

// dial connects until the test ends.
func dial(t *testing.T, ln *memnet.Listener) net.Conn {
	t.Helper()
	c, err := ln.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// get asks for a page and returns the answer's status, headers and text.
func get(t *testing.T, c *http.Client, url string, change func(*http.Request)) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// TestRequests: the page is read, by its own name, and nothing else.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, client := inMemory(t, one(t))
		const host, port = "127.0.0.1:8080", "8080"
		for name, c := range map[string]struct {
			path   string
			change func(*http.Request)
			want   int
		}{
			"a document":                {"/", nil, 200},
			"the head of one":           {"/", func(r *http.Request) { r.Method = http.MethodHead }, 200},
			"a module":                  {"/assets/fleet.js", nil, 200},
			"a port":                    {"/api/v1/port?device=s1&port=swp1", nil, 200},
			"no such port":              {"/api/v1/port?device=s1&port=swp9", nil, 404},
			"no such page":              {"/nothing", nil, 404},
			"outside of the assets":     {"/assets/..%2fweb.go", nil, 404},
			"the near end of an ssh -L": {"/", func(r *http.Request) { r.Host = "localhost:9999" }, 200},
			"IPv6":                      {"/", func(r *http.Request) { r.Host = "[::1]:" + port }, 200},
			"a name pointed here":       {"/", func(r *http.Request) { r.Host = "evil.example:" + port }, 421},
			"a name that begins well":   {"/", func(r *http.Request) { r.Host = "localhost.evil.example" }, 421},
			"POST":                      {"/", func(r *http.Request) { r.Method = http.MethodPost }, 405},
			"OPTIONS":                   {"/api/v1/live", func(r *http.Request) { r.Method = http.MethodOptions }, 405},
			"loaded by another site":    {"/api/v1/live", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
			"a link of another site to it": {"/", func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Sec-Fetch-Mode", "navigate")
			}, 200},
		} {
			code, h, _ := get(t, client, "http://"+host+c.path, c.change)
			if code != c.want {
				t.Errorf("%s: %d, want %d", name, code, c.want)
			}
			if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'; script-src 'self';") || strings.Contains(csp, "unsafe") || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: the headers are %v", name, h)
			}
		}
	})
}

// TestWhereAnybodyReads: an address that others reach is refused without TLS and a login, and what
// cannot be meant is.
func TestWhereAnybodyReads(t *testing.T) {
	auth := tlstest.New(t)
	cert, key := auth.Certify("page.example")
	open, short := filepath.Join(t.TempDir(), "open"), filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(open, []byte("0123456789abcdef0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := api.TLSFiles{Cert: cert, Key: key}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"all addresses":             {Config{Addr: ":8080"}, "anybody could read"},
		"an address":                {Config{Addr: "192.0.2.1:8080"}, "anybody could read"},
		"a name":                    {Config{Addr: "localhost.example:8080"}, "anybody could read"},
		"a token without TLS":       {Config{Addr: "192.0.2.1:8080", Token: open}, "anybody could read"},
		"no port":                   {Config{Addr: "127.0.0.1"}, "HOST:PORT"},
		"TLS without a login":       {Config{Addr: "192.0.2.1:8080", TLS: files}, "no client could read"},
		"names without authorities": {Config{Addr: "127.0.0.1:0", TLS: files, Read: []string{"a"}}, "go together"},
		"authorities without names": {Config{Addr: "127.0.0.1:0", TLS: api.TLSFiles{Cert: cert, Key: key, CA: auth.CA}}, "go together"},
		"a token for all to read":   {Config{Addr: "127.0.0.1:0", Token: open}, "chmod 600"},
		"a short token":             {Config{Addr: "127.0.0.1:0", Token: short}, "6 characters"},
	} {
		c.cfg.Log = one(t).Log
		if _, err := Listen(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestLogins: with TLS the page is for those who have the token or a certificate with a name that
// may read it; a token that was changed is no longer good.
func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := tlstest.New(t)
		cfg := one(t)
		cfg.TLS.Cert, cfg.TLS.Key = auth.Certify("localhost")
		cfg.TLS.CA, cfg.Read = auth.CA, []string{"operator"}
		cfg.Token = filepath.Join(t.TempDir(), "token")
		const token = "0123456789abcdef0123456789"
		write := func(text string) {
			if err := os.WriteFile(cfg.Token, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(token)
		_, ln, plain := inMemory(t, cfg)
		const url = "https://localhost:8080/"

		pool := x509.NewCertPool()
		ca, err := os.ReadFile(auth.CA)
		if err != nil || !pool.AppendCertsFromPEM(ca) {
			t.Fatal(err)
		}
		client := func(name string) *http.Client {
			conf := &tls.Config{RootCAs: pool}
			if name != "" {
				pair, err := tls.LoadX509KeyPair(auth.Certify(name))
				if err != nil {
					t.Fatal(err)
				}
				conf.Certificates = []tls.Certificate{pair}
			}
			tr := over(ln, conf)
			t.Cleanup(tr.CloseIdleConnections)
			return &http.Client{Transport: tr}
		}
		nobody, bearer := client(""), func(token string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
		}
		for name, c := range map[string]struct {
			client *http.Client
			change func(*http.Request)
			want   int
		}{
			"nothing":                           {nobody, nil, 401},
			"the token":                         {nobody, bearer(token), 200},
			"the token as a password":           {nobody, func(r *http.Request) { r.SetBasicAuth("any", token) }, 200},
			"a wrong one":                       {nobody, bearer(token + "0"), 401},
			"an empty one":                      {nobody, func(r *http.Request) { r.SetBasicAuth("any", "") }, 401},
			"a certificate":                     {client("operator"), nil, 200},
			"another's":                         {client("intern"), nil, 401},
			"another's with the token":          {client("intern"), bearer(token), 200},
			"the token for a name pointed here": {nobody, func(r *http.Request) { bearer(token)(r); r.Host = "evil.example" }, 421},
		} {
			code, h, text := get(t, c.client, url, c.change)
			if code != c.want || code == 200 != strings.Contains(text, "<!DOCTYPE html>") || (code == 401) != (h.Get("WWW-Authenticate") != "") {
				t.Errorf("%s: %d, want %d\n%.100s", name, code, c.want, text)
			}
		}
		write(strings.ToUpper(token))
		if code, _, _ := get(t, nobody, url, bearer(token)); code != 401 {
			t.Errorf("with the former token: %d", code)
		}
		if code, _, text := get(t, plain, "http://localhost:8080/", bearer(strings.ToUpper(token))); code != http.StatusBadRequest {
			t.Errorf("without TLS: %d\n%.100s", code, text)
		}
	})
}

// TestLongLoginInABrowser: who types the token into Chromium's own dialogue sees the page live, over
// HTTP/2 with TLS; who does not, sees nothing.
func TestLongLoginInABrowser(t *testing.T) {
	t.Parallel()
	auth := tlstest.New(t)
	cfg := one(t)
	cfg.TLS.Cert, cfg.TLS.Key = auth.Certify("localhost")
	cfg.Token = filepath.Join(t.TempDir(), "token")
	const token = "0123456789abcdef0123456789"
	if err := os.WriteFile(cfg.Token, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(run(t, cfg).Addr().String())
	b := webtest.New(t, webtest.Options{AnyCertificate: true}, "localhost:"+port)
	b.Open("https://any:" + token + "@localhost:" + port + "/")
	b.Await(cell("s1:swp1", 2) + ` === "9 Gbit/s"`)
	b.Await(`document.getElementById("live").textContent === "Live"`)
	if by := webtest.Eval[string](b, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); by != "h2" {
		t.Errorf("the page came by %s", by)
	}

	stranger := webtest.New(t, webtest.Options{AnyCertificate: true}, "localhost:"+port)
	if err := stranger.Try("https://any:wrong" + token + "@localhost:" + port + "/"); err == nil && webtest.Eval[bool](stranger, `document.body.innerText.includes("s1")`) {
		t.Error("a wrong token shows the page")
	}
	for _, p := range stranger.Problems() {
		if !strings.Contains(p, "401") {
			t.Error(p)
		}
	}
}

// TestFollowers: so many browsers follow and no more, each is told what there is, and
// leaves a place when it goes.
func TestFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln, _ := inMemory(t, one(t))
		// A follower: its end, the code of the answer, and the first line after the headers.
		follow := func() (end func(), code int, line string) {
			c := dial(t, ln)
			_, err := io.WriteString(c, "GET /api/v1/live HTTP/1.0\r\nHost: localhost\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			if line, err = r.ReadString('\n'); err == nil {
				_, err = fmt.Sscanf(line, "HTTP/1.0 %d", &code)
			}
			for err == nil && line != "\r\n" { // the headers
				line, err = r.ReadString('\n')
			}
			if err == nil {
				line, err = r.ReadString('\n')
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() { c.Close() }, code, line
		}
		var first func()
		for i := range maxLive {
			end, code, line := follow()
			if code != http.StatusOK || !strings.HasPrefix(line, `data: {"now":`) || !strings.Contains(line, `"id":"s1:swp1"`) {
				t.Fatalf("follower %d of %d: %d, %q", i, maxLive, code, line)
			}
			if i == 0 {
				first = end
			}
		}
		if _, code, _ := follow(); code != http.StatusServiceUnavailable {
			t.Errorf("one more than %d is answered with %d", maxLive, code)
		}
		first()
		synctest.Wait()
		if _, code, _ := follow(); code != http.StatusOK {
			t.Errorf("the place of one that has gone is not free: %d", code)
		}
	})
}

// TestPageStaysThere: clients that take all connections, with bodies that they do not send or answers
// that they do not read, do not take the page from others, whatever address they have.
func TestPageStaysThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln, client := inMemory(t, one(t))
		for name, text := range map[string]string{
			"bodies":          "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
			"bodies of POST":  "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
			"chunks":          "GET /api/v1/fleet HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
			"unread answers":  strings.Repeat("GET /assets/fleet.js HTTP/1.1\r\nHost: localhost\r\n\r\n", 300),
			"nothing further": "GET / HTTP/1.1\r\nHost: localhost\r\n",
		} {
			for range maxConns + 8 {
				c := dial(t, ln)
				go func() { _, _ = io.WriteString(c, text) }()
			}
			synctest.Wait()
			for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				resp, err := client.Get("http://localhost/")
				if err == nil {
					resp.Body.Close()
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%s: the page is away: %v", name, err)
				}
			}
		}
	})
}
