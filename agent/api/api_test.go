package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
)

// serveToEnd has a server answer until the test ends.
func serveToEnd(t *testing.T, s *Server) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
}

func serve(t *testing.T, socket string, status func() *Status) *Server {
	t.Helper()
	s, err := Listen(socket, status)
	if err != nil {
		t.Fatal(err)
	}
	serveToEnd(t, s)
	return s
}

func TestStatusAndWatch(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "a", "agent.sock")
	count := make(chan uint64, 10)
	var n uint64
	s := serve(t, socket, func() *Status {
		select {
		case n = <-count:
		default:
		}
		return &Status{Format: StatusFormat, Device: "s1", Cycle: Cycle{Count: n}}
	})
	c := NewClient(socket)
	defer c.Close()
	st, err := c.Status(t.Context())
	if err != nil || st.Device != "s1" {
		t.Fatalf("status %+v, %v", st, err)
	}
	enough := errors.New("enough")
	next := uint64(1)
	err = c.Watch(t.Context(), func(s2 *Status) error {
		if next == 4 {
			return enough
		}
		count <- next
		next++
		s.Publish()
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("watch ended with %v", err)
	}
}

func TestWatchEndsWithItsContextAndWithTheAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	s, err := Listen(socket, func() *Status { return &Status{Format: StatusFormat} })
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve() }() // ends with Close
	c := NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Watch(ctx, func(*Status) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("watch ended with %v, want the context's end", err)
	}
	err = c.Watch(t.Context(), func(*Status) error { return s.Close() })
	if err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("watch ended with %v, want an error that the agent closed the connection", err)
	}
}

func TestSocket(t *testing.T) {
	status := func() *Status { return &Status{Format: StatusFormat} }
	socket := filepath.Join(t.TempDir(), "agent.sock")

	if _, err := NewClient(socket).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "no agent listens at "+socket) {
		t.Errorf("without a socket: %v", err)
	}

	// A socket that a killed agent left behind.
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	serve(t, socket, status)
	fi, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %v, want access for its owner only", fi.Mode())
	}

	want := "another csig answers there: stop it"
	if knowsPeers {
		want += fmt.Sprintf(" (process %d)", os.Getpid())
	}
	if _, err := Listen(socket, status); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a second agent: %v, want %s", err, want)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file, status); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file in the way: %v", err)
	}
}

// TestListenLeavesItsSuccessor: an agent that ends leaves the socket that another one made at its path meanwhile.
func TestListenLeavesItsSuccessor(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	old, err := Listen(socket, func() *Status { return nil })
	if err == nil {
		err = os.Remove(socket)
	}
	if err != nil {
		t.Fatal(err)
	}
	next, err := Listen(socket, func() *Status { return nil })
	if err != nil {
		t.Fatal(err)
	}
	old.Close()
	if _, err := os.Lstat(socket); err != nil {
		t.Error("the successor's: ", err)
	}
	next.Close()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("its own: %v", err)
	}
}

// TestListenAfterKill: a socket whose agent is going away is taken over when it has gone.
func TestListenAfterKill(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	go func() {
		if c, err := ln.Accept(); err == nil { // it has been found there
			c.Close()
		}
		ln.Close()
	}()
	s, err := Listen(socket, func() *Status { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// inMemory serves in memory, where every client may do everything, until the test ends.
func inMemory(t *testing.T, status func() *Status) (*Server, *memnet.Listener) {
	t.Helper()
	ln := memnet.Listen("agent.sock")
	s := newServer(status, &limited{Listener: trusting{ln}})
	serveToEnd(t, s)
	return s, ln
}

// clientOf is a client of a server in memory.
func clientOf(t *testing.T, ln *memnet.Listener) *Client {
	c := NewDialClient("agent.sock", ln.Dial)
	t.Cleanup(c.Close)
	return c
}

// trusting has the connections of a listener be trusted.
type trusting struct{ net.Listener }

func (l trusting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return trusted{c}, err
}

type trusted struct{ net.Conn }

func (trusted) Peer() string { return "the test" }

// TestWatchHearsOfCyclesThatDoNotCome has an agent whose cycles hang.
func TestWatchHearsOfCyclesThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln := inMemory(t, func() *Status { return &Status{Format: StatusFormat, Time: time.Now()} })
		enough, begin := errors.New("enough"), time.Now()
		var at []time.Duration
		if err := clientOf(t, ln).Watch(t.Context(), func(s *Status) error {
			if at = append(at, s.Time.Sub(begin)); len(at) == 3 {
				return enough
			}
			return nil
		}); !errors.Is(err, enough) || !slices.Equal(at, []time.Duration{0, quietTime, 2 * quietTime}) {
			t.Errorf("statuses of %v: %v", at, err)
		}
	})
}

// TestOneStatusACycle: however many clients ask, a status is made once a cycle, or once in statusAge.
func TestOneStatusACycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0 // one at a time
		s, ln := inMemory(t, func() *Status { made++; return &Status{Format: StatusFormat} })
		var clients []*Client
		for range 8 {
			clients = append(clients, clientOf(t, ln))
		}
		ask := func(want int) {
			t.Helper()
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					for range 3 {
						if _, err := c.Status(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if made != want {
				t.Errorf("%d statuses were made for many requests, want %d", made, want)
			}
		}
		ask(1)
		for cycle := range 5 {
			s.Publish()
			ask(2 + cycle) // of after the cycle
		}
		time.Sleep(statusAge)
		ask(6)
		time.Sleep(time.Nanosecond)
		ask(7)
	})
}

func TestSocketsThatCannotBe(t *testing.T) {
	for _, tc := range []struct{ name, socket, want string }{
		{"empty", "", "--socket is empty"},
		{"abstract", "@csig", "begin with @"},
		{"too long", "/" + strings.Repeat("x", 120), "has 121 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Listen(tc.socket, func() *Status { return nil }); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("listen: %v, want %q", err, tc.want)
			}
			if _, err := NewClient(tc.socket).Status(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("status: %v, want %q", err, tc.want)
			}
		})
	}
	if real, shadow := DefaultSocket(), DefaultShadowSocket(); real == shadow || filepath.Dir(real) != filepath.Dir(shadow) {
		t.Errorf("a real agent listens at %s, a shadow at %s: want two beside each other", real, shadow)
	}
}

func TestOtherFormatIsRefused(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	serve(t, socket, func() *Status { return &Status{Format: "csig.status/v9", Time: time.Now()} })
	if _, err := NewClient(socket).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "csig.status/v9") {
		t.Errorf("a status of another format: %v", err)
	}
}

// TestNoSocket: a file that is no socket is named as that, whether or not it may be written.
func TestNoSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(file).Status(t.Context()); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "it is not a socket") {
		t.Errorf("%v", err)
	}
}
