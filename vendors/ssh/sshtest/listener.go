package sshtest

import (
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
)

// Password is that of an Account, and of a Listener.
const Password = "open sesame"

// Listener is an SSH server of this process at 127.0.0.1, for what no sshd does.
type Listener struct {
	Address string
	Dir     string        // of its files
	Login   inventory.SSH // as admin, with Password

	ln   net.Listener
	done sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  []net.Conn
	closed bool
}

// Listen starts one, which gives each connection to serve, and has a host key of its own
// that it adds to the configuration. It ends with the test.
func Listen(t testing.TB, cfg *ssh.ServerConfig, serve func(net.Conn)) *Listener {
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
	l := &Listener{Address: "127.0.0.1", Dir: t.TempDir()}
	if l.ln, err = net.Listen("tcp", l.Address+":0"); err != nil {
		t.Fatal(err)
	}
	l.Login = inventory.SSH{
		User: "admin", Port: uint16(l.ln.Addr().(*net.TCPAddr).Port), //nolint:forcetypeassert // of a listener of TCP
		KnownHosts: filepath.Join(l.Dir, "known_hosts"), Password: inventory.Secret{File: filepath.Join(l.Dir, "password")},
	}
	for path, text := range map[string]string{
		l.Login.KnownHosts: knownhosts.Line([]string{l.ln.Addr().String()}, signer.PublicKey()), l.Login.Password.File: Password,
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
