package ssh

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

const (
	withPassword = "Defaults !fqdn, lecture=always\nadmin ALL=(root) ALL\n"
	withPty      = "Defaults !fqdn, use_pty\nadmin ALL=(root) ALL\n"
	without      = "Defaults !fqdn\nadmin ALL=(root) NOPASSWD: ALL\n"

	wrongPassword = "open-simsim"
)

// behindSudo starts an sshd where admin has to become root by sudo.
func behindSudo(t testing.TB, a sshtest.Account, extra ...string) *sshtest.Server {
	t.Helper()
	a.Name = "admin"
	s := serverOf(t, sshtest.Options{Account: &a, Extra: extra})
	s.Login.Sudo = &inventory.Sudo{Password: secret(t, sshtest.Password)}
	return s
}

// secret writes a secret to a file and returns where it is.
func secret(t testing.TB, text string) inventory.Secret {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return inventory.Secret{File: path}
}

// noAccounts reports that the test cannot create accounts.
func noAccounts(t testing.TB) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return false
	}
	t.Log("an ordinary user's sshd has no other accounts, and no terminals: TestServe has root's shell without them")
	return true
}

// fakeSudo is a program in sudo's place.
func fakeSudo(t *testing.T, script string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sudo")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"/usr/bin/sudo": path}
}

func TestSudoRefused(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	for _, row := range []struct {
		name    string
		account sshtest.Account
		login   func(*inventory.SSH)
		errs    []string
	}{
		{"a wrong password", sshtest.Account{Sudoers: withPassword}, func(l *inventory.SSH) { l.Sudo.Password = secret(t, wrongPassword) }, []string{"refuses the password of admin", "/secret"}},
		{"a wrong password, once", sshtest.Account{Sudoers: "Defaults !fqdn, passwd_tries=1\nadmin ALL=(root) ALL\n"}, func(l *inventory.SSH) { l.Sudo.Password = secret(t, wrongPassword) }, []string{"refuses the password of admin"}},
		{"no password", sshtest.Account{Sudoers: withPassword}, func(l *inventory.SSH) { l.Sudo = &inventory.Sudo{} }, []string{"the fleet file has none", "NOPASSWD"}},
		{"a password that is nowhere", sshtest.Account{Sudoers: withPassword}, func(l *inventory.SSH) { l.Sudo.Password = inventory.Secret{Env: "CSIG_TEST_NONE"} }, []string{"CSIG_TEST_NONE", "not set"}},
		{"a password that cannot be typed", sshtest.Account{Sudoers: withPassword}, func(l *inventory.SSH) { l.Sudo.Password = secret(t, "a\x03b") }, []string{"control character"}},
		{"not in the sudoers file", sshtest.Account{Sudoers: "root ALL=(ALL) ALL\n"}, nil, []string{"not in the sudoers file", "admin ALL=(root) ALL"}},
		{"not every command", sshtest.Account{Sudoers: "admin ALL=(root) /usr/sbin/nft\n"}, nil, []string{"may not run /bin/sh as root", "leave sudo out"}},
		{"no sudo", sshtest.Account{Over: map[string]string{"/usr/bin/sudo": "/dev/null"}}, nil, []string{"there is no sudo"}},
		{"no permission to ask", sshtest.Account{Over: fakeSudo(t, "echo sudo: a password is required >&2; exit 1")}, nil, []string{"NOPASSWD"}},
		{"requiretty", sshtest.Account{Sudoers: "Defaults !fqdn, requiretty\nadmin ALL=(root) NOPASSWD: ALL\n"}, nil, []string{"requiretty", "Defaults:admin !requiretty", "visudo"}},
		{"no terminal for its password", sshtest.Account{Over: fakeSudo(t, "echo 'sudo: a terminal is required to read the password; either use the -S option' >&2; exit 1")}, nil, []string{"its input (-S)", "NOPASSWD"}},
		{"in a container", sshtest.Account{Over: fakeSudo(t, `echo 'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.' >&2; exit 1`)}, nil, []string{"NoNewPrivileges"}},
		{"a sudo that echoes", sshtest.Account{Over: fakeSudo(t, `printf %s "$6" >&2; read p; echo "you typed $p: try again" >&2; exit 1`)}, nil, []string{"you typed <hidden>"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := behindSudo(t, row.account)
			if row.login != nil {
				row.login(&s.Login)
			}
			err := refused(t, s, Config{})
			var final *SudoError
			if !errors.As(err, &final) {
				t.Errorf("it is worth another try: %v", err)
			}
			if strings.Contains(err.Error(), "3 incorrect") {
				t.Errorf("the password was typed again: %v", err)
			}
			for _, want := range append(row.errs, "127.0.0.1") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in: %v", want, err)
				}
			}
		})
	}
}

