package all

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors"
)

// listens is in the environment of a process that listens at a socket, and answers nothing.
const listens = "CSIG_TEST_LISTENS"

// TestStrangersSocket: anybody may have a socket that is named like a bridge's. One of a process
// that cannot program ports is no bridge; one that does not answer is not taken for one without flows.
func TestStrangersSocket(t *testing.T) {
	if at := os.Getenv(listens); at != "" {
		l, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("listens\n")
		for {
			if _, err := l.Accept(); err != nil { // it is ended
				return
			}
		}
	}
	if os.Geteuid() != 0 {
		t.Fatal("it takes root to be another user")
	}
	dir, err := os.MkdirTemp("", "csig-strangers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	ns, err := fabric.NewNS("bridges") // where no other test's csig finds these
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	look := func() (of []vendors.Former) {
		t.Helper()
		of, err := bridges(t.Context(), &vendors.Config{NetNS: ns.FD()}, "")
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "test") // where another user may run it
	if err := os.WriteFile(binary, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	stranger := ns.Command(binary, "-test.run=^TestStrangersSocket$")
	stranger.Env = append(os.Environ(), listens+"="+filepath.Join(dir, "stranger.mgmt"))
	stranger.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	said, err := stranger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stranger.Process.Kill() // it ends in no other way
		_ = stranger.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "listens\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if of := look(); len(of) != 0 {
		t.Errorf("of another user's socket: %+v", of)
	}

	ours := filepath.Join(dir, "silent.mgmt")
	var l net.Listener
	if err := ns.Do(func() (err error) {
		l, err = net.Listen("unix", ours)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if of := look(); len(of) != 1 || of[0].Unread == nil || !strings.Contains(of[0].What, ours) {
		t.Errorf("of a bridge that does not answer: %+v", of)
	}
}

// TestConnectionIsNoBridge: who is connected with a bridge of another namespace has the bridge's path, and no bridge.
func TestConnectionIsNoBridge(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "br.mgmt")
	var spaces [2]*fabric.NS
	for i := range spaces {
		ns, err := fabric.NewNS("bridges")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ns.Close(); err != nil {
				t.Error(err)
			}
		})
		spaces[i] = ns
	}
	err := spaces[0].Do(func() error {
		l, err := net.Listen("unix", at)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err == nil {
		err = spaces[1].Do(func() error {
			c, err := net.Dial("unix", at)
			if err == nil {
				t.Cleanup(func() { c.Close() })
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{at}, nil} {
		if got, err := bridgeSockets(spaces[i].FD()); err != nil || !slices.Equal(got, want) {
			t.Errorf("namespace %d: %v, %v; want %v", i, got, err, want)
		}
	}
}
