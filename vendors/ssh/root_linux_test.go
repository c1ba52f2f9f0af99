package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/ssh/sshtest"
)

// busybox are the programs of the switch that csig uses, as busybox has them.
func busybox(t *testing.T) map[string]string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("%v: install it (Debian: apt-get install busybox)", err)
	}
	over := map[string]string{}
	for _, name := range []string{"/bin/sh", "/usr/bin/mktemp", "/usr/bin/mkfifo", "/usr/bin/chown", "/usr/bin/rm", "/usr/bin/head", "/usr/bin/base64", "/usr/bin/cat"} {
		over[name] = path
	}
	return over
}

func TestRoot(t *testing.T) {
	if noAccounts(t) {
		return
	}
	for _, row := range []struct {
		name    string
		account sshtest.Account
	}{
		{"with a password", sshtest.Account{Sudoers: withPassword}},
		{"on a terminal of sudo's own", sshtest.Account{Sudoers: withPty, Shell: "/bin/bash"}},
		{"without a password", sshtest.Account{Sudoers: without}},
		{"busybox", sshtest.Account{Sudoers: withPassword, Over: busybox(t)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := dialRoot(t, behindSudo(t, row.account))
			if out, err := r.Run(t.Context(), "id -u", nil); err != nil || string(out) != "0\n" {
				t.Fatalf("got %q, %v", out, err)
			}
			testRunner(t, r)
		})
	}
}

// TestRootTogether runs commands from several goroutines.
func TestRootTogether(t *testing.T) {
	if noAccounts(t) {
		return
	}
	r := dialRoot(t, behindSudo(t, sshtest.Account{Sudoers: withPassword}))
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

// TestServe has root's shell without a terminal and without root, in every shell.
func TestServe(t *testing.T) {
	for _, shell := range [][]string{{"sh"}, {"bash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			cmd := exec.Command(shell[0], append(shell[1:], "-c", `exec 9>&1; IFS= read -r s && eval "$s"`)...)
			cmd.Env = []string{"PATH=/usr/bin:/bin"} // what people have on theirs is no part of the test
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatalf("%v: install it (Debian: apt-get install bash busybox)", err)
			}
			s := newRootShell("switch", in, out)
			if err := s.begin(); err != nil {
				t.Fatal(err)
			}
			testRunner(t, runs(func(command string, stdin []byte) ([]byte, error) { return s.run(command, stdin) }))
			in.Close()
			if _, err := s.run("true", nil); err == nil || !strings.Contains(err.Error(), "lost") {
				t.Errorf("after its end: %v", err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

type runs func(string, []byte) ([]byte, error)

func (r runs) Run(_ context.Context, command string, stdin []byte) ([]byte, error) {
	return r(command, stdin)
}

// TestAnswers reads answers that no shell of ours gives.
func TestAnswers(t *testing.T) {
	for _, row := range []struct{ name, answer, says string }{
		{"right", "QUI=\n:W 0\n\n:W\n", ""},
		{"carriage returns", "QUI=\r\n:W 0\r\n\r\n:W\r\n", ""},
		{"a message to all", "QU\r\nBroadcast message from root@sw (pts/1):\r\nI=\n:W 0\n\n:W\n", "no answer"},
		{"a message to all between lines", "hello\n:W 0\n\n:W\n", "no answer"},
		{"another command's", ":csigx 0\n\n:csigx\n", "no answer"},
		{"no status", "QUI=\n:W\n\n:W\n", "no exit status"},
		{"an odd status", "QUI=\n:W zero\n\n:W\n", "no exit status"},
		{"a long line", strings.Repeat("QUJD", 2000) + "\n:W 0\n\n:W\n", "no answer"},
		{"a line without an end", strings.Repeat("QUJD", 50000), "no answer"},
		{"half of an answer", "QUI=\n:W 0\n", "lost"},
		{"half of a line", "QUI", "lost"},
		{"nothing", "", "lost"},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked, in := io.Pipe()
			defer in.Close()
			answer, out := io.Pipe()
			go func() {
				b := make([]byte, 64<<10)
				n, _ := asked.Read(b)
				word, _, _ := strings.Cut(string(b[:n]), " ")
				_, _ = io.WriteString(out, strings.ReplaceAll(row.answer, "W", word))
				out.Close()
			}()
			got, err := newRootShell("switch", in, answer).run("true", nil)
			switch {
			case row.says == "" && (err != nil || string(got) != "AB"):
				t.Errorf("got %q, %v", got, err)
			case row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)):
				t.Errorf("got %q, %v, want %q", got, err, row.says)
			}
			answer.Close()
		})
	}
	if _, err := newRootShell("switch", nil, nil).run("a\x00b", nil); err == nil || !strings.Contains(err.Error(), "zero byte") {
		t.Errorf("a zero byte: %v", err)
	}
}

// TestRootEnds ends a connection in the middle of a command, in every way: the
// command goes with it, and so does root's shell.
func TestRootEnds(t *testing.T) {
	if noAccounts(t) {
		return
	}
	why := errors.New("that is enough")
	for _, sudoers := range []string{withPassword, withPty} {
		for name, row := range map[string]struct {
			end  func(r *Root, conn net.Conn, cancel context.CancelCauseFunc)
			says string
		}{
			"cancelled": {func(_ *Root, _ net.Conn, cancel context.CancelCauseFunc) { cancel(why) }, why.Error()},
			"cut":       {func(_ *Root, conn net.Conn, _ context.CancelCauseFunc) { conn.Close() }, "lost"},
			"closed":    {func(r *Root, _ net.Conn, _ context.CancelCauseFunc) { r.Close() }, "lost"},
		} {
			t.Run(name, func(t *testing.T) {
				s := behindSudo(t, sshtest.Account{Sudoers: sudoers})
				var conn net.Conn
				dial := func(ctx context.Context, network, address string) (_ net.Conn, err error) {
					conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
					return conn, err
				}
				r, err := DialRoot(t.Context(), Config{Address: s.Address, Login: s.Login, Dial: dial})
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
				mark := "1000." + filepath.Base(filepath.Dir(begun)) + "7"
				out, err := r.Run(ctx, "touch "+begun+"; sleep "+mark+"; echo late", bytes.Repeat([]byte("x"), 1<<20))
				if err == nil || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "127.0.0.1") {
					t.Errorf("got %q, %v, want %q", out, err, row.says)
				}
				if _, err := r.Run(t.Context(), "true", nil); err == nil {
					t.Error("the connection is still there")
				}
				gone(t, "sleep\x00"+mark)
				gone(t, "sudo\x00-k")
			})
		}
	}
}

