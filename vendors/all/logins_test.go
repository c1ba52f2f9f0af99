package all

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/vrp"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

// kept is what the owners of a device tell each other.
type kept struct {
	mu   sync.Mutex
	list []string
}

func (k *kept) Open() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.list)
}

func (k *kept) Keep(_ context.Context, list []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.Clone(list)
	return nil
}

// loginBench is a switch with a command line that two owners and an operator log in to, all by
// one account from one machine.
type loginBench struct {
	platform string
	server   *clitest.Server
	store    kept
	owner    vendors.Owner
}

func newLoginBench(t *testing.T, platform string, shell func() clitest.Shell) *loginBench {
	t.Helper()
	b := &loginBench{platform: platform, server: clitest.New(t, shell)}
	b.owner = vendors.Owner{MayWrite: func() error { return nil }, Logins: &b.store}
	return b
}

func (b *loginBench) dial(t *testing.T, owner *vendors.Owner) *cli.Session {
	t.Helper()
	login := ssh.Config{Address: b.server.Address, Login: b.server.Login}
	dial := func() (*cli.Session, error) { return vrp.Dial(t.Context(), b.platform, login, owner) }
	if b.platform == "comware" {
		dial = func() (*cli.Session, error) { return comware.Dial(t.Context(), login, owner) }
	}
	s, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (b *loginBench) end(t *testing.T) error {
	t.Helper()
	p, err := Default().Platform(b.platform)
	if err != nil {
		t.Fatal(err)
	}
	d := inventory.Device{Name: "sw1", Platform: b.platform, Address: b.server.Address}
	d.Management.SSH = &b.server.Login
	ctx, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	return p.EndLogins(ctx, vendors.Config{Device: d, Owner: &b.owner}, b.store.Open())
}

// TestFormerLogins: the next owner ends the login of the former one and no other, and what that
// one sends then is not carried out.
func TestFormerLogins(t *testing.T) {
	t.Parallel()
	switches := map[string]func() clitest.Shell{
		"comware": comwaretest.New("H3C", "Ten-GigabitEthernet1/0/1").Shell,
		"old": func() clitest.Shell {
			c := comwaretest.New("H3C", "Ten-GigabitEthernet1/0/1")
			c.Old = true
			return c.Shell()
		},
		"vrp": vrptest.New("HUAWEI", "XGigabitEthernet0/0/1").Shell, "cloudengine": vrptest.NewCloudEngine("HUAWEI", "100GE1/0/1").Shell,
	}
	for name, shell := range switches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLoginBench(t, strings.Replace(name, "old", "comware", 1), shell)
			operator, former := b.dial(t, nil), b.dial(t, &b.owner)
			if len(b.store.Open()) != 1 {
				t.Fatalf("kept: %q", b.store.Open())
			}
			lost := b.dial(t, &b.owner) // its connection broke, says one end
			if n := len(b.store.Open()); n != 2 {
				t.Fatalf("kept: %q", b.store.Open())
			}
			if err := b.end(t); err != nil {
				t.Fatal(err)
			}
			b.server.Forget()
			for _, s := range []*cli.Session{former, lost} {
				if err := s.Configure(t.Context(), []string{"traffic classifier x"}); err == nil {
					t.Error("a former owner is logged in")
				}
			}
			if _, err := operator.Run(t.Context(), "display version"); err != nil {
				t.Errorf("the operator's login: %v", err)
			}
			if lines := b.server.Lines(); !slices.Equal(lines, []string{"display version"}) {
				t.Errorf("carried out: %q", lines)
			}
			b.dial(t, &b.owner)
			if open := b.store.Open(); len(open) != 1 {
				t.Errorf("logins that are gone are kept: %q", open)
			}
		})
	}
}

// TestFormerLoginsStay: where a login cannot be ended, or was not known, that is an error.
func TestFormerLoginsStay(t *testing.T) {
	t.Parallel()
	sw := comwaretest.New("H3C", "Ten-GigabitEthernet1/0/1")
	sw.Unprivileged = true
	b := newLoginBench(t, "comware", sw.Shell)
	b.dial(t, &b.owner)
	if err := b.end(t); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("an account that may not end logins: %v", err)
	}
	b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) { return "Permission denied.\r\n", line == "display users" }})
	b.dial(t, &b.owner)
	b.server.Set(clitest.Faults{})
	if err := b.end(t); err == nil || !strings.Contains(err.Error(), "which login is whose") {
		t.Errorf("a login that was never seen: %v", err)
	}
}
