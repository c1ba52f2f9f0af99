package api

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api/tlstest"
)

// served is a server with a manager, whose log is kept.
type served struct {
	*Server
	m      *manager
	socket string
	addr   net.Addr
	log    chan string
}

// serveAll starts a server, over TLS too where files are given; begin is called
// just before it answers.
func serveAll(t *testing.T, own *TLSFiles, begin func(*served)) *served {
	t.Helper()
	v := &served{m: &manager{mtus: map[string]int{}}, socket: filepath.Join(t.TempDir(), "agent.sock"), log: make(chan string, 1000)}
	var err error
	v.Server, err = Listen(v.socket, func() *Status { return &Status{Format: StatusFormat, Device: "s1"} })
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	log.SetOutput(lines(v.log))
	v.LogTo(logrus.NewEntry(log))
	v.Manage(v.m)
	if own != nil {
		if v.addr, err = v.ListenTLS("127.0.0.1:0", *own, TLSAccess{Change: []string{"operator"}}); err != nil {
			t.Fatal(err)
		}
	}
	if begin != nil {
		begin(v)
	}
	serveToEnd(t, v.Server)
	return v
}

// A client that has gone away before its request was read does not find it
// carried out later: the daemon may have been stopped meanwhile.
func TestGoneClientsChangeNothing(t *testing.T) {
	ca := tlstest.New(t)
	ca.Certify("leaf1")
	ca.Certify("operator")
	own := files(ca, "leaf1")
	v := serveAll(t, &own, func(v *served) {
		// What the kernel takes for a process that does not run.
		c, err := net.Dial("unix", v.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: agent\r\nContent-Length: 9\r\n\r\nabandoned", ConfigPath)
		c.Close()
	})
	// A later request is answered after the abandoned one: connections are
	// accepted in order, but handled side by side, so wait for the former's end.
	for c := NewClient(v.socket); ; {
		if err := c.SetMTU(t.Context(), "swp1", 1500); err != nil {
			t.Fatal(err)
		}
		l := v.lns[0].(*limited)
		l.mu.Lock()
		n := len(l.conns)
		l.mu.Unlock()
		if n == 1 {
			c.Close()
			break
		}
	}
	if v.m.file != "" {
		t.Errorf("the daemon has carried out a request whose client is gone: %q", v.m.file)
	}
}

// Every change is one line of the log, whatever its level, before it happens.
func TestChangesAreAudited(t *testing.T) {
	ca := tlstest.New(t)
	ca.Certify("leaf1")
	own := files(ca, "leaf1")
	ca.Certify("operator")
	v := serveAll(t, &own, nil)
	c := NewClient(v.socket)
	defer c.Close()
	c.token = "secret-token"
	if err := c.Configure(t.Context(), []byte("a file")); err != nil {
		t.Fatal(err)
	}
	line := <-v.log
	for _, want := range []string{"change requested", `request="PUT /v1/config"`, fmt.Sprintf(`peer="user %d"`, os.Geteuid()), "sha256=7365d029861e32c521f8089b00a6fb32daf0615025b69b599d1ce53501b845c2"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	if strings.Contains(line, "secret-token") {
		t.Errorf("the log has the token: %s", line)
	}
	cfg, err := files(ca, "operator").Client("leaf1")
	if err != nil {
		t.Fatal(err)
	}
	tc := NewTLSClient(v.addr.String(), cfg, files(ca, "operator"))
	defer tc.Close()
	if err := tc.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if line = <-v.log; !strings.Contains(line, `request="DELETE /v1/config"`) || !strings.Contains(line, `peer="certificate [operator]"`) || !strings.Contains(line, "address=\"127.0.0.1:") {
		t.Errorf("%q", line)
	}
	if _, err := tc.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-v.log:
		t.Errorf("a status is no change: %q", line)
	default:
	}
}

// What a browser sends for another site's page is refused.
func TestForeignRequests(t *testing.T) {
	ca := tlstest.New(t)
	ca.Certify("leaf1")
	ca.Certify("operator")
	own := files(ca, "leaf1")
	v := serveAll(t, &own, nil)
	cfg, err := files(ca, "operator").Client("leaf1")
	if err != nil {
		t.Fatal(err)
	}
	overTLS := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
	local := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", v.socket)
	}}}
	defer overTLS.CloseIdleConnections()
	defer local.CloseIdleConnections()
	for _, tc := range []struct {
		name         string
		c            *http.Client
		url          string
		host, origin string
		body         string
		want         int
	}{
		{"csig's own", local, "http://agent", "", "", "", http.StatusOK},
		{"curl's usual", local, "http://localhost", "", "", "", http.StatusOK},
		{"with a port", local, "http://localhost:80", "", "", "", http.StatusOK},
		{"another host", local, "http://attacker.example", "", "", "", http.StatusUnprocessableEntity},
		{"a page's origin", local, "http://agent", "", "https://attacker.example", "", http.StatusUnprocessableEntity},
		{"a null origin", local, "http://agent", "", "null", "", http.StatusUnprocessableEntity},
		{"TLS by name", overTLS, "https://" + v.addr.String(), "leaf1:7443", "", "", http.StatusOK},
		{"TLS by address", overTLS, "https://" + v.addr.String(), "", "", "", http.StatusOK},
		{"TLS, rebound", overTLS, "https://" + v.addr.String(), "attacker.example", "", "", http.StatusUnprocessableEntity},
		{"a GET with a body", local, "http://agent", "", "", "x", http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url+StatusPath, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if tc.host != "" {
				req.Host = tc.host
			}
			if tc.origin != "" {
				req.Header.Set("Origin", tc.origin)
			}
			resp, err := tc.c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tc.want {
				text, _ := io.ReadAll(resp.Body)
				t.Errorf("status %d, want %d: %s", resp.StatusCode, tc.want, text)
			}
		})
	}
}

