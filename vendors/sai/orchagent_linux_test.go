package sai

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
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors/sai/saitest"
)

// asOrchagent is set in the process of this binary that is orchagent's: it has SAI's library loaded, a /tmp of its own, as a
// container has, and what comes at ServerSai's socket there goes to the fake.
const asOrchagent = "CSIG_TEST_ORCHAGENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asOrchagent); dir != "" {
		if err := orchagent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func orchagent(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "libsaimetadata.so.0"))
	if err != nil {
		return err
	}
	outside, err := unix.Open(os.Getenv("CSIG_TEST_FAKE"), unix.O_PATH, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/tmp", "tmpfs", 0, "")); err != nil {
		return err
	}
	if err := os.WriteFile("/tmp/libsaimetadata.so.0", text, 0o600); err != nil {
		return err
	}
	library, err := os.Open("/tmp/libsaimetadata.so.0")
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(int(library.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
		return err
	}
	ln, err := net.Listen("unix", serverSocket)
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

// TestLocal finds orchagent among this machine's processes, as the switch's host sees it: by its name, what its SAI has
// by the library that it has loaded, and ServerSai's socket in its container's /tmp.
func TestLocal(t *testing.T) {
	sw := saitest.New(t, "Ethernet0", "Ethernet1", "Ethernet2", "Ethernet3", "Ethernet4", "Ethernet5")
	dir := filepath.Join(sw.Redis.Dir, "container")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	library := strings.Repeat("\x7fELF....", 150_000) + "\x00SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE_OF_OTHERS\x00XSAI_PORT_ATTR_INT_DELETE\x00"
	for name := range sw.Names() {
		if name != attrDBit { // of an older SAI
			library += name + "\x00"
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "libsaimetadata.so.0"), []byte(library), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "orchagent")); err != nil {
		t.Fatal(err)
	}
	// Other tests may have one, too.
	proc := filepath.Join(dir, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		t.Fatal(err)
	}
	host := Local{Proc: proc}
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, ErrNoOrchagent) {
		t.Errorf("without one: %v", err)
	}
	cmd := exec.Command(filepath.Join(dir, "orchagent"))
	cmd.Env = append(os.Environ(), asOrchagent+"="+dir, "CSIG_TEST_FAKE="+sw.Redis.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := os.Symlink(fmt.Sprintf("/proc/%d", cmd.Process.Pid), filepath.Join(proc, fmt.Sprint(cmd.Process.Pid))); err != nil {
		t.Fatal(err)
	}
	p, err := host.Orchagent(t.Context())
	if err != nil || p.missing() != "" || p.Names[attrDBit] || len(p.Names) < 20 {
		t.Fatalf("%+v, %v", p, err)
	}
	again, err := host.Orchagent(t.Context())
	if err != nil || again.ID != p.ID {
		t.Errorf("%+v, %v", again, err)
	}
	in := inputs(t)[0]
	l, want := liveOf(t, sw, in)
	l.cfg.Host = host
	if err := l.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty(t, sw)
}
