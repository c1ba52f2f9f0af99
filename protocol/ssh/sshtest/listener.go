package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/memnet"
)

// Password is that of an Account, and of a Listener.
const Password = "open sesame"

// Listener is an SSH server of this process, for what no sshd does.
type Listener struct {
	Address string
	Dir     string        // of its files
	Login   inventory.SSH // as admin, with Password

	// Dial connects to one in memory; nil: the network does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	ln   net.Listener
	done sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  []net.Conn
	closed bool
}

// Listen starts one at 127.0.0.1, which gives each connection to serve, and has a host key of
// its own that it adds to the configuration. It ends with the test.
func Listen(t testing.TB, cfg *ssh.ServerConfig, serve func(net.Conn)) *Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, ln, cfg, serve)
}

// InMemory is Listen without a socket: its clients connect by Dial. Tests in a bubble of
// testing/synctest, whose clock stands still while a socket is waited for, make it there.
func InMemory(t testing.TB, cfg *ssh.ServerConfig, serve func(net.Conn)) *Listener {
	t.Helper()
	ln := memnet.Listen("127.0.0.1:22")
	l := listen(t, ln, cfg, serve)
	l.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) }
	return l
}

func listen(t testing.TB, ln net.Listener, cfg *ssh.ServerConfig, serve func(net.Conn)) *Listener {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cfg.AddHostKey(signer)
	at := ln.Addr().(*net.TCPAddr) //nolint:forcetypeassert // of a listener of TCP
	l := &Listener{Address: at.IP.String(), Dir: t.TempDir(), ln: ln}
	l.Login = inventory.SSH{
		User: "admin", Port: uint16(at.Port),
		KnownHosts: filepath.Join(l.Dir, "known_hosts"), Password: inventory.Secret{File: filepath.Join(l.Dir, "password")},
	}
	for path, text := range map[string]string{
		l.Login.KnownHosts: knownhosts.Line([]string{at.String()}, signer.PublicKey()), l.Login.Password.File: Password,
	} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.done.Go(func() { l.accept(serve) })
	t.Cleanup(l.Close)
	return l
}

func (l *Listener) accept(serve func(net.Conn)) {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		if l.closed {
			conn.Close()
		}
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
		l.done.Go(func() {
			defer conn.Close()
			serve(conn)
		})
	}
}

// Cut ends every connection, as a device that restarts does.
func (l *Listener) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// Close ends the server and its connections; idempotent.
func (l *Listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.ln.Close()
	l.Cut()
	l.done.Wait()
}
