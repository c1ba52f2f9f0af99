// Command sandbox tries what a unit's restrictions let through, in the place of the unit's
// program, and prints what came of each. Nothing that it tries changes the machine.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	fmt.Println("user:", os.Geteuid() == 0)
	for _, dir := range []string{"/usr", "/etc", "/etc/csig", "/var/lib", "/var/lib/csig", "/var/lib/csig/controller", "/run", "/run/csig", "/home", "/root", "/tmp", "/dev", "/sys/fs/cgroup"} {
		name := filepath.Join(dir, "sandbox.try")
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(name))
		}
		report("write "+dir, err)
	}
	for _, s := range []struct {
		name         string
		family, kind int
	}{
		{"unix", unix.AF_UNIX, unix.SOCK_DGRAM}, {"inet", unix.AF_INET, unix.SOCK_DGRAM}, {"inet6", unix.AF_INET6, unix.SOCK_DGRAM},
		{"netlink", unix.AF_NETLINK, unix.SOCK_RAW}, {"packet", unix.AF_PACKET, unix.SOCK_RAW},
		{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET}, {"vsock", unix.AF_VSOCK, unix.SOCK_STREAM},
	} {
		fd, err := unix.Socket(s.family, s.kind, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		report("socket "+s.name, err)
	}
	for _, ns := range []struct {
		name string
		flag int
	}{{"net", unix.CLONE_NEWNET}, {"mount", unix.CLONE_NEWNS}, {"user", unix.CLONE_NEWUSER}} {
		result := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			result <- unix.Unshare(ns.flag)
		}()
		report("unshare "+ns.name, <-result)
	}
	report("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	_, err := unix.Mmap(-1, 0, 4096, unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	report("mmap of writable code", err)
	_, _, errno := unix.Syscall(unix.SYS_BPF, ^uintptr(0), 0, 0) // no such command
	report("bpf", not(errno, unix.EINVAL))
	report("clock", unix.ClockSettime(unix.CLOCK_REALTIME+1000, &unix.Timespec{})) // no such clock
	report("hostname", unix.Sethostname([]byte("csig-test")))
	report("module", unix.InitModule(nil, ""))
	report("ptrace", unix.PtraceAttach(0))
	report("reboot", unix.Reboot(0))
	_, _, errno = unix.Syscall(unix.SYS_PERSONALITY, 8, 0, 0) // PER_LINUX32
	report("personality", not(errno, 0))
	priority := int32(1)
	_, _, errno = unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&priority)))
	report("realtime", not(errno, 0))
	f, err := os.CreateTemp("", "")
	if err == nil {
		err = errors.Join(f.Chmod(0o755|os.ModeSetuid), f.Close(), os.Remove(f.Name()))
	}
	report("setuid", err)
	var limit unix.Rlimit
	report("core", unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	fmt.Println("core limit:", limit.Max)
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if name, _, _ := strings.Cut(line, ":"); name == "CapBnd" || name == "NoNewPrivs" || name == "Seccomp" {
			fmt.Println(line)
		}
	}
}

// not is nil where a system call ended as it does where it is let through.
func not(errno, through unix.Errno) error {
	if errno == through {
		return nil
	}
	return errno
}

func report(what string, err error) {
	if err == nil {
		fmt.Println(what + ": yes")
		return
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		fmt.Println(what+":", unix.ErrnoName(errno))
		return
	}
	fmt.Println(what+":", err)
}
