package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

func dial(t testing.TB, s *sshtest.Server) *Client {
	t.Helper()
	c, err := Dial(t.Context(), Config{Address: s.Address, Login: s.Login})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestRun(t *testing.T) { testRunner(t, dial(t, server(t)), 3<<20) }

func TestCancel(t *testing.T) {
	t.Parallel()
	c := dial(t, server(t))
	why := errors.New("that is enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan struct{})
	go func() {
		<-started
		cancel(why)
	}()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	ended := make(chan struct{})
	go func() { // the command has begun when it opens the pipe, and would end when that is closed
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			defer f.Close()
		}
		close(started)
		<-ended
	}()
	defer close(ended)
	if _, err := c.Run(ctx, "cat "+pipe, nil); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	if _, err := c.Run(t.Context(), "true", nil); err == nil {
		t.Error("the connection is still there")
	}
	if _, err := c.Run(ctx, "true", nil); !errors.Is(err, why) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := server(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // it accepts, and sends nothing
	login := s.Login
	login.Port = uint16(ln.Addr().(*net.TCPAddr).Port)
	_, err = Dial(t.Context(), Config{Address: s.Address, Login: login, Timeout: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no answer for 50ms") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}

func TestHostKeys(t *testing.T) {
	t.Parallel()
	s := server(t)
	host := fmt.Sprintf("%s:%d", s.Address, s.Login.Port)
	right, err := os.ReadFile(s.Login.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	other := sshtest.NewKey(t, filepath.Join(t.TempDir(), "other"), "")
	line := knownhosts.Line([]string{host}, other) + "\n"
	for _, row := range []struct {
		name, file string
		changed    bool
		errs       []string // nil: it connects
	}{
		{"known", string(right), false, nil},
		{"known by a hash", knownhosts.HashHostname(knownhosts.Normalize(host)) + " " + strings.SplitN(string(right), " ", 2)[1], false, nil},
		{"unknown", "", false, []string{host, "ssh-keyscan -p", "SHA256:"}},
		{"another host's", strings.Replace(string(right), "127.0.0.1", "127.0.0.2", 1), false, []string{host, "ssh-keyscan"}},
		{"changed", line, true, []string{host, "another machine", "ssh-keygen -R"}},
		{"revoked", "@revoked * " + strings.SplitN(string(right), " ", 2)[1], false, []string{host, "revoked"}},
		{"illegible", "what is this\n", false, []string{"known_hosts"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			login := s.Login
			login.KnownHosts = filepath.Join(t.TempDir(), "known_hosts")
			if err := os.WriteFile(login.KnownHosts, []byte(row.file), 0o600); err != nil {
				t.Fatal(err)
			}
			// A busy machine may take long to make a key of a passphrase.
			c, err := Dial(t.Context(), Config{Address: s.Address, Login: login, Timeout: 2 * time.Minute})
			if err == nil {
				c.Close()
			}
			if (err == nil) != (row.errs == nil) {
				t.Fatalf("got %v", err)
			}
			for _, word := range append(row.errs, login.KnownHosts)[:len(row.errs)] {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "handshake") {
				t.Errorf("in words of the library: %v", err)
			}
			if changed := err != nil && strings.Contains(err.Error(), "is not the one that "+login.KnownHosts+" has"); changed != row.changed {
				t.Errorf("another key than the file's: %v", err)
			}
		})
	}
	login := s.Login
	login.KnownHosts = filepath.Join(t.TempDir(), "none")
	if _, err := Dial(t.Context(), Config{Address: s.Address, Login: login}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "ssh-keyscan") {
		t.Errorf("without a file: %v", err)
	}
}

// TestHostKeyOfAnotherKind has a server with two keys of which the file has the
// one that the client would not ask for by itself.
func TestHostKeyOfAnotherKind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rsa")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", path).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	s := server(t, "HostKey "+path)
	text, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	s.Login.KnownHosts = filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(s.Login.KnownHosts, []byte(knownhosts.Line([]string{fmt.Sprintf("%s:%d", s.Address, s.Login.Port)}, key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dial(t, s)
}

func TestLogin(t *testing.T) {
	s := server(t)
	dir := t.TempDir()
	const phrase = "correct-horse"
	locked := filepath.Join(dir, "locked")
	public := sshtest.NewKey(t, locked, phrase)
	stranger := filepath.Join(dir, "stranger")
	sshtest.NewKey(t, stranger, "")
	f, err := os.OpenFile(filepath.Join(s.Dir, "authorized_keys"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(ssh.MarshalAuthorizedKey(public)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Setenv("CSIG_TEST_PHRASE", phrase)
	t.Setenv("CSIG_TEST_WRONG", "wrong-horse")
	t.Setenv("SSH_AUTH_SOCK", "")
	open := filepath.Join(dir, "open")
	sshtest.NewKey(t, open, "")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		login func(*inventory.SSH)
		errs  string // "": it logs in
	}{
		{"a key", func(*inventory.SSH) {}, ""},
		{"a key with a passphrase", func(l *inventory.SSH) { l.Key = locked; l.Passphrase.Env = "CSIG_TEST_PHRASE" }, ""},
		{"no passphrase", func(l *inventory.SSH) { l.Key = locked }, "passphrase"},
		{"a wrong passphrase", func(l *inventory.SSH) { l.Key = locked; l.Passphrase.Env = "CSIG_TEST_WRONG" }, "env:CSIG_TEST_WRONG"},
		{"no such passphrase", func(l *inventory.SSH) { l.Key = locked; l.Passphrase.Env = "CSIG_TEST_NONE" }, "not set"},
		{"an unknown key", func(l *inventory.SSH) { l.Key = stranger }, "authorized_keys"},
		{"no such key", func(l *inventory.SSH) { l.Key = filepath.Join(dir, "none") }, "no such file"},
		{"a key that others may read", func(l *inventory.SSH) { l.Key = open }, "chmod 600"},
		{"no agent", func(l *inventory.SSH) { l.Key = ""; l.Agent = true }, "SSH_AUTH_SOCK"},
		{"a password where none is taken", func(l *inventory.SSH) { l.Key = ""; l.Password.Env = "CSIG_TEST_WRONG" }, "look at the user and the password"},
		{"nothing", func(l *inventory.SSH) { l.Key = "" }, "nothing to log in with"},
	} {
		t.Run(row.name, func(t *testing.T) {
			login := s.Login
			row.login(&login)
			// A busy machine may take long to make a key of a passphrase.
			c, err := Dial(t.Context(), Config{Address: s.Address, Login: login, Timeout: 2 * time.Minute})
			if err == nil {
				c.Close()
			}
			switch {
			case row.errs == "" && err != nil:
				t.Fatal(err)
			case row.errs != "" && (err == nil || !strings.Contains(err.Error(), row.errs) || !strings.Contains(err.Error(), "127.0.0.1")):
				t.Errorf("got %v, want %q and the host", err, row.errs)
			case err != nil && strings.Contains(err.Error(), "horse"):
				t.Errorf("a credential is in: %v", err)
			}
		})
	}
	t.Run("an agent", func(t *testing.T) {
		sock := filepath.Join(dir, "agent")
		a := exec.Command("ssh-agent", "-D", "-a", sock)
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Process.Kill(); _ = a.Wait() }()
		t.Setenv("SSH_AUTH_SOCK", sock)
		for deadline := time.Now().Add(time.Minute); ; {
			if c, err := net.Dial("unix", sock); err == nil {
				c.Close()
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		login := s.Login
		login.Key, login.Agent = "", true
		if _, err := Dial(t.Context(), Config{Address: s.Address, Login: login}); err == nil || !strings.Contains(err.Error(), "ssh-add") {
			t.Errorf("an agent without keys: %v", err)
		}
		if out, err := exec.Command("ssh-add", s.Login.Key).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		c, err := Dial(t.Context(), Config{Address: s.Address, Login: login})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
}

func TestDialUnix(t *testing.T) {
	t.Parallel()
	for _, permit := range []string{"yes", "no"} {
		t.Run(permit, func(t *testing.T) {
			c := dial(t, server(t, "AllowStreamLocalForwarding "+permit))
			path := filepath.Join(t.TempDir(), "sock")
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
				}
			}()
			conn, err := c.DialUnix(t.Context(), path)
			if permit == "no" {
				if err == nil || !strings.Contains(err.Error(), "AllowStreamLocalForwarding") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			want := []byte("over there and back")
			if _, err := conn.Write(want); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %q, %v", got, err)
			}
			if _, err := c.DialUnix(t.Context(), path+".none"); err == nil || !strings.Contains(err.Error(), path+".none") || !strings.Contains(err.Error(), "daemon") {
				t.Errorf("no such socket: %v", err)
			}
		})
	}
}