func refused(t *testing.T, s *sshtest.Server, cfg Config) error {
	t.Helper()
	cfg.Address, cfg.Login = s.Address, s.Login
	r, err := Dial(t.Context(), cfg)
	if err == nil {
		r.Close()
		t.Fatal("it is root")
	}
	for _, secret := range []string{sshtest.Password, wrongPassword} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the password is shown: %v", err)
		}
	}
	return err
}

// TestSudoAgain has what may pass: it is no *SudoError.
func TestSudoAgain(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	for _, row := range []struct {
		name, sudo string
		extra      []string
		errs       []string
	}{
		{"another question", "printf 'Verification code: ' >&2; exec cat", nil, []string{"no answer for 5s", `"Verification code:"`}},
		{"silence", "exec cat", nil, []string{"no answer for 5s"}},
		{"its end", "echo 'sudo: unable to allocate memory' >&2; exit 1", nil, []string{"it has ended", "allocate memory", "by hand"}},
		{"no end of words", "head -c 1000000 /dev/zero >&2; echo try again >&2; exit 1", nil, []string{"longer than csig accepts"}},
		{"no session", "exit 1", []string{"MaxSessions 0"}, []string{"MaxSessions"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := behindSudo(t, sshtest.Account{Over: fakeSudo(t, row.sudo)}, row.extra...)
			cfg := Config{} // sudo has the time that a busy machine takes
			if slices.Contains(row.errs, "no answer for 5s") {
				cfg.Timeout = 5 * time.Second
			}
			err := refused(t, s, cfg)
			if final := (*SudoError)(nil); errors.As(err, &final) {
				t.Errorf("it is not worth another try: %v", err)
			}
			for _, want := range append(row.errs, "127.0.0.1", "become root by sudo") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in: %v", want, err)
				}
			}
		})
	}
}

