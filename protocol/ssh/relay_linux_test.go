package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

// rootsEcho is a socket that only root can open, and that echoes what it receives.
func rootsEcho(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csig") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	return filepath.Join(dir, "echo")
}

func echo(t *testing.T, c net.Conn, text []byte) {
	t.Helper()
	go func() { _, _ = c.Write(text) }() // the echo shows what arrived
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes come back as others (%v)", len(text), err)
	}
}

// TestRelay connects to root's socket through an account that may not open it.
func TestRelay(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	path := rootsEcho(t)
	s := behindSudo(t, sshtest.Account{Sudoers: withPassword})
	plain := s.Login
	plain.Sudo = nil
	alone := NewTunnel(Config{Address: s.Address, Login: plain})
	defer alone.Close()
	if _, err := alone.Dial(t.Context(), "unix", path); err == nil || !strings.Contains(err.Error(), "may this user open its socket") {
		t.Fatalf("without sudo: %v", err)
	}

	var conns []net.Conn
	tunnel := NewTunnel(Config{Address: s.Address, Login: s.Login, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		conns = append(conns, c)
		return c, err
	}})
	defer tunnel.Close()
	var all sync.WaitGroup
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<15)
	for range 8 {
		all.Go(func() {
			c, err := tunnel.Dial(t.Context(), "unix", path)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			echo(t, c, big)
		})
	}
	all.Wait()
	if _, err := tunnel.Dial(t.Context(), "unix", path+"-none"); err == nil || !strings.Contains(err.Error(), "No such file") || !strings.Contains(err.Error(), path+"-none") {
		t.Errorf("%v", err)
	}
	if out, err := tunnel.Run(t.Context(), "id -u", nil); err != nil || string(out) != "0\n" {
		t.Errorf("%q, %v", out, err)
	}
	if len(conns) != 1 {
		t.Errorf("%d logins", len(conns))
	}

	// The cable is cut: the relay ends, and another login has another.
	held, err := tunnel.Dial(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conns[0].Close()
	gone(t, path)
	if n, err := held.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes", n)
	}
	c, err := tunnel.Dial(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, c, []byte("again"))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	gone(t, path) // while the login is there
	if err := tunnel.Close(); err != nil {
		t.Error(err)
	}
}

// TestRelayRefused: a switch without python3, and a sudo that refuses, which is
// not tried again.
func TestRelayRefused(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	s := behindSudo(t, sshtest.Account{Sudoers: "Defaults !fqdn, secure_path=/usr/sbin:/usr/bin:/sbin:/bin\nadmin ALL=(root) ALL\n", Over: map[string]string{"/usr/bin/python3": "/dev/null"}})
	tunnel := NewTunnel(Config{Address: s.Address, Login: s.Login})
	defer tunnel.Close()
	if _, err := tunnel.Dial(t.Context(), "unix", "/x"); err == nil || !strings.Contains(err.Error(), "needs python3") {
		t.Errorf("without python3: %v", err)
	}

	s = behindSudo(t, sshtest.Account{Sudoers: withPassword})
	s.Login.Sudo = &inventory.Sudo{} // it asks for one
	logins := 0
	tunnel = NewTunnel(Config{Address: s.Address, Login: s.Login, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		logins++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	defer tunnel.Close()
	for range 3 {
		if _, err := tunnel.Dial(t.Context(), "unix", "/x"); !errors.As(err, new(*SudoError)) {
			t.Errorf("%v", err)
		}
	}
	if logins != 1 {
		t.Errorf("%d tries", logins)
	}
}
