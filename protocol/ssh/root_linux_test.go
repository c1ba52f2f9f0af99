package ssh

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

// busybox are the programs of the switch that csig uses, as busybox has them.
func busybox(t *testing.T) map[string]string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("%v: install it (Debian: apt-get install busybox)", err)
	}
	return map[string]string{"/bin/sh": path, "/usr/bin/head": path, "/usr/bin/cat": path}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	for _, row := range []struct {
		name    string
		account sshtest.Account
	}{
		{"with a password", sshtest.Account{Sudoers: withPassword}},
		{"on a terminal of sudo's own", sshtest.Account{Sudoers: withPty, Shell: "/bin/bash"}},
		{"logged", sshtest.Account{Sudoers: "Defaults !fqdn, use_pty, log_input, log_output, iolog_dir=" + t.TempDir() + "\nadmin ALL=(root) ALL\n"}},
		{"without a password", sshtest.Account{Sudoers: without}},
		{"busybox", sshtest.Account{Sudoers: withPassword, Over: busybox(t)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := dial(t, behindSudo(t, row.account))
			if out, err := r.Run(t.Context(), "id -u", nil); err != nil || string(out) != "0\n" {
				t.Fatalf("got %q, %v", out, err)
			}
			many := 200_000
			switch row.name {
			case "with a password":
				many = 3 << 20 // more than is on its way at once
			case "logged":
				many = 60_000 // a pipe's; see the package's comment
			}
			testRunner(t, r, many)
		})
	}
}

// TestRootTogether runs commands from several goroutines.
func TestRootTogether(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	r := dial(t, behindSudo(t, sshtest.Account{Sudoers: withPassword}))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			in := bytes.Repeat([]byte{byte(i)}, 10000)
			if out, err := r.Run(t.Context(), "cat", in); err != nil || !bytes.Equal(out, in) {
				t.Errorf("got %d bytes, %v", len(out), err)
			}
		})
	}
	all.Wait()
}

// TestRootEnds ends a connection in the middle of a command, in every way: sudo
// ends with the command, which sees the end of its output or of its input, or
// ends by itself.
func TestRootEnds(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	why := errors.New("that is enough")
	for _, sudoers := range []string{withPassword, withPty} {
		for name, row := range map[string]struct {
			end     func(r *Client, conn net.Conn, cancel context.CancelCauseFunc)
			command string
			errs    string
		}{
			"cancelled": {func(_ *Client, _ net.Conn, cancel context.CancelCauseFunc) { cancel(why) }, "while sleep 0.01; do echo; done", why.Error()},
			"cut":       {func(_ *Client, conn net.Conn, _ context.CancelCauseFunc) { conn.Close() }, "while sleep 0.01; do echo; done", "connection"},
			"closed":    {func(r *Client, _ net.Conn, _ context.CancelCauseFunc) { r.Close() }, "sleep 0.5", ""},
		} {
			t.Run(name, func(t *testing.T) {
				s := behindSudo(t, sshtest.Account{Sudoers: sudoers})
				var conn net.Conn
				dial := func(ctx context.Context, network, address string) (_ net.Conn, err error) {
					conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
					return conn, err
				}
				r, err := Dial(t.Context(), Config{Address: s.Address, Login: s.Login, Dial: dial})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				begun := filepath.Join(t.TempDir(), "begun")
				go func() {
					for t.Context().Err() == nil {
						if _, err := os.Stat(begun); err == nil {
							row.end(r, conn, cancel)
							return
						}
						time.Sleep(time.Millisecond)
					}
				}()
				// Input that is not read is what made sudo spin on a terminal of its own.
				out, err := r.Run(ctx, "touch "+begun+"; "+row.command, bytes.Repeat([]byte("x"), 1<<20))
				if err == nil || !strings.Contains(err.Error(), row.errs) || !strings.Contains(err.Error(), "127.0.0.1") {
					t.Errorf("got %q, %v, want %q", out, err, row.errs)
				}
				if _, err := r.Run(t.Context(), "true", nil); err == nil {
					t.Error("the connection is still there")
				}
				gone(t, begun)
			})
		}
	}
}

// gone waits until no process has a command line with that in it.
func gone(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		left := ""
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil || len(files) == 0 {
			t.Fatal("no processes at all", err)
		}
		for _, f := range files {
			if line, err := os.ReadFile(f); err == nil && strings.Contains(string(line), what) {
				left += string(line) + "\n"
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still there: %q", left)
		}
	}
}