// TestSudoCancelled ends a context while sudo asks.
func TestSudoCancelled(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	s := behindSudo(t, sshtest.Account{Sudoers: withPassword})
	why := errors.New("that is enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	// The secret is fetched when sudo asks for it.
	asked := filepath.Join(t.TempDir(), "asked")
	s.Login.Sudo.Password = inventory.Secret{Command: []string{"/bin/sh", "-c", "touch " + asked + "; exec sleep 1000"}}
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(asked); err == nil {
				cancel(why)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := Dial(ctx, Config{Address: s.Address, Login: s.Login})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
}

// TestSudoStalls has a connection that goes silent after the login.
func TestSudoStalls(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	s := behindSudo(t, sshtest.Account{Sudoers: withPassword})
	stalls := &stalling{closed: make(chan struct{})}
	c, err := Dial(t.Context(), Config{Address: s.Address, Login: s.Login, Dial: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		stalls.Conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return stalls, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stalls.now.Store(true)
	c.root.timeout = 50 * time.Millisecond
	if _, err := c.Run(t.Context(), "true", nil); err == nil || !strings.Contains(err.Error(), "no answer for 50ms") {
		t.Errorf("got %v", err)
	}
}

// stalling is a connection that gives nothing any more from some moment on.
type stalling struct {
	net.Conn
	now    atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.now.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// TestSudoCut cuts the connection, as the death of csig does, after its
// writes: sudo and what it runs end, wherever they are.
func TestSudoCut(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	path := rootsEcho(t)
	for _, sudoers := range []string{withPassword, withPty} {
		s := behindSudo(t, sshtest.Account{Sudoers: sudoers})
		for n, whole := 1, false; !whole; n += vendorstest.Every(t, 3) {
			var cut *cutting
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				cut = &cutting{Conn: conn, left: n}
				return cut, err
			}
			r, err := Dial(t.Context(), Config{Address: s.Address, Login: s.Login, Dial: dial})
			if err == nil {
				if _, err = r.Run(t.Context(), "sleep 0.01", []byte("unread")); err == nil {
					var c net.Conn
					if c, err = r.DialUnix(t.Context(), path); err == nil {
						_, err = c.Write([]byte("x")) // the answer is not read
						whole = err == nil
					}
				}
				r.Close()
			}
			if n > 200 {
				t.Fatalf("%d writes", n)
			}
		}
		gone(t, "sudo\x00-S\x00-k")
		gone(t, path)
	}
}

// TestLongSudoCut is TestSudoCut after each write, and not after each third.
func TestLongSudoCut(t *testing.T) { TestSudoCut(t) }

// cutting is a connection that is cut after so many writes.
type cutting struct {
	net.Conn
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.left--; c.left == 0 {
		c.Conn.Close()
	}
	return n, err
}

// TestSudoHides looks for the password in what every user of the switch can see, and
// for files that root has given the account: with those a process of the account
// could become root.
func TestSudoHides(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	path := rootsEcho(t)
	// The last has one permission for all of the account's sessions.
	for _, sudoers := range []string{withPassword, withPty, "Defaults timestamp_type=global\n" + withPassword} {
		s := behindSudo(t, sshtest.Account{Sudoers: sudoers})
		r := dial(t, s)
		conn, err := r.DialUnix(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const mark = "csigs-own-mark"
		got, err := r.Run(t.Context(), `cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\0' '\n'; : `+mark, []byte("csigs-own-input"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), mark) || strings.Contains(string(got), sshtest.Password) || strings.Contains(string(got), "csigs-own-input") {
			t.Errorf("processes: %s", got)
		}
		if out, err := r.Run(t.Context(), `find /tmp /run /var/tmp -xdev -uid "$SUDO_UID" 2>/dev/null; true`, nil); err != nil || len(out) > 0 {
			t.Errorf("the account has %s, %v", out, err)
		}
		// Programs are root's, whatever PATH the account has.
		if out, err := r.Run(t.Context(), "echo $PATH", nil); err != nil || string(out) != "/usr/sbin:/usr/bin:/sbin:/bin\n" {
			t.Errorf("PATH %s, %v", out, err)
		}
		// No permission stays behind: the account is not root without the password.
		r.root = nil
		if out, err := r.Run(t.Context(), "sudo -n id", nil); err == nil {
			t.Errorf("a permission stays behind: %s", out)
		}
	}
}

// TestSudoPasswordChanged has a password that is good for the login and not for a
// command after it: the input of the command is no further guess.
func TestSudoPasswordChanged(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	s := behindSudo(t, sshtest.Account{Sudoers: withPassword})
	tunnel := NewTunnel(Config{Address: s.Address, Login: s.Login})
	defer tunnel.Close()
	if _, err := tunnel.Run(t.Context(), "true", nil); err != nil {
		t.Fatal(err)
	}
	tunnel.login.root.password = wrongPassword
	for range 2 { // not asked again
		_, err := tunnel.Run(t.Context(), "true", []byte(sshtest.Password+"\n"))
		if !errors.As(err, new(*SudoError)) || strings.Contains(err.Error(), wrongPassword) {
			t.Errorf("got %v", err)
		}
	}
	if tunnel.login != nil {
		t.Error("the login is still there")
	}
}

// TestSudoWrongOnce: after the password was changed, commands side by side send the
// old one once, however many they are.
func TestSudoWrongOnce(t *testing.T) {
	t.Parallel()
	if noAccounts(t) {
		return
	}
	const commands = 8 // of MaxSessions 10
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil { //nolint:gosec // another account writes in there
		t.Fatal(err)
	}
	log, good := filepath.Join(dir, "log"), filepath.Join(dir, "good")
	if err := errors.Join(os.WriteFile(log, nil, 0o666), os.Chmod(log, 0o666), os.WriteFile(good, nil, 0o644)); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	// The arguments are -S -k -u root -p PROMPT -- /bin/sh -c ASROOT csig WORD COMMAND.
	script := `echo asked >>` + log + `; printf %s "$6" >&2; read p && echo sent >>` + log + ` # not at the end of its input
if test -e ` + good + `; then shift 7; exec "$@"; fi; sleep 0.1; echo "sudo: 1 incorrect password attempt" >&2; exit 1`
	s := behindSudo(t, sshtest.Account{Over: fakeSudo(t, script)})
	r := dial(t, s)
	count := func(what string) int {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), what)
	}
	if count("sent") != 1 {
		t.Fatalf("the password was sent %d times", count("sent"))
	}
	if err := os.Remove(good); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range commands {
		all.Go(func() {
			if _, err := r.Run(t.Context(), "true", nil); !errors.As(err, new(*SudoError)) || !strings.Contains(err.Error(), "refuses the password") {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	asked := count("asked")
	if _, err := r.Run(t.Context(), "true", nil); !errors.As(err, new(*SudoError)) {
		t.Errorf("later: %v", err)
	}
	if got := count("sent"); got != 2 || count("asked") != asked {
		t.Errorf("the wrong password was sent %d times; sudo was asked again later: %v", got-1, count("asked") != asked)
	}
}
