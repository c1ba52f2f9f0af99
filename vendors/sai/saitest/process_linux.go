package saitest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// asOrchagent is set in the process of a test's binary that is orchagent.
const asOrchagent = "CSIG_TEST_ORCHAGENT"

// Process is for TestMain of tests that call RunProcess: in the process that is orchagent it does not return.
func Process() {
	if dir := os.Getenv(asOrchagent); dir != "" {
		fmt.Fprintln(os.Stderr, orchagent(dir))
		os.Exit(1)
	}
}

// orchagent has SAI's library loaded and a /tmp of its own, as in a container; what comes at ServerSai's socket there goes
// to the fake, whose folder it is.
func orchagent(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, library))
	if err != nil {
		return err
	}
	outside, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/tmp", "tmpfs", 0, "")); err != nil {
		return err
	}
	if err := os.WriteFile("/tmp/"+library, text, 0o600); err != nil {
		return err
	}
	loaded, err := os.Open("/tmp/" + library)
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(int(loaded.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
		return err
	}
	ln, err := net.Listen("unix", "/tmp/saiServer")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			to, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/saiServer", outside))
			if err != nil {
				return
			}
			defer to.Close()
			go func() { _, _ = io.Copy(to, c); _ = to.(*net.UnixConn).CloseWrite() }()
			_, _ = io.Copy(c, to)
		}()
	}
}

const library = "libsaimetadata.so.0"

// RunProcess runs a process that is orchagent for those who look at this machine's, and returns its number. Its SAI has all names but those
// that are left out. On a switch of several ASICs it drives ASIC.
func (s *Switch) RunProcess(without ...string) int {
	s.t.Helper()
	text := strings.Repeat("\x7fELF....", 150_000) + "\x00SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE_OF_OTHERS\x00XSAI_PORT_ATTR_INT_DELETE\x00"
	names := s.Names()
	for _, name := range without {
		delete(names, name)
	}
	for name := range names {
		text += name + "\x00"
	}
	dir := s.Redis.Dir
	_ = os.Remove(filepath.Join(dir, "orchagent")) // of one that was before
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, library), []byte(text), 0o600), os.Symlink(self, filepath.Join(dir, "orchagent")))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "orchagent"))
	if s.ASIC != "" {
		cmd.Args = append(cmd.Args, "-d", "/var/log/swss", "-s", "-f", "swss."+s.ASIC+".rec", "-j", "sairedis."+s.ASIC+".rec")
	}
	cmd.Env = append(os.Environ(), asOrchagent+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = errors.Join(os.Remove(filepath.Join(dir, library)), os.Remove(filepath.Join(dir, "orchagent")))
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("the process that is orchagent: %q, %v", line, err)
	}
	return cmd.Process.Pid
}
