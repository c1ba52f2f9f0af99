package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api/tlstest"
)

// pipes is a listener in memory, whose connections have no buffer.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), end: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// pipeEnd is a connection that comes from an address.
type pipeEnd struct {
	net.Conn
	from net.Addr
}

func (p *pipeEnd) RemoteAddr() net.Addr { return p.from }

// dial connects from an address.
func (p *pipes) dial(from string) net.Conn {
	here, there := net.Pipe()
	p.conns <- &pipeEnd{there, &net.TCPAddr{IP: net.ParseIP(from), Port: 1}}
	return here
}

// ask dials, sends and reads the code of the answer.
func (p *pipes) ask(from, text string) (int, error) {
	c := p.dial(from)
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

const plainGet = "GET " + StatusPath + " HTTP/1.1\r\nHost: agent\r\n\r\n"

// fewConns are those that a listener of these tests has at most.
const fewConns = 8

// servePipes answers a handler's requests in memory, as a server of the agent's own and as one of
// ListenTCP, until the test ends.
func servePipes(t *testing.T, kind string, h http.Handler) (*pipes, *limited) {
	p := newPipes()
	var l *limited
	var serve func() error
	var end func() error
	if kind == "agent" {
		l = &limited{Listener: p, plain: roleChange}
		s := newServer(nil, l)
		s.plain, s.http = true, newHTTP(s.guard(h), takesBody)
		serve, end = s.Serve, s.Close
	} else {
		own, err := ListenTCP(ListenerConfig{On: p, Conns: fewConns, Handler: h})
		if err != nil {
			t.Fatal(err)
		}
		l = own.ln.(*limited)
		serve, end = func() error { return own.Serve(nil) }, own.Close
	}
	done := make(chan error, 1)
	go func() { done <- serve() }()
	t.Cleanup(func() {
		if err := errors.Join(end(), <-done); err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return p, l
}

// TestEveryClientHasATime: whatever a client does not send or read, its connection ends in the time
// that is for it, and a body that no handler reads is waited for no longer than the answer takes.
func TestEveryClientHasATime(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, big)
	})
	for _, kind := range []string{"agent", "listener"} {
		for name, c := range map[string]struct {
			send string
			read bool
			most time.Duration
		}{
			"silent":                {"", true, headerTimeout},
			"half a header":         {"GET / HTTP/1.1\r\nHost: agent\r\n", true, headerTimeout},
			"nothing after one":     {plainGet, true, idleTimeout},
			"a body that is late":   {"GET / HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n", true, leaveTimeout},
			"a body in no end":      {"GET / HTTP/1.1\r\nHost: agent\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", true, leaveTimeout},
			"a body of DELETE":      {"DELETE / HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n", true, leaveTimeout},
			"a body of HEAD":        {"HEAD / HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n", true, leaveTimeout},
			"a body of POST":        {"POST " + LockPath + " HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n", true, leaveTimeout},
			"of another host":       {"PUT / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\n\r\n", true, leaveTimeout},
			"a body that is wanted": {"PUT / HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n", true, bodyTimeout},
			"no reader":             {plainGet, false, writeTimeout},
			"no reader, no page":    {"GET /nothing HTTP/1.1\r\nHost: agent\r\n\r\n", false, writeTimeout},
			"no reader of refusals": {"GET / HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n", false, writeTimeout + leaveTimeout},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, l := servePipes(t, kind, h)
					const clients = 10
					for range clients {
						conn := p.dial("192.0.2.1")
						defer conn.Close()
						go func() { _, _ = io.WriteString(conn, c.send) }()
						if c.read {
							go func() { _, _ = io.Copy(io.Discard, conn) }()
						}
					}
					time.Sleep(c.most + time.Second) // net/http takes half a second to close one whose body is not read
					synctest.Wait()
					l.mu.Lock()
					defer l.mu.Unlock()
					if n := len(l.conns); n != 0 {
						t.Errorf("%d of %d connections are open after %v", n, clients, c.most+time.Second)
					}
				})
			})
		}
	}
}

// TestOneSourceFills: clients of one address, or of one network of IPv6, that hold all the
// connections they can get back a body or leave answers unread keep out neither others nor the
// next one of the same address.
func TestOneSourceFills(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, big) })
	for name, send := range map[string]string{
		"silent":   "",
		"bodies":   "GET / HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n",
		"unread":   plainGet,
		"pipeline": strings.Repeat(plainGet, 50),
	} {
		for _, network := range []string{"192.0.2.1", "2001:db8::%x"} {
			t.Run(name+" from "+network, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, l := servePipes(t, "listener", h)
					at := func(i int) string {
						if strings.Contains(network, "%") {
							return fmt.Sprintf(network, i)
						}
						return network
					}
					fill := func() {
						for i := range 3 * fewConns {
							conn := p.dial(at(i))
							t.Cleanup(func() { conn.Close() })
							go func() { _, _ = io.WriteString(conn, send) }()
						}
						synctest.Wait()
					}
					for range 3 { // and again, as long as they like
						fill()
						l.mu.Lock()
						if n := len(l.conns); n > (fewConns+1)/2 {
							t.Errorf("one source has %d of %d connections", n, fewConns)
						}
						l.mu.Unlock()
						if code, err := p.ask("192.0.2.9", plainGet); code != http.StatusOK {
							t.Errorf("another address: %d %v", code, err)
						}
						time.Sleep(stallTime + time.Millisecond)
						if code, err := p.ask(at(1), plainGet); code != http.StatusOK {
							t.Errorf("the same address: %d %v", code, err)
						}
					}
				})
			})
		}
	}
}

