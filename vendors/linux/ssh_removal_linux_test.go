package linux

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// sshInto starts a real sshd inside the namespace and logs in there; by sudo where an
// account is given.
func sshInto(t *testing.T, n *netns, account *sshtest.Account) *SSHRemoval {
	t.Helper()
	n.ip("link set lo up")
	s := sshtest.Start(t, sshtest.Options{Account: account, Start: func(c *exec.Cmd) error { return n.do(c.Start) }})
	cfg := ssh.Config{Address: s.Address, Login: s.Login, Dial: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = n.do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	if account != nil {
		password := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte(sshtest.Password), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.Login.Sudo = &inventory.Sudo{Password: inventory.Secret{File: password}}
	}
	run, err := ssh.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return &SSHRemoval{Runner: run}
}

// What csig made goes by the nft command alone: the table, and what an earlier csig left
// waiting to undo a change. Objects of others stay.
func TestRemoveOverSSH(t *testing.T) {
	t.Parallel()
	const theirs = `add table ip csig; add table netdev csig2 { comment "csig v1"; }; add table netdev csig-back-mine`
	for _, who := range []struct {
		name    string
		account *sshtest.Account
	}{
		{"root", nil},
		{"sudo", &sshtest.Account{Name: "admin", Sudoers: "Defaults !fqdn, use_pty\nadmin ALL=(root) ALL\n"}},
	} {
		t.Run(who.name, func(t *testing.T) {
			w := newWire(t)
			w.nft(theirs)
			before := w.listing()
			apply(t, openDriver(t, w.netns), setupFor(updatePort))
			w.nft("add table netdev csig-back-00ff00ff00ff00ff-1000; add table netdev csig-back-0123456789abcdef-4000000000")
			d := sshInto(t, w.netns, who.account)
			if s, err := d.Observe(t.Context()); err != nil || s.Damaged == "" {
				t.Errorf("before: %+v, %v", s, err)
			}
			for range 2 {
				if err := d.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
				if left := w.listing(); left != before {
					t.Errorf("it leaves\n%s\nwant\n%s", left, before)
				}
			}
			if s, err := d.Observe(t.Context()); err != nil || s.Damaged != "" {
				t.Errorf("after: %+v, %v", s, err)
			}
		})
	}
}

func TestRemoveOverSSHLeavesATableOfOthers(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{
		"no comment":           `add table netdev csig`,
		"another comment":      `add table netdev csig { comment "mine"; }`,
		"another version":      `add table netdev csig { comment "csig v2"; }`,
		"the comment of a set": `add table netdev csig { set s { type inet_service; comment "csig v1"; }; }`,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetNS(t)
			n.nft(table)
			before := n.listing()
			d := sshInto(t, n, nil)
			if err := d.Remove(t.Context()); !errors.As(err, new(*vendors.ForeignError)) {
				t.Errorf("%v, want a *vendors.ForeignError", err)
			}
			if s, err := d.Observe(t.Context()); err != nil || s.Damaged == "" {
				t.Errorf("%+v, %v", s, err)
			}
			if left := n.listing(); left != before {
				t.Errorf("it leaves\n%s\nwant\n%s", left, before)
			}
		})
	}
}

// Programs cannot be removed over SSH: the ports are named, the table goes.
func TestRemoveOverSSHNamesPortsThatStrip(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	apply(t, openDriver(t, w.netns), setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
	err := sshInto(t, w.netns, nil).Remove(t.Context())
	permanent(t, err, "swp1", "stays, since it cannot be removed over SSH")
	if left := w.run("nft", "list", "ruleset"); strings.Contains(left, "csig") {
		t.Errorf("it leaves\n%s", left)
	}
}

// The program of platform linux-ebpf cannot, either, and whether it is there no command is sure
// to tell.
func TestRemoveOverSSHNamesTheNativePlane(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	apply(t, openDriver(t, w.netns), setupFor(updatePort))
	d := sshInto(t, w.netns, nil)
	d.Native = true
	permanent(t, d.Remove(t.Context()), "", "csig_egress, which csig made as platform linux-ebpf, stays")
	if left := w.run("nft", "list", "ruleset"); strings.Contains(left, "csig") {
		t.Errorf("it leaves\n%s", left)
	}
}

func TestSSHSetsNothingUp(t *testing.T) {
	t.Parallel()
	d := &SSHRemoval{}
	permanent(t, d.Apply(t.Context(), setupFor(updatePort)), "", "csig agent --wait")
	if f, err := d.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || f.Strip.Level != vlanrules.Refused || f.Lease.Level != vlanrules.Refused {
		t.Errorf("%+v, %v", f, err)
	}
}

// What an earlier csig left waiting to undo a change does not undo what is done now.
func TestOldRevertsEnd(t *testing.T) {
	t.Parallel()
	const theirs = "csig-back-mine"
	w := newWire(t)
	for name, do := range map[string]func(*Driver) error{
		"apply":  func(d *Driver) error { return d.Apply(t.Context(), setupFor(updatePort)) },
		"remove": func(d *Driver) error { return d.Remove(t.Context()) },
	} {
		w.nft("add table netdev " + theirs + "; add table netdev csig-back-00ff00ff00ff00ff-1000; add table netdev csig-back-0123456789abcdef-4000000000")
		if err := do(openDriver(t, w.netns)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left := w.run("nft", "list", "tables", "netdev"); strings.Count(left, "csig-back-") != 1 || !strings.Contains(left, theirs) {
			t.Errorf("%s leaves\n%s", name, left)
		}
	}
}
