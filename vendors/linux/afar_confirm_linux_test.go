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
	for deadline := time.Now().Add(20 * time.Second); n.listing() != want; time.Sleep(20 * time.Millisecond) {
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

func testConfirm(t *testing.T, as *sshtest.Account) {
	ctx := t.Context()
	n, first := newPorts(t, 3)
	second := first
	second.Ports = append([]vendors.PortSetup(nil), first.Ports...)
	second.Ports[1].Action = vlanrules.Passthrough
	d, cut := openSSHAs(t, n, as)
	none := n.listing()

	// The connection is cut between the change and its confirmation.
	mark, err := d.Arm(ctx, time.Second)
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

	// Armed again before it was confirmed: what was confirmed last comes back,
	// whether the change adds, alters or removes.
	if _, err := d.Arm(ctx, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(ctx, second); err != nil {
		t.Fatal(err)
	}
	if n.listing() == has {
		t.Fatal("nothing has changed")
	}
	if _, err := d.Arm(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	goesBack(t, n, has)

	// What another driver removes for good does not come back.
	if _, err := d.Arm(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	other := *d
	other.armed = false
	if err := other.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if out, err := other.shell(ctx, revertDir+`; ls "$d" 2>/dev/null; exit 0`, nil); err != nil || len(out) > 0 {
		t.Errorf("left on the switch, to put back what was removed: %s, %v", out, err)
	}
	if got := n.listing(); got != none {
		t.Errorf("removed, and back again:\n%s", got)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
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