// gone waits until no process has a command line with that in it.
func gone(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
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

// TestRootDisturbed has somebody write to the terminal, which is nothing to the
// command; and somebody end sudo.
func TestRootDisturbed(t *testing.T) {
	if noAccounts(t) {
		return
	}
	r := dialRoot(t, behindSudo(t, sshtest.Account{Sudoers: withPassword}))
	if out, err := r.Run(t.Context(), "echo the switch goes down >/dev/tty; echo out", nil); err != nil || string(out) != "out\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := r.Run(t.Context(), "kill -9 $PPID", nil); err == nil || !strings.Contains(err.Error(), "no exit status") {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := r.Run(t.Context(), "true", nil); err == nil {
		t.Error("the connection is still there")
	}
	gone(t, "sudo\x00-k")
	r = dialRoot(t, behindSudo(t, sshtest.Account{Sudoers: withPassword}))
	if out, err := r.Run(t.Context(), `kill -9 $(grep -la '^sudo.-k' /proc/[0-9]*/cmdline | cut -d/ -f3); sleep 1000`, nil); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("got %q, %v", out, err)
	}
}

// BenchmarkRun is a command on an exec channel and one in root's shell: without
// anything, and with as much output as nft lists of 64 ports.
func BenchmarkRun(b *testing.B) {
	if noAccounts(b) {
		return
	}
	s := behindSudo(b, sshtest.Account{Sudoers: withPassword})
	c, err := Dial(b.Context(), Config{Address: s.Address, Login: s.Login})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for name, r := range map[string]runner{"exec": c, "sudo": dialRoot(b, s)} {
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

// runner is what Client and Root have in common.
type runner interface {
	Run(ctx context.Context, command string, stdin []byte) ([]byte, error)
}

// testRunner holds what Run promises.
func testRunner(t *testing.T, c runner) {
	big := make([]byte, 3<<20)
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
		{"input nobody reads", "true", big, nil, 0, ""},
		{"input read in part", "head -c 3", big, big[:3], 0, ""},
		{"a command of two lines", "printf %s 'a\n  \\n  b '\nprintf '%s' ' \\' # \\0040  ", nil, []byte("a\n  \\n  b  \\"), 0, ""},
		{"a long command", "echo " + strings.Repeat("a", 20000), nil, []byte(strings.Repeat("a", 20000) + "\n"), 0, ""},
		{"what looks like an answer", "echo :csig 0; echo QUJD", nil, []byte(":csig 0\nQUJD\n"), 0, ""},
		{"status", "echo no such thing >&2; exit 3", nil, nil, 3, "no such thing"},
		{"status after output", "echo out; echo err >&2; exit 4", nil, nil, 4, "err"},
		{"no such command", "csig-no-such-command", nil, nil, 127, "not found"},
		{"killed", "kill -9 $$", nil, nil, 137, ""},
		{"much to say", "head -c 100000 /dev/zero >&2 && exit 1", nil, nil, 1, strings.Repeat("\x00", maxStderr)},
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
