// Package sshtest starts a real sshd for tests: with keys and a configuration
// of its own, in the network namespace that the test gives it, ended with the
// test.
package sshtest

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/csig-agent/csig/inventory"
)

// Server is a running sshd, and how to log in there.
type Server struct {
	Address string // an IP address
	Login   inventory.SSH
	Dir     string // its files, and the client's

	// Dial connects to one in memory; nil: the network does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	cmd *exec.Cmd
}

// Options are what tests may change; the zero value works.
type Options struct {
	Address string   // 127.0.0.1 where empty
	Port    uint16   // 2222 where 0; a namespace of one's own has it free
	Extra   []string // more lines for sshd_config; the first mention of a word counts

	// Account is who logs in, in place of the test's own user; only the
	// machine's own root can have it.
	Account *Account

	// Links are symbolic links that only the server's machine has, by their paths, which are
	// in folders of their own; only the machine's own root can have them.
	Links map[string]string

	// Start starts the command, perhaps in another network namespace; nil
	// is (*exec.Cmd).Start.
	Start func(*exec.Cmd) error
}

// Account is an ordinary user that only the server knows: its machine has no
// trace of it, since the files that have it lie over those of /etc in the
// server's own mount namespace, which its sudo sees, too.
type Account struct {
	Name    string
	Shell   string // /bin/sh where empty
	Sudoers string // the whole file

	// Over are files to lay over others of the machine, by the paths of the
	// latter.
	Over map[string]string
}

// hashed is Password, for an Account.
const hashed = "$6$csigtest$BkU/e.ODNwrZ3o6Il57qbRUrsxJ4R9zytL6sLiW2Xlewz19ilh0mobf4YcX6ZH9GXM82Wuj76IBz08kQW.xeB/"

// Start runs an sshd until the test ends. As root it has a mount namespace of
// its own, whose /run is empty: what tests want to reach there by a path has to
// be elsewhere.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		t.Fatalf("%v: install it (Debian: apt-get install openssh-server)", err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if o.Address == "" {
		o.Address = "127.0.0.1"
	}
	if o.Port == 0 {
		o.Port = 2222
	}
	s := &Server{Address: o.Address, Dir: t.TempDir()}
	s.Login = inventory.SSH{User: me.Username, Port: o.Port, Key: filepath.Join(s.Dir, "id"), KnownHosts: filepath.Join(s.Dir, "known_hosts")}
	host := NewKey(t, filepath.Join(s.Dir, "host_key"), "")
	login := NewKey(t, s.Login.Key, "")
	s.write(t, "authorized_keys", string(ssh.MarshalAuthorizedKey(login)))
	s.write(t, "known_hosts", knownhosts.Line([]string{net.JoinHostPort(o.Address, strconv.Itoa(int(o.Port)))}, host)+"\n")
	if a := o.Account; a != nil {
		s.Login.User = a.Name
		o.Extra = append(o.Extra, "AuthorizedKeysFile /run/sshd/keys", "SetEnv HOME=/")
	}
	s.write(t, "sshd_config", strings.Join(append(o.Extra,
		"ListenAddress "+o.Address,
		fmt.Sprintf("Port %d", o.Port),
		"HostKey "+filepath.Join(s.Dir, "host_key"),
		"AuthorizedKeysFile "+filepath.Join(s.Dir, "authorized_keys"),
		"PidFile none",
		"UsePAM no",
		"StrictModes no", // the files' parents are the test's folder and /tmp, which all users can write
		"PermitRootLogin prohibit-password",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"SetEnv HOME="+s.Dir, // what people have in their .bashrc is no part of the test
		"LogLevel INFO",
	), "\n")+"\n")
	args := []string{"-D", "-e", "-f", filepath.Join(s.Dir, "sshd_config")}
	s.cmd = exec.Command(sshd, args...)
	if os.Geteuid() == 0 {
		// sshd wants /run/sshd; the machine's own /run stays as it is.
		script := `mount --make-rprivate / && mount -t tmpfs sshd /run && mkdir -m 755 /run/sshd && ` + s.account(t, o.Account) + s.links(o.Links) + `"$0" "$@"`
		s.cmd = exec.Command("/bin/sh", append([]string{"-c", script, sshd}, args...)...)
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start := o.Start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(s.cmd); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	var printed []string
	for lines.Scan() {
		printed = append(printed, lines.Text())
		if strings.Contains(lines.Text(), "Server listening") {
			break
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		<-drained                // sessions have the log open, so they are gone too
		_ = s.cmd.Wait()         // it was killed
	})
	if n := len(printed); n == 0 || !strings.Contains(printed[n-1], "Server listening") {
		t.Fatalf("sshd does not listen:\n%s", strings.Join(printed, "\n"))
	}
	return s
}

// account writes the files that have an account, and returns the commands that
// lay them over those of /etc.
func (s *Server) account(t testing.TB, a *Account) string {
	t.Helper()
	if a == nil {
		return ""
	}
	if _, err := exec.LookPath("sudo"); err != nil {
		t.Fatalf("%v: install it (Debian: apt-get install sudo)", err)
	}
	shell := a.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	const id = 4711
	script := "cp " + filepath.Join(s.Dir, "authorized_keys") + " /run/sshd/keys && chmod 644 /run/sshd/keys && "
	for _, file := range []struct {
		name, line string
		mode       os.FileMode
	}{
		{"passwd", fmt.Sprintf("%s:x:%d:%d::/:%s\n", a.Name, id, id, shell), 0o644},
		{"group", fmt.Sprintf("%s:x:%d:\n", a.Name, id), 0o644},
		{"shadow", fmt.Sprintf("%s:%s:20000::::::\n", a.Name, hashed), 0o600},
		{"sudoers", a.Sudoers, 0o440},
	} {
		text := file.line
		if file.name != "sudoers" {
			have, err := os.ReadFile("/etc/" + file.name)
			if err != nil {
				t.Fatal(err)
			}
			text = string(have) + text
		}
		s.write(t, file.name, text)
		path := filepath.Join(s.Dir, file.name)
		if err := os.Chmod(path, file.mode); err != nil {
			t.Fatal(err)
		}
		script += "mount --bind " + path + " /etc/" + file.name + " && "
	}
	for over, path := range a.Over {
		script += "mount --bind " + path + " " + over + " && "
	}
	return script
}

// links returns the commands that make a root with them, of the folders of the machine's own, and
// the one that begins the last.
func (s *Server) links(links map[string]string) string {
	if len(links) == 0 {
		return "exec "
	}
	root := filepath.Join(s.Dir, "root")
	script := "mkdir " + root + " && mount -t tmpfs root " + root + " && for d in /*; do if [ -L $d ]; then cp -P $d " + root +
		"; elif [ -d $d ]; then mkdir " + root + "$d && mount --rbind $d " + root + "$d; fi || exit 1; done && "
	for path, to := range links {
		script += "mkdir -p " + root + filepath.Dir(path) + " && ln -s " + to + " " + root + path + " && "
	}
	return script + "exec chroot " + root + " "
}

func (s *Server) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// NewKey makes a key pair, writes the private key to path, locked with a
// passphrase unless that is "", and returns the public one.
func NewKey(t testing.TB, path, passphrase string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "csig test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if passphrase != "" { // in one round: by the 16 that are usual each use would take seconds under the race detector
		if out, err := exec.Command("ssh-keygen", "-q", "-p", "-a", "1", "-P", "", "-N", passphrase, "-f", path).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