// New certificates and authorities are in force without a restart, and files
// that cannot be used change nothing.
func TestCertificatesAreReloaded(t *testing.T) {
	old, fresh := tlstest.New(t), tlstest.New(t)
	for _, ca := range []*tlstest.Authority{old, fresh} {
		ca.Certify("leaf1")
		ca.Certify("operator")
	}
	dir := t.TempDir()
	own := TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}
	install := func(from TLSFiles) {
		t.Helper()
		for to, file := range map[string]string{own.Cert: from.Cert, own.Key: from.Key, own.CA: from.CA} {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(to, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	install(files(old, "leaf1"))
	v := serveAll(t, &own, nil)
	enters := func(ca *tlstest.Authority) error {
		t.Helper()
		f := files(ca, "operator")
		cfg, err := f.Client("leaf1")
		if err != nil {
			t.Fatal(err)
		}
		c := NewTLSClient(v.addr.String(), cfg, f)
		defer c.Close()
		_, err = c.Status(t.Context())
		return err
	}
	if err := enters(old); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("half")}), 0o600); err != nil {
		t.Fatal(err)
	}
	v.tls.reload()
	if err := enters(old); err != nil {
		t.Errorf("with half a file: %v", err)
	}
	install(files(fresh, "leaf1"))
	v.tls.reload()
	if err := enters(fresh); err != nil {
		t.Errorf("with new files: %v", err)
	}
	if err := enters(old); err == nil {
		t.Error("the old authority's client still gets in")
	}
	// And by itself.
	install(files(old, "leaf1"))
	for began := time.Now(); enters(old) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("files that change are not read again")
		}
	}
}

// A daemon without permitted clients, or whose own name is an operator's, does not
// listen.
func TestTLSAccessIsChecked(t *testing.T) {
	ca := tlstest.New(t)
	ca.Certify("leaf1")
	for _, tc := range []struct {
		access TLSAccess
		want   string
	}{
		{TLSAccess{}, "name certificates with --tls-change or --tls-read"},
		{TLSAccess{Change: []string{"operator", "leaf1"}}, "leaf1 is a name of this daemon's own certificate"},
		{TLSAccess{Read: []string{"leaf1"}}, "leaf1 is a name of this daemon's own certificate"},
	} {
		s, err := Listen(filepath.Join(t.TempDir(), "agent.sock"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ListenTLS("127.0.0.1:0", files(ca, "leaf1"), tc.access); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.access, err, tc.want)
		}
		s.Close()
	}
}

