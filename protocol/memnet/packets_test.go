package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func until(t *testing.T, s interface{ SetReadDeadline(time.Time) error }, at time.Time) {
	t.Helper()
	if err := s.SetReadDeadline(at); err != nil {
		t.Fatal(err)
	}
}

// TestPacketsAsUDP does the same with sockets in memory and with real ones of UDP.
func TestPacketsAsUDP(t *testing.T) {
	type network struct {
		listen func(addr string) (net.PacketConn, error)
		dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	}
	memory := func() network {
		n := &Packets{}
		return network{func(addr string) (net.PacketConn, error) { return n.Listen(addr) }, n.Dial}
	}
	real := func() network {
		return network{func(addr string) (net.PacketConn, error) {
			s, err := net.ListenPacket("udp", addr)
			if err == nil {
				err = s.(*net.UDPConn).SetReadBuffer(Queue / 2) // Linux doubles it
			}
			return s, err
		}, new(net.Dialer).DialContext}
	}
	for name, start := range map[string]func() network{"memory": memory, "udp": real} {
		t.Run(name, func(t *testing.T) {
			n := start()
			listen := func() net.PacketConn {
				t.Helper()
				s, err := n.listen("127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			}
			dial := func(addr net.Addr) net.Conn {
				t.Helper()
				c, err := n.dial(t.Context(), "udp", addr.String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			server, other := listen(), listen()
			client := dial(server.LocalAddr())
			if client.RemoteAddr().String() != server.LocalAddr().String() {
				t.Errorf("connected with %v, want %v", client.RemoteAddr(), server.LocalAddr())
			}
			for _, text := range []string{"one", "", "three"} {
				if n, err := client.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatal(n, err)
				}
			}
			buf := make([]byte, 4)
			var from net.Addr
			for _, want := range []string{"one", "", "thre"} { // what the buffer has no space for is lost
				n, addr, err := server.ReadFrom(buf)
				if string(buf[:n]) != want || err != nil || addr.String() != client.LocalAddr().String() {
					t.Errorf("%q from %v, %v; want %q from %v", buf[:n], addr, err, want, client.LocalAddr())
				}
				from = addr
			}
			// A connected socket has nothing to do with others' datagrams.
			for _, s := range []net.PacketConn{other, server} {
				if _, err := s.WriteTo([]byte(s.LocalAddr().String()), from); err != nil {
					t.Fatal(err)
				}
			}
			buf = make([]byte, 100)
			if n, err := client.Read(buf); string(buf[:n]) != server.LocalAddr().String() || err != nil {
				t.Errorf("%q, %v", buf[:n], err)
			}
			// A deadline in the past ends a call that waits, and leaves the socket as it is.
			reading := make(chan error)
			go func() { _, err := client.Read(buf); reading <- err }()
			until(t, client, time.Unix(1, 0))
			if err := <-reading; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("past deadline: %v", err)
			}
			until(t, client, time.Now().Add(time.Millisecond))
			if _, err := client.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("deadline: %v", err)
			}
			until(t, client, time.Time{})
			if n, err := client.Write(make([]byte, 65508)); n != 0 || !errors.Is(err, syscall.EMSGSIZE) {
				t.Errorf("sent %d, %v", n, err)
			}
			// What nobody reads is dropped in the end.
			for range 2000 {
				if _, err := client.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			kept := 0
			for until(t, server, time.Now().Add(time.Minute)); kept < 2000; kept++ {
				if kept == 200 { // all that are kept wait already
					until(t, server, time.Now().Add(50*time.Millisecond))
				}
				if _, _, err := server.ReadFrom(buf); err != nil {
					break
				}
			}
			if kept < 200 || kept > 300 {
				t.Errorf("%d of 2000 datagrams were kept", kept)
			}
			// Nothing listens: the call after the datagram learns it, once.
			server.Close()
			if _, _, err := server.ReadFrom(buf); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed: %v", err)
			}
			for _, call := range []func([]byte) (int, error){client.Read, client.Write} {
				if _, err := client.Write([]byte("x")); err != nil {
					t.Errorf("sent to nobody: %v", err)
				}
				if _, err := call(buf[:1]); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("after it: %v", err)
				}
			}
			client.Close()
			if err := client.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed twice: %v", err)
			}
			if _, err := client.Write(nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed: %v", err)
			}
			if _, err := n.listen(other.LocalAddr().String()); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("an address twice: %v", err)
			}
		})
	}
}

// TestPath delays and loses datagrams in a bubble, and keeps the order of those that take as long.
func TestPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Packets{}
		server, err := n.Listen("192.0.2.1:161")
		if err != nil {
			t.Fatal(err)
		}
		client, err := n.Dial(t.Context(), "udp", "192.0.2.1:161")
		if err != nil {
			t.Fatal(err)
		}
		n.Path = func(from, to netip.AddrPort, p []byte) (time.Duration, bool) {
			if to.Port() != 161 || from.Port() == 161 {
				t.Errorf("from %v to %v", from, to)
			}
			return map[byte]time.Duration{'s': time.Minute, 'f': time.Second}[p[0]], p[0] == 'l'
		}
		start := time.Now()
		for i := range 5 {
			for _, kind := range []string{"slow", "fast", "lost"} {
				fmt.Fprint(client, kind, i)
			}
		}
		buf := make([]byte, 10)
		for _, kind := range []string{"fast", "slow"} {
			for i := range 5 {
				size, _, err := server.ReadFrom(buf)
				after := map[string]time.Duration{"fast": time.Second, "slow": time.Minute}[kind]
				if want := fmt.Sprint(kind, i); string(buf[:size]) != want || err != nil || time.Since(start) != after {
					t.Errorf("%q, %v after %v; want %s after %v", buf[:size], err, time.Since(start), want, after)
				}
			}
		}
		until(t, server, time.Now().Add(time.Hour))
		if _, _, err := server.ReadFrom(buf); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute+time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
