package device

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

// The mark of csig off is made over SSH, by sudo where the account may not: no link
// is followed, and nothing that is there is written to.
func TestMarkOverSSH(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	o := sshtest.Options{Port: uint16(port)}
	modes := map[string]os.FileMode{"open": 0o777}
	if os.Geteuid() == 0 { // else only the test's own user can log in
		o.Account = &sshtest.Account{Name: "admin", Sudoers: "Defaults !fqdn\nadmin ALL=(root) NOPASSWD: ALL\n"}
		modes["closed"], modes["hidden"] = 0o755, 0o700
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := sshtest.Start(t, o)
	mark := func(path string) error {
		t.Helper()
		run := must(ssh.Dial(t.Context(), ssh.Config{Address: s.Address, Login: s.Login}))
		defer run.Close()
		return writeOffMarker(t.Context(), run, path)
	}
	for sub, mode := range modes {
		t.Run(sub, func(t *testing.T) {
			at := func(name string) string { return filepath.Join(dir, sub, name) }
			if err := os.Mkdir(at(""), mode); err != nil {
				t.Fatal(err)
			}
			put(t, at("theirs"), "precious")
			put(t, at("empty"), "")
			link(t, at("theirs"), at("link"))
			link(t, at("nowhere"), at("dangling"))
			if err := os.Chmod(at(""), mode); err != nil {
				t.Fatal(err)
			}
			for _, there := range []string{"theirs", "empty", "link", "dangling"} {
				if err := mark(at(there)); err != nil {
					t.Errorf("%s: %v", there, err)
				}
			}
			if got := string(must(os.ReadFile(at("theirs")))); got != "precious" {
				t.Errorf("what was there is %q now", got)
			}
			if got := string(must(os.ReadFile(at("empty")))); got != "" {
				t.Errorf("an empty mark of a user's is %q now", got)
			}
			if _, err := os.Lstat(at("nowhere")); err == nil {
				t.Error("something was made where a link leads")
			}
			made := at("new/mark")
			for range 2 {
				if err := mark(made); err != nil {
					t.Fatal(err)
				}
			}
			if info := must(os.Lstat(made)); !info.Mode().IsRegular() || !strings.HasPrefix(string(must(os.ReadFile(made))), "csig off took this device off at ") {
				t.Errorf("the mark: %v", info)
			}
		})
	}
	if err := mark(filepath.Join(dir, "open", "theirs", "mark")); err == nil {
		t.Error("a mark below a file is reported")
	}
}