// Silent clients, those that stop after the handshake, and members of the group with
// many connections leave place for the agent's own user.
func TestManyConnections(t *testing.T) {
	ca := tlstest.New(t)
	ca.Certify("leaf1")
	ca.Certify("operator")
	own := files(ca, "leaf1")
	v := serveAll(t, &own, nil)
	for _, network := range []string{"unix", "tcp"} {
		l, address := v.lns[0].(*limited), v.socket
		if network == "tcp" {
			address = v.addr.String()
			l = nil
		}
		silent := make([]net.Conn, 0, 3*maxConns)
		for range 3 * maxConns {
			c, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			silent = append(silent, c)
		}
		// The oldest were closed for the newest: the first of them reads the end.
		if _, err := silent[0].Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the oldest silent connection is open", network)
		}
		if l != nil {
			l.mu.Lock()
			if len(l.conns) > maxConns {
				t.Errorf("%d connections are open", len(l.conns))
			}
			l.mu.Unlock()
		}
		var c *Client
		if network == "unix" {
			c = NewClient(v.socket)
		} else {
			cfg, err := files(ca, "operator").Client("leaf1")
			if err != nil {
				t.Fatal(err)
			}
			c = NewTLSClient(address, cfg, files(ca, "operator"))
		}
		if err := c.Configure(t.Context(), []byte(network)); err != nil || v.m.file != network {
			t.Errorf("%s: beside silent clients: %v", network, err)
		}
		c.Close()
	}
}

func TestAdmit(t *testing.T) {
	member := func(n int) peer { return peer{name: fmt.Sprintf("user %d", n), role: roleStatus} }
	root := peer{name: "user 0", role: roleChange}
	l := &limited{}
	add := func(p peer, active bool) (*conn, *conn, bool) {
		c := &conn{of: l, peer: p, from: p.name, active: active}
		evicted, ok := l.admit(c)
		return c, evicted, ok
	}
	first, _, _ := add(member(1), true)
	idle, _, _ := add(member(1), false)
	for range maxUserConns - 2 {
		add(member(1), true)
	}
	if _, evicted, ok := add(member(1), true); evicted != idle || !ok {
		t.Errorf("a user's own idle connection goes first: %v, %v", evicted, ok)
	}
	if _, evicted, ok := add(member(1), false); evicted != nil || ok {
		t.Errorf("a user with %d busy connections gets another: %v, %v", maxUserConns, evicted, ok)
	}
	for n := 2; len(l.conns) < maxConns; n++ {
		add(member(n), true)
	}
	if _, evicted, ok := add(member(99), false); evicted != nil || ok {
		t.Errorf("another user's busy connection gives way to a user's: %v, %v", evicted, ok)
	}
	if _, evicted, ok := add(root, false); evicted != first || !ok {
		t.Errorf("the oldest gives way to root's: %v, %v", evicted, ok)
	}
	if len(l.conns) != maxConns {
		t.Errorf("%d connections", len(l.conns))
	}
	for i := range l.conns {
		l.conns[i].peer, l.conns[i].active = root, true
	}
	roots, idle := l.conns[0], l.conns[1] // root's own idle one is older than a user's
	roots.active, idle.active, idle.peer = false, false, member(1)
	for _, want := range []*conn{idle, roots} {
		if _, evicted, ok := add(root, true); evicted != want || !ok {
			t.Errorf("%v gives way to root's, want %v: %v", evicted, want, ok)
		}
	}
	// All are root's open answers: root gets in, others do not, and there is an end to it.
	for len(l.conns) < maxOwnConns {
		if _, evicted, ok := add(root, true); evicted != nil || !ok {
			t.Fatalf("beside %d open answers of root another call of root: %v, %v", len(l.conns), evicted, ok)
		}
		if _, evicted, ok := add(member(1), false); evicted != nil || ok {
			t.Fatalf("beside %d open answers of root a user: %v, %v", len(l.conns), evicted, ok)
		}
	}
	oldest := l.conns[0]
	if _, evicted, ok := add(root, true); evicted != oldest || !ok || len(l.conns) != maxOwnConns {
		t.Errorf("%v gives way to root's, want %v: %v, %d connections", evicted, oldest, ok, len(l.conns))
	}
	l = &limited{}
	for range maxUserConns + 1 {
		if _, evicted, ok := add(root, false); evicted != nil || !ok {
			t.Fatalf("root has a user's bound: %v, %v", evicted, ok)
		}
	}
}

