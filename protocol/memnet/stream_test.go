package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// TestListenerAsTCP does the same with a listener in memory and with a real one of TCP.
func TestListenerAsTCP(t *testing.T) {
	memory := func(*testing.T) (net.Listener, func(context.Context) (net.Conn, error)) {
		l := Listen("127.0.0.1:161")
		return l, l.Dial
	}
	real := func(t *testing.T) (net.Listener, func(context.Context) (net.Conn, error)) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		}
	}
	for name, listen := range map[string]func(*testing.T) (net.Listener, func(context.Context) (net.Conn, error)){"memory": memory, "tcp": real} {
		t.Run(name, func(t *testing.T) {
			start := func(t *testing.T) (l net.Listener, client, server net.Conn, dial func(context.Context) (net.Conn, error)) {
				t.Helper()
				l, dial = listen(t)
				client, err := dial(t.Context()) // before anybody accepts
				if err != nil {
					t.Fatal(err)
				}
				if server, err = l.Accept(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close(); client.Close(); server.Close() })
				return l, client, server, dial
			}
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				l, client, server, _ := start(t)
				return client, server, func() { l.Close(); client.Close(); server.Close() }, nil
			})
			t.Run("addresses", func(t *testing.T) {
				l, client, server, _ := start(t)
				if client.RemoteAddr().String() != l.Addr().String() || client.LocalAddr().String() != server.RemoteAddr().String() ||
					server.LocalAddr().String() != l.Addr().String() || l.Addr().(*net.TCPAddr).Port == 0 {
					t.Errorf("listener %v, client %v from %v, server %v from %v", l.Addr(), client.RemoteAddr(), client.LocalAddr(), server.LocalAddr(), server.RemoteAddr())
				}
			})
			t.Run("half-close", func(t *testing.T) {
				_, client, server, _ := start(t)
				write(t, client, "question")
				if err := client.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
				if all, err := io.ReadAll(server); string(all) != "question" || err != nil {
					t.Errorf("read %q, %v", all, err)
				}
				write(t, server, "answer")
				server.Close()
				if all, err := io.ReadAll(client); string(all) != "answer" || err != nil {
					t.Errorf("read %q, %v", all, err)
				}
				if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
					t.Errorf("write after its end: %v", err)
				}
			})
			t.Run("closed with data unread", func(t *testing.T) {
				_, client, server, _ := start(t)
				write(t, client, "question")
				if _, err := server.Read(make([]byte, 1)); err != nil { // it arrived
					t.Fatal(err)
				}
				server.Close()
				if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("read: %v", err)
				}
				if _, err := client.Write(make([]byte, 1)); !errors.Is(err, syscall.EPIPE) {
					t.Errorf("write: %v", err)
				}
			})
			t.Run("own end closed", func(t *testing.T) {
				_, client, _, _ := start(t)
				client.Close()
				_, reading := client.Read(make([]byte, 1))
				_, writing := client.Write(make([]byte, 1))
				if again := client.Close(); !errors.Is(reading, net.ErrClosed) || !errors.Is(writing, net.ErrClosed) || !errors.Is(again, net.ErrClosed) {
					t.Errorf("read %v, write %v, close %v", reading, writing, again)
				}
			})
			t.Run("deadline", func(t *testing.T) {
				_, client, _, _ := start(t)
				if err := client.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				_, reading := client.Read(make([]byte, 1))
				n, writing := client.Write(make([]byte, 64<<20)) // nobody reads
				if !errors.Is(reading, os.ErrDeadlineExceeded) || !errors.Is(writing, os.ErrDeadlineExceeded) || n == 64<<20 {
					t.Errorf("read %v, write %d, %v", reading, n, writing)
				}
			})
			t.Run("closed listener", func(t *testing.T) {
				l, client, server, dial := start(t)
				waits, err := dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
				if _, err := waits.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("a connection that was not accepted: %v", err)
				}
				if _, err := dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("dialled it: %v", err)
				}
				if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("accept: %v", err)
				}
				write(t, client, "x")
				if b := make([]byte, 1); true {
					if _, err := server.Read(b); err != nil || b[0] != 'x' {
						t.Errorf("an accepted connection: %q, %v", b, err)
					}
				}
			})
			t.Run("given up", func(t *testing.T) {
				_, dial := listen(t)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := dial(ctx); err == nil {
					t.Error("dialled")
				}
			})
		})
	}
}

// TestStreamInABubble wants every wait to be one that the bubble's clock goes on in.
func TestStreamInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen("/run/agent.sock")
		if l.Addr().Network() != "unix" || l.Addr().String() != "/run/agent.sock" {
			t.Errorf("address %v of %s", l.Addr(), l.Addr().Network())
		}
		client, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			server, _ := l.Accept()
			time.Sleep(time.Hour)
			_, _ = io.Copy(server, server)
			server.Close()
		}()
		start := time.Now()
		sent := bytes.Repeat([]byte("0123456789"), Buffer/4)
		go func() {
			_, err := client.Write(sent) // blocks for an hour
			if err = errors.Join(err, client.(interface{ CloseWrite() error }).CloseWrite()); err != nil {
				t.Error(err)
			}
		}()
		got, err := io.ReadAll(client)
		if !bytes.Equal(got, sent) || err != nil || time.Since(start) != time.Hour {
			t.Errorf("%d of %d bytes, %v, after %v", len(got), len(sent), err, time.Since(start))
		}
		for range Backlog { // nobody accepts these
			if _, err := l.Dial(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond the backlog: %v", err)
		}
	})
}
