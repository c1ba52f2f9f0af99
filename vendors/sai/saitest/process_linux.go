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
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// asOrchagent is set in the process of a test's binary that is orchagent.
const asOrchagent = "CSIG_TEST_ORCHAGENT"

// Process is for TestMain of tests that call RunProcess: in the processes that are orchagent and syncd it does not return.
func Process() {
	if dir := os.Getenv(asOrchagent); dir != "" {
		if filepath.Base(os.Args[0]) == "syncd" { // it has nothing but its arguments
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
			os.Exit(0)
		}
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

// RunSyncd runs a process that is syncd for those who look at this machine's, in place of the one before, and returns its number.
func (s *Switch) RunSyncd() int {
	s.t.Helper()
	end := func() {
		if s.syncd != nil {
			_ = s.syncd.Process.Kill()
			_ = s.syncd.Wait()
			s.syncd = nil
		}
	}
	end()
	cmd := s.process("syncd", s.Syncd)
	if _, err := cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	s.started(cmd)
	s.syncd = cmd
	s.t.Cleanup(end)
	return cmd.Process.Pid
}

// process is one whose name is this, of the test's binary.
func (s *Switch) process(name string, args []string) *exec.Cmd {
	s.t.Helper()
	path := filepath.Join(s.Redis.Dir, name)
	_ = os.Remove(path) // of one that was before
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, path)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.Remove(path) })
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), asOrchagent+"="+s.Redis.Dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// started starts it, and waits until it is ready.
func (s *Switch) started(cmd *exec.Cmd) {
	s.t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		s.t.Errorf("the process that is %s: %q, %v", filepath.Base(cmd.Path), line, err)
	}
}

// RunProcess runs processes that are orchagent and syncd for those who look at this machine's, and returns orchagent's number. Its SAI has all names but those
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
	file := filepath.Join(s.Redis.Dir, library)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := s.Orchagent
	if s.ASIC != "" {
		args = append(slices.Clone(args), "-f", "swss."+s.ASIC+".rec", "-j", "sairedis."+s.ASIC+".rec")
	}
	s.RunSyncd()
	cmd := s.process("orchagent", args)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	s.started(cmd)
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.Remove(file)
	})
	return cmd.Process.Pid
}