// A member of the group may have few requests open, and one that does not read
// its answers loses its connection.
func TestRequestsOfOnePeer(t *testing.T) {
	s := &Server{}
	for range maxRequests {
		if !s.enter("user 1", maxRequests) {
			t.Fatal("a request is refused too early")
		}
	}
	if s.enter("user 1", maxRequests) || !s.enter("user 2", maxRequests) {
		t.Error("the bound is not one of each peer")
	}
	s.leave("user 1")
	if !s.enter("user 1", maxRequests) {
		t.Error("a request that is over is still counted")
	}

	// At the door: who may change something is not bounded.
	h := s.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") }))
	for _, row := range []struct {
		p    peer
		want int
	}{
		{peer{name: "user 1", role: roleStatus}, http.StatusTooManyRequests},
		{peer{name: "user 1", role: roleRead}, http.StatusTooManyRequests},
		{peer{name: "user 1", role: roleChange}, http.StatusOK},
		{peer{name: "user 3", role: roleStatus}, http.StatusOK},
	} {
		for range maxRequests + 1 { // one after the other
			r := httptest.NewRequest(http.MethodGet, "http://agent"+StatusPath, nil)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(withConn(r.Context(), &conn{peer: row.p})))
			if refused := row.want != http.StatusOK; w.Code != row.want || (w.Header().Get("Retry-After") != "") != refused || strings.Contains(w.Body.String(), "requests open") != refused {
				t.Fatalf("%+v: %d %s", row.p, w.Code, w.Body)
			}
		}
	}
}

// A socket that fails ends Serve with its error, and an address that is taken is one.
func TestSocketThatFails(t *testing.T) {
	s, err := Listen(filepath.Join(t.TempDir(), "s"), func() *Status { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.lns[0].Close()
	if err := s.Serve(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	s.Close()
	ca := tlstest.New(t)
	ca.Certify("leaf1")
	own := files(ca, "leaf1")
	v := serveAll(t, &own, nil)
	if _, err := v.ListenTLS(v.addr.String(), own, TLSAccess{Change: []string{"operator"}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address that is taken: %v", err)
	}
}

// Connections that fail make one line a minute.
func TestSparseLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(lines, 100)
		log := log.New(&sparseLog{log: out.entry(), every: time.Minute}, "", 0)
		for i := range 1000 {
			log.Printf("handshake %d\x1b[2J\nmore", i)
		}
		synctest.Wait()
		if n := len(out); n != 1 {
			t.Fatalf("%d lines at once", n)
		}
		if line := <-out; strings.Contains(line, "\x1b") || !strings.Contains(line, `handshake 0`) {
			t.Errorf("%q", line)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if line := <-out; len(out) != 0 || !strings.Contains(line, "more=999") || !strings.Contains(line, "handshake 999") {
			t.Errorf("%q, and %d more", line, len(out))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		log.Print("later")
		if line := <-out; len(out) != 0 || !strings.Contains(line, "later") {
			t.Errorf("%q, and %d more", line, len(out))
		}
		time.Sleep(2 * time.Minute) // its timer is over
	})
}

// TestTooLongBodies: a request whose body is longer than what it may have is refused unread.
func TestTooLongBodies(t *testing.T) {
	v := serveAll(t, nil, nil)
	for path, most := range map[string]int64{"PUT " + ConfigPath: maxConfig, "PUT " + MTUPath: maxMTUs, "POST " + LinkPath: maxLinkFrame} {
		c, err := net.Dial("unix", v.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n", path, 1<<40)
		go func() { _, _ = io.CopyN(c, zeros{}, most+1<<20) }()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), "request body too large") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		resp.Body.Close()
		c.Close()
	}
}

// TestHalfARequest: a client that has sent half of one does not make the server's end an error: a
// controller's standby that takes a device ends so.
func TestHalfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c net.Conn
		t.Cleanup(func() { c.Close() }) // after the server's end
		s, ln := inMemory(t, nil)
		s.Manage(&manager{})
		var err error
		if c, err = ln.Dial(t.Context()); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: agent\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\nhalf", ConfigPath)
		// This answer comes when the server waits for the rest.
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
