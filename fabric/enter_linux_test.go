package fabric

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// outer prepares another outer process: it has to enter namespaces of its own
// below ours.
func outer(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// giveUp makes a read from a process fail that waits for too long.
func giveUp(t *testing.T, pipe io.Reader) {
	t.Helper()
	if err := pipe.(*os.File).SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func TestEnterKeepsStatus(t *testing.T) {
	var exit *exec.ExitError
	if err := outer(t, "status").Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("the inner process ended with 7, the outer one with: %v", err)
	}
}

func TestEnterKeepsStandardFiles(t *testing.T) {
	cmd := outer(t, "echo")
	cmd.Stdin = strings.NewReader("hello\n")
	out, err := cmd.Output()
	if err != nil || string(out) != "pid 1 uid 0: hello\n" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestEnterPassesSignals(t *testing.T) {
	cmd := outer(t, "signal")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	giveUp(t, out)
	lines := bufio.NewScanner(out)
	for i, step := range []struct {
		want string
		send os.Signal
	}{
		{"ready", unix.SIGINT},
		{"first interrupt", unix.SIGTERM},
		{"second terminated", nil},
	} {
		if !lines.Scan() || lines.Text() != step.want {
			t.Fatalf("line %d is %q, want %q (%v)", i, lines.Text(), step.want, lines.Err())
		}
		if step.send != nil {
			if err := cmd.Process.Signal(step.send); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("want status 3, got %v", err)
	}
}

// TestKillLeavesNothing kills the outer process with SIGKILL and then looks
// for anything that still holds the namespace it had made.
func TestKillLeavesNothing(t *testing.T) {
	cmd := outer(t, "fabric")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	giveUp(t, out)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	netns := strings.TrimSpace(line)
	if users := usersOf(t, netns); len(users) < 2 {
		t.Fatalf("%s is used by %v, want the leader and its sleep", netns, users)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Every process that wrote to the pipe has it open: its end is their end.
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatalf("the inner process or its child lives on: %v", err)
	}
	cmd.Wait() //nolint:errcheck // killed
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		users := usersOf(t, netns)
		if len(users) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still used by %v", netns, users)
		}
	}
}

// usersOf lists the processes with a thread or a file descriptor in a network
// namespace.
func usersOf(t *testing.T, netns string) []string {
	t.Helper()
	users := map[string]bool{}
	for _, pattern := range []string{"/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"} {
		links, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if target, err := os.Readlink(l); err == nil && target == netns {
				users[strings.Split(l, "/")[2]] = true
			}
		}
	}
	var list []string
	for u := range users {
		list = append(list, u)
	}
	return list
}

func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		sysctl map[string]string
		want   string
	}{
		{"Debian's switch", unix.EPERM, map[string]string{"kernel.unprivileged_userns_clone": "0"}, "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"Ubuntu's AppArmor", unix.EPERM, map[string]string{"kernel.unprivileged_userns_clone": "1", "kernel.apparmor_restrict_unprivileged_userns": "1"}, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"no user namespaces", unix.ENOSPC, map[string]string{"user.max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces=10000"},
		{"used up", unix.ENOSPC, map[string]string{"user.max_user_namespaces": "10"}, "too many namespaces"},
		{"not built in", unix.EINVAL, nil, "CONFIG_USER_NS"},
		{"a container", unix.EPERM, nil, "seccomp"},
		{"anything else", unix.ENOMEM, nil, "as root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := advice(c.err, func(name string) (string, bool) { v, ok := c.sysctl[name]; return v, ok })
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want it to have %q", got, c.want)
			}
		})
	}
}
