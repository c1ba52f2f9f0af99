package device

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
)

// squatEnv names what the test's own program is to bind.
const squatEnv = "CSIG_TEST_SQUAT"

func init() {
	if name := os.Getenv(squatEnv); name != "" {
		squat(name)
		os.Exit(0)
	}
}

// squat binds a name until its input ends.
func squat(name string) {
	ln, err := net.Listen("unix", name)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer ln.Close()
	fmt.Println("bound")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startSquatter binds the name as a process with or without rights, and returns
// what ends it.
func startSquatter(t *testing.T, name string, attr *syscall.SysProcAttr) (end func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), squatEnv+"="+name)
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, _ := out.Read(line)
	if string(line[:n]) != "bound\n" {
		t.Fatalf("binding %s: %q", name, line[:n])
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	return end
}

// TestLock: one agent a namespace, and no other process keeps it from starting.
func TestLock(t *testing.T) {
	if os.Geteuid() != 0 {
		return // becoming another user takes root
	}
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	log := logrus.NewEntry(logger)
	unprivileged := &syscall.Credential{Uid: 65534, Gid: 65534}
	for i, tc := range []struct {
		name string
		attr *syscall.SysProcAttr
		free bool
	}{
		{"an ordinary user", &syscall.SysProcAttr{Credential: unprivileged}, true},
		{"an ordinary user with a right to program ports", &syscall.SysProcAttr{Credential: unprivileged, AmbientCaps: []uintptr{12}}, false}, // CAP_NET_ADMIN
		{"root", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name, file := fmt.Sprintf("@csig-lock-test-%d-%d", os.Getpid(), i), filepath.Join(t.TempDir(), "lock")
			end := startSquatter(t, name, tc.attr)
			is := func(when string, want bool) {
				t.Helper()
				if h, err := netdev.AgentOf(name, file); err != nil || (h != nil) != want {
					t.Errorf("an agent programs the ports %s: %v, %v, want %v", when, h, err, want)
				}
			}
			is("beside the squatter", !tc.free)
			unlock, err := lock(name, file, errOtherAgent, log)
			if !tc.free {
				if !errors.Is(err, errOtherAgent) {
					t.Fatalf("%v, want %v", err, errOtherAgent)
				}
				if _, err := os.Stat(file); err == nil {
					t.Error("a file is left")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lock(name, file, errOtherAgent, log); !errors.Is(err, errOtherAgent) {
				t.Errorf("a second agent: %v, want %v", err, errOtherAgent)
			}
			is("with its lock in the file", true)
			end()
			is("when the name is free again", true)
			if _, err := lock(name, file, errOtherAgent, log); !errors.Is(err, errOtherAgent) {
				t.Errorf("a second agent, when the name is free again: %v, want %v", err, errOtherAgent)
			}
			unlock()
			is("when the first has ended", false)
			again, err := lock(name, file, errOtherAgent, log)
			if err != nil {
				t.Fatalf("when the first has ended: %v", err)
			}
			again()
		})
	}
	t.Run("a link in place of the file", func(t *testing.T) {
		file, elsewhere := filepath.Join(t.TempDir(), "lock"), filepath.Join(t.TempDir(), "elsewhere")
		if err := errors.Join(os.WriteFile(elsewhere, nil, 0o600), os.Symlink(elsewhere, file)); err != nil {
			t.Fatal(err)
		}
		for _, create := range []bool{false, true} {
			if f, err := lockNamespace(file, create, errOtherAgent); !errors.Is(err, syscall.ELOOP) {
				t.Errorf("create %v: %v, %v", create, f, err)
			}
		}
	})
	t.Run("no process", func(t *testing.T) {
		name, file := fmt.Sprintf("@csig-lock-test-%d", os.Getpid()), filepath.Join(t.TempDir(), "lock")
		unlock, err := lock(name, file, errOtherAgent, log)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock(name, file, errOtherAgent, log); !errors.Is(err, errOtherAgent) {
			t.Errorf("a second agent: %v, want %v", err, errOtherAgent)
		}
		unlock()
		if _, err := os.Stat(file); err == nil {
			t.Error("a file is made without need")
		}
	})
}

// TestLockNames: the error of a remote device's lock says which device it is, and which
// process has it.
func TestLockNames(t *testing.T) {
	d := &inventory.Device{Name: "hw1", Address: "192.0.2.1", Management: inventory.Management{SSH: &inventory.SSH{User: "x"}}}
	d.Management.Daemon = &inventory.Daemon{At: inventory.Here, Socket: filepath.Join(t.TempDir(), "x.sock")}
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	one, two := &Lock{Log: logrus.NewEntry(logger)}, &Lock{Log: logrus.NewEntry(logger)}
	defer one.Close()
	defer two.Close()
	if err := one.Take(d); err != nil {
		t.Fatal(err)
	}
	if err := two.Take(d); err == nil || !strings.Contains(err.Error(), "another csig agent on this machine drives hw1 (192.0.2.1)") || !strings.HasSuffix(err.Error(), fmt.Sprintf("; it is process %d", os.Getpid())) || strings.Contains(err.Error(), "namespace") {
		t.Error(err)
	}
}

// TestPatience: a lock that is free within a moment is taken, one that stays taken is refused after
// it, and another error at once.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		for _, tc := range []struct {
			free time.Duration // when the lock is
			err  error         // what it is until then
			want error
			took time.Duration
		}{
			{0, nil, nil, 0},
			{lockPatience / 2, errOtherAgent, nil, lockPatience / 2},
			{time.Hour, fmt.Errorf("%w; it is process 7", errOtherAgent), errOtherAgent, lockPatience},
			{time.Hour, broken, broken, 0},
		} {
			began := time.Now()
			_, err := patient(errOtherAgent, func() (func(), error) {
				if time.Since(began) < tc.free {
					return nil, tc.err
				}
				return func() {}, nil
			})
			if took := time.Since(began); !errors.Is(err, tc.want) || tc.want == nil && err != nil || took < tc.took || took > tc.took+lockPause {
				t.Errorf("%+v: %v after %v", tc, err, took)
			}
		}
	})
}

// TestAfterKill: an agent that starts in the instant in which its predecessor is killed has the lock.
func TestAfterKill(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	remote := fmt.Sprintf("test of %d", os.Getpid())
	name := fmt.Sprintf("%s-%.16x", vendors.AgentLock, sha256.Sum256([]byte(remote)))
	for range 20 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), squatEnv+"="+name)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "bound\n" {
			t.Fatalf("binding %s: %q %v", name, line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		unlock, err := lockDevice(remote, "hw1", logrus.NewEntry(log))
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		in.Close()
		_ = cmd.Wait() // it was killed
	}
}