// TestStreamsOfDays: a client that reads a stream may do so for days, whether there is much to send
// or nothing, and over HTTP/2, too; one that stops reading is dropped in time.
func TestStreamsOfDays(t *testing.T) {
	for _, proto := range []string{"HTTP/1", "HTTP/2"} {
		for _, every := range []time.Duration{10 * time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprint(proto, " every ", every), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ended := make(chan error, 2)
					var part atomic.Pointer[string]
					small, big := "data: x\n\n", "data: "+strings.Repeat("x", 1<<20)+"\n\n"
					part.Store(&small)
					h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						for r.Context().Err() == nil {
							if err := Send(w, []byte(*part.Load()), writeTimeout); err != nil {
								ended <- err
								return
							}
							select {
							case <-time.After(every):
							case <-r.Context().Done():
							}
						}
						ended <- r.Context().Err()
					})
					p := newPipes()
					cfg := ListenerConfig{On: p, Conns: maxConns, Handler: h, Warn: func(string, ...any) {}}
					tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial("192.0.2.1"), nil }}
					url, long := "http://leaf1/", min(300*every, 50*time.Hour)
					if proto == "HTTP/2" {
						ca := tlstest.New(t)
						ca.Certify("leaf1")
						cfg.TLS, cfg.Login = files(ca, "leaf1"), true
						var err error
						if tr.TLSClientConfig, err = files(ca, "leaf1").Client("leaf1"); err != nil {
							t.Fatal(err)
						}
						tr.TLSClientConfig.Certificates = nil
						tr.ForceAttemptHTTP2, url = true, "https://leaf1/"
						long /= 4 // in each second of which the listener looks at its files
					}
					l, err := ListenTCP(cfg)
					if err != nil {
						t.Fatal(err)
					}
					served := make(chan error, 1)
					go func() { served <- l.Serve(nil) }()
					defer func() {
						tr.CloseIdleConnections()
						_ = l.Close()
						if err := <-served; !errors.Is(err, http.ErrServerClosed) {
							t.Error(err)
						}
					}()
					resp, err := tr.RoundTrip(request(t, url))
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					r := bufio.NewReader(resp.Body)
					for began := time.Now(); time.Since(began) < long; {
						if _, err := r.ReadSlice('\n'); err != nil {
							t.Fatalf("after %v: %v", time.Since(began), err)
						}
					}
					part.Store(&big)
					select {
					case err := <-ended:
						t.Fatalf("the stream has ended: %v", err)
					default:
					}
					if proto == "HTTP/2" { // its client reads ahead, as far as its window goes
						time.Sleep(6 * every)
					}
					select {
					case err := <-ended:
						if err == nil {
							t.Error("it ended without an error")
						}
					case <-time.After(every + writeTimeout + time.Second):
						t.Error("a client that does not read follows still")
					}
				})
			})
		}
	}
}

func request(t *testing.T, url string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHandedOverForLong: a request with a body that another process answers after minutes is not
// ended by the deadlines of its body or of its answer.
func TestHandedOverForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := newServer(nil, &limited{Listener: p, plain: roleChange})
		s.plain = true
		s.Forward(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if text, err := io.ReadAll(r.Body); err != nil || string(text) != "hello" {
				t.Errorf("%q %v", text, err)
			}
			select {
			case <-time.After(4 * time.Minute):
			case <-r.Context().Done():
				t.Error("it is ended")
			}
			_, _ = io.WriteString(w, "done")
		}))
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		code, err := p.ask("192.0.2.1", "PUT "+ConfigPath+" HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\nhello")
		if code != http.StatusOK {
			t.Errorf("%d %v", code, err)
		}
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
}

// TestForbiddenBodies: a member of the socket's group whose request is refused holds no
// connection with the body that it does not send.
func TestForbiddenBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := newServer(func() *Status { return &Status{Format: StatusFormat} }, &limited{Listener: p, plain: roleStatus})
		s.plain = true
		done := make(chan error, 1)
		go func() { done <- s.Serve() }()
		for range maxUserConns {
			c := p.dial("192.0.2.1")
			defer c.Close()
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, _ = io.WriteString(c, "PUT "+ConfigPath+" HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\n")
		}
		synctest.Wait()
		if code, err := p.ask("192.0.2.1", plainGet); code != http.StatusOK {
			t.Errorf("beside them: %d %v", code, err)
		}
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
}

// TestStalledListener is TestOneSourceFills with what the kernel buffers: real connections.
func TestStalledListener(t *testing.T) {
	big := strings.Repeat("x", 32<<20) // more than the kernel takes
	l, err := ListenTCP(ListenerConfig{
		Flag: "--web", Addr: "127.0.0.1:0", Conns: fewConns, Warn: t.Logf,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/big" {
				_, _ = io.WriteString(w, big)
			}
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Serve(nil) }()
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	for _, send := range []string{"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"} {
		for i := range 2 * fewConns {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%2))}}
			c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, send); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			resp, err := http.Get("http://" + l.Addr().String() + "/")
			if err == nil {
				resp.Body.Close()
				break
			}
			if time.Now().After(end) {
				t.Fatalf("beside %q: %v", send, err)
			}
		}
	}
}
