package linux

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh/sshtest"
	"github.com/csig-agent/csig/vlanrules"
)

// goesBack waits until the switch has a listing again.
func goesBack(t *testing.T, n *netns, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); n.listing() != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the switch does not go back: it has\n%s\nwant\n%s", n.listing(), want)
		}
	}
}

// TestConfirm changes a switch behind sshd that goes back by itself unless the
// change is confirmed, also when the connection is cut right after the change.
func TestConfirm(t *testing.T) {
	t.Run("root", func(t *testing.T) { testConfirm(t, nil) })
}

// By sudo, the terminal hangs up whatever it has started.
func TestLongConfirmBySudo(t *testing.T) { testConfirm(t, &admin) }

// soon is when a switch goes back: a change on a busy machine still comes before.
const soon = 4 * time.Second

func testConfirm(t *testing.T, as *sshtest.Account) {
	ctx := t.Context()
	n, first := newPorts(t, 3)
	second := first
	second.Ports = append([]vendors.PortSetup(nil), first.Ports...)
	second.Ports[1].Action = vlanrules.Passthrough
	d, cut := openSSHAs(t, n, as)
	none := n.listing()

	// The connection is cut between the change and its confirmation.
	mark, err := d.Arm(ctx, soon)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(ctx, first); err != nil {
		t.Fatal(err)
	}
	cut()
	goesBack(t, n, none)
	_ = d.Close() // it was cut
	if err := d.Confirm(ctx, mark); !errors.Is(err, vendors.ErrReverted) {
		t.Errorf("confirmed too late: %v", err)
	}

	// Confirmed over a new connection, it stays.
	if mark, err = d.Arm(ctx, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Confirm(ctx, mark); err != nil {
		t.Fatal(err)
	}
	if err := d.Confirm(ctx, mark); !errors.Is(err, vendors.ErrReverted) {
		t.Errorf("confirmed twice: %v", err)
	}
	has := n.listing()

	// Armed again before it was confirmed: csig has reached it, so what it has by
	// now comes back, whether the change adds, alters or removes.
	if err := d.Apply(ctx, second); err != nil {
		t.Fatal(err)
	}
	altered := n.listing()
	if altered == has {
		t.Fatal("nothing has changed")
	}
	if err := d.Apply(ctx, first); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Arm(ctx, 2*soon); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(ctx, second); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Arm(ctx, soon); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	goesBack(t, n, altered)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	waitsNoMore(t, n)
}

// waitsNoMore waits until no shell waits in a namespace.
func waitsNoMore(t *testing.T, n *netns) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := n.run("sh", "-c", `ns=$(readlink /proc/self/ns/net); for p in /proc/[0-9]*; do [ "$(readlink $p/ns/net)" = "$ns" ] && tr "\0" " " <$p/cmdline; done 2>/dev/null; true`)
		if !strings.Contains(text, `case $back in`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a shell still waits:\n%s", text)
		}
	}
}

// Whatever way a switch is given a setup, or none, what an earlier csig has
// armed there no longer happens: another account, its own driver.
func TestArmedIsEnded(t *testing.T) {
	n, first := newPorts(t, 2)
	second := first
	second.Ports = append([]vendors.PortSetup(nil), first.Ports...)
	second.Ports[1].Action = vlanrules.Passthrough
	ways := []struct {
		name string
		open func(t *testing.T) vendors.Driver
	}{
		{"from afar", func(t *testing.T) vendors.Driver { return openAfar(t, n) }},
		{"its own", func(t *testing.T) vendors.Driver { return openDriverQuietly(t, n) }},
	}
	for _, way := range ways {
		for _, what := range []string{"Apply", "Apply of the same", "Remove", "Arm refused"} {
			if what == "Arm refused" && way.name != "from afar" {
				continue
			}
			t.Run(way.name+"/"+what, func(t *testing.T) {
				ctx := t.Context()
				d := openAfar(t, n)
				mark, err := d.Arm(ctx, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Apply(ctx, first); err != nil {
					t.Fatal(err)
				}
				other := way.open(t)
				var armed *vendors.ArmedError
				if err := vendors.ArmedBy(ctx, other); !errors.As(err, &armed) || armed.Left <= 30*time.Second || armed.Left > time.Minute {
					t.Errorf("armed for a minute: %v", err)
				}
				switch c, ok := other.(vendors.Confirmer); {
				case what == "Apply":
					err = other.Apply(ctx, second)
				case what == "Apply of the same":
					err = other.Apply(ctx, first)
				case what == "Remove":
					err = other.Remove(ctx)
				case !ok:
					t.Fatal("it cannot be armed")
				default: // what is there by now is not ours
					n.nft("delete table netdev csig; add table netdev csig")
					if _, err := c.Arm(ctx, time.Minute); err == nil {
						t.Error("armed with a table that is not ours")
					}
					n.nft("delete table netdev csig")
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := vendors.ArmedBy(ctx, other); err != nil {
					t.Errorf("still armed: %v", err)
				}
				if list := n.run("nft", "list", "tables"); strings.Contains(list, armedPrefix) {
					t.Errorf("still marked:\n%s", list)
				}
				if err := d.Confirm(ctx, mark); !errors.Is(err, vendors.ErrReverted) {
					t.Errorf("confirmed what was ended: %v", err)
				}
			})
		}
	}
	waitsNoMore(t, n)
}

// A change that comes after the switch has gone back changes nothing, and says
// so.
func TestChangeAfterGoingBack(t *testing.T) {
	ctx := t.Context()
	n, first := newPorts(t, 2)
	second := first
	second.Ports = append([]vendors.PortSetup(nil), first.Ports...)
	second.Ports[1].Action = vlanrules.Passthrough
	d := openAfar(t, n)
	if err := d.Apply(ctx, first); err != nil {
		t.Fatal(err)
	}
	has := n.listing()
	for name, change := range map[string]func() error{
		"Apply":  func() error { return d.Apply(ctx, second) },
		"Remove": func() error { return d.Remove(ctx) },
	} {
		mark, err := d.Arm(ctx, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); strings.Contains(n.run("nft", "list", "tables"), mark); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not go back")
			}
		}
		if err := change(); !errors.Is(err, vendors.ErrReverted) {
			t.Errorf("%s: %v", name, err)
		}
		if got := n.listing(); got != has {
			t.Errorf("%s after it had gone back: it has\n%s\nwant\n%s", name, got, has)
		}
	}
}

// A switch that cannot be armed says so before anything is changed.
func TestArmRefused(t *testing.T) {
	n, _ := newPorts(t, 1)
	d := openAfar(t, n)
	if _, err := d.Arm(t.Context(), time.Millisecond); err == nil {
		t.Error("armed for a millisecond")
	}
	if err := d.Confirm(t.Context(), "$(reboot)"); err == nil || !strings.Contains(err.Error(), "no mark") {
		t.Errorf("got %v", err)
	}
	n.nft("add table netdev csig")
	if _, err := d.Arm(t.Context(), time.Minute); err == nil {
		t.Error("armed with a table that is not ours")
	}
}