// TestRootKilled has sudo killed while a command runs.
func TestRootKilled(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	r := dial(t, behindSudo(t, sshtest.Account{Sudoers: withPassword}))
	if out, err := r.Run(t.Context(), `kill -9 $PPID; sleep 0.1`, nil); err == nil {
		t.Errorf("got %q", out)
	}
	if _, err := r.Run(t.Context(), "a\x00b", nil); err == nil || !strings.Contains(err.Error(), "zero byte") {
		t.Errorf("a zero byte: %v", err)
	}
}

// BenchmarkRun is a command on an exec channel and one in root's shell: without
// anything, and with as much output as nft lists of 64 ports.
func BenchmarkRun(b *testing.B) {
	if noAccounts(b) {
		return
	}
	s := behindSudo(b, sshtest.Account{Sudoers: withPassword})
	account := s.Login
	account.Sudo = nil
	c, err := Dial(b.Context(), Config{Address: s.Address, Login: account})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for name, r := range map[string]*Client{"exec": c, "sudo": dial(b, s)} {
		for size, command := range map[string]string{"empty": "true", "128KiB": "head -c 131072 /dev/urandom"} {
			b.Run(name+"/"+size, func(b *testing.B) {
				for b.Loop() {
					if _, err := r.Run(b.Context(), command, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// testRunner checks the documented behaviour of Run.
func testRunner(t *testing.T, c *Client, many int) {
	big := make([]byte, many)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(big); err != nil {
		t.Fatal(err)
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, row := range []struct {
		name, command string
		in, out       []byte
		status        int
		stderr        string
	}{
		{"output", "printf 'a\\0b'", nil, []byte("a\x00b"), 0, ""},
		{"no output", "true", nil, nil, 0, ""},
		{"every byte", "cat", all, all, 0, ""},
		{"any bytes, and many", "cat", big, big, 0, ""},
		{"a line longer than a terminal's", "cat", bytes.Repeat([]byte("x"), 5000), bytes.Repeat([]byte("x"), 5000), 0, ""},
		{"one byte", "cat", []byte{4}, []byte{4}, 0, ""},
		{"standard error is apart", "echo out; echo err >&2", nil, []byte("out\n"), 0, ""},
		{"input that is not read", "true", big, nil, 0, ""},
		{"input read in part", "head -c 3", big, big[:3], 0, ""},
		{"a command of two lines", "printf %s 'a\n  \\n  b '\nprintf '%s' ' \\' # \\0040  ", nil, []byte("a\n  \\n  b  \\"), 0, ""},
		{"a long command", "echo " + strings.Repeat("a", 20000), nil, []byte(strings.Repeat("a", 20000) + "\n"), 0, ""},
		{"what looks like an answer", "echo :csig 0; echo QUJD", nil, []byte(":csig 0\nQUJD\n"), 0, ""},
		{"status", "echo no such thing >&2; exit 3", nil, nil, 3, "no such thing"},
		{"status after output", "echo out; echo err >&2; exit 4", nil, nil, 4, "err"},
		{"no such command", "csig-no-such-command", nil, nil, 127, "not found"},
		{"killed", "kill -9 $$", nil, nil, 137, ""},
		{"long standard error", "head -c 100000 /dev/zero | tr '\\0' x >&2 && exit 1", nil, nil, 1, strings.Repeat("x", maxStderr)},
		{"an escape sequence", "printf 'no\\033[2J\\nmore' >&2; exit 1", nil, nil, 1, `no\x1b[2J more`},
		{"and still there", "echo yes", nil, []byte("yes\n"), 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := c.Run(t.Context(), row.command, row.in)
			var exit *ExitError
			switch {
			case row.status == 0 && err != nil:
				t.Fatal(err)
			case row.status != 0 && !errors.As(err, &exit):
				t.Fatalf("got %q, %v, want status %d", out, err, row.status)
			case exit != nil && (exit.Status != row.status || !strings.Contains(exit.Stderr, row.stderr) || len(exit.Stderr) > maxStderr):
				t.Errorf("status %d, %d bytes: %.80q", exit.Status, len(exit.Stderr), exit.Stderr)
			case !bytes.Equal(out, row.out):
				t.Errorf("got %d bytes, %.80q, want %d", len(out), out, len(row.out))
			}
		})
	}
}
