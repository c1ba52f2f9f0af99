package fabric

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// marker marks the inner process. It is an
// environment variable because the arguments have to stay the user's own.
const marker = "CSIG_FABRIC_INSIDE"

// Enter moves the program into namespaces of its own (network, mount and PID,
// and a user namespace where it lacks the privilege for these) by starting the
// same binary with the same arguments once more inside them.
//
// In the inner process it returns inside = true: carry on, as root of the
// namespaces. In the outer one it returns only after the inner one has ended,
// with the status to exit with. Standard files are the inner process's too,
// and it may write to the terminal, but not read it. Signals are passed on, the
// keyboard's among them, each one once; and when the outer process dies, even
// by SIGKILL, the kernel ends the inner one with all its children.
//
// An error of the outer process is why nothing ran inside (where the kernel
// forbids user namespaces: the setting that does, and the command to type), or
// which signal n killed what ran; the status is 128+n then.
func Enter() (inside bool, status int, err error) {
	// The marker alone could be inherited by a child which is meant to enter
	// namespaces of its own; only the first process of a PID namespace is 1.
	if os.Getenv(marker) != "" && os.Getpid() == 1 {
		return true, 0, settle()
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		return false, 1, errors.New("there is no /proc here, as in a chroot: mount -t proc proc /proc makes it")
	}
	user := os.Geteuid() != 0
	status, err = runInside(user)
	if err != nil && !user && errors.Is(err, unix.EPERM) {
		// Root of a container: no privilege over the namespaces it is in, but
		// perhaps allowed to make its own.
		status, err = runInside(true)
	}
	if err != nil {
		if status != 0 {
			return false, status, err
		}
		return false, 1, fmt.Errorf("enter own namespaces: %w: %s", err, advice(err, readSysctl))
	}
	return false, status, nil
}

// settle makes the mounts of the inner process its own, gives it a /proc that
// shows its PID namespace, and lets it write to the terminal: its group is a
// background one there, which `stty tostop` would stop at its first line.
func settle() error {
	signal.Ignore(unix.SIGTTOU)
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("enter own namespaces: make the mounts private: %w", err)
	}
	err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	// Containers that mask parts of /proc do not allow a fresh one. The old
	// one still works for what the fabric reads: /proc/thread-self and
	// /proc/sys follow the reader, not the mount.
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("enter own namespaces: mount /proc: %w", err)
	}
	return nil
}

func runInside(user bool) (int, error) {
	// The kernel sends the parent-death signal when the *thread* that forked
	// ends, so that thread has to stay for as long as the child runs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The child has a process group of its own: what the keyboard sends
	// (Ctrl-C) then reaches only us, like what kill(1) sends, and we pass on
	// either. The child alone passes signals on to its own children.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true,
	}
	if user {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}

	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGTSTP} {
		if !signal.Ignored(s) { // nohup and background commands of old shells stay as they are
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)

	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		pass(cmd.Process, signals, ended)
	}()
	err := cmd.Wait()
	close(ended)
	<-passed

	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), killedBy(ws.Signal())
		}
		return exit.ExitCode(), nil
	default:
		return 1, fmt.Errorf("wait for the inner process: %w", err)
	}
}

// killedBy reports a signal that the killed process could not report itself.
func killedBy(sig syscall.Signal) error {
	if sig == unix.SIGKILL {
		return errors.New("the process inside the namespaces was killed by SIGKILL: a kill -9, or the kernel's out-of-memory killer (see dmesg)")
	}
	return fmt.Errorf("the process inside the namespaces was killed by %s", unix.SignalName(sig))
}

// pass hands signals on to the inner process until it has ended.
func pass(p *os.Process, signals <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case s := <-signals:
			if s == unix.SIGTSTP {
				// The first process of a PID namespace does not stop by
				// itself on Ctrl-Z, but it does when its parent sends SIGSTOP.
				stopWith(p)
				continue
			}
			p.Signal(s) //nolint:errcheck // it ended: Wait reports it
		}
	}
}

// stopWith stops the inner process's group and ourselves, and continues it
// when we are continued.
func stopWith(p *os.Process) {
	unix.Kill(-p.Pid, unix.SIGSTOP)      //nolint:errcheck // it ended: Wait reports it
	unix.Kill(os.Getpid(), unix.SIGSTOP) //nolint:errcheck // always allowed
	unix.Kill(-p.Pid, unix.SIGCONT)      //nolint:errcheck // it ended: Wait reports it
}

func readSysctl(name string) (string, bool) {
	b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	return strings.TrimSpace(string(b)), err == nil
}

// advice returns what to do about an error of clone(2), from the settings with
// which kernels forbid user namespaces.
func advice(err error, sysctl func(string) (string, bool)) string {
	const orRoot = ", or run this command as root"
	for _, s := range []struct{ name, forbids, allow string }{
		{"kernel.unprivileged_userns_clone", "0", "1"},
		{"user.max_user_namespaces", "0", "10000"},
		{"user.max_net_namespaces", "0", "10000"},
		{"user.max_pid_namespaces", "0", "10000"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
	} {
		if v, ok := sysctl(s.name); ok && v == s.forbids {
			return fmt.Sprintf("%s is %s, so this kernel does not let ordinary users make namespaces: as root, type `sysctl -w %s=%s`%s", s.name, v, s.name, s.allow, orRoot)
		}
	}
	switch {
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS):
		return "too many namespaces are in use, or they are nested too deeply: as root, raise user.max_user_namespaces, user.max_net_namespaces and user.max_pid_namespaces with `sysctl -w`" + orRoot
	case errors.Is(err, unix.EINVAL):
		return "this kernel is built without user, network or PID namespaces (CONFIG_USER_NS, CONFIG_NET_NS, CONFIG_PID_NS): use another kernel"
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return "a security module or a container's seccomp profile forbids it: run outside that container, give it CAP_SYS_ADMIN" + orRoot
	default:
		return "run this command as root"
	}
}
