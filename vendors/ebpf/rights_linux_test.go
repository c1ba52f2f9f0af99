package ebpf

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vlanrules"
)

// A program of another owner's that runs before csig's is named; one behind it is not.
func TestRunsBefore(t *testing.T) {
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	before := func() string {
		t.Helper()
		l.update(s, time.Hour)
		m, err := l.d.Measurements(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m[0].Before
	}
	other, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL"}) // TCX_PASS
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, tc := range []struct {
		name   string
		anchor link.Anchor
		want   string
	}{{"behind", link.Tail(), ""}, {"before", link.Head(), "runs before csig's"}} {
		var at link.Link
		err := l.s.Do(func() (err error) {
			at, err = link.AttachTCX(link.TCXOptions{Interface: int(l.index), Program: other, Attach: ebpf.AttachTCXEgress, Anchor: tc.anchor})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := before(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q", tc.name, got)
		}
		if err := at.Close(); err != nil {
			t.Fatal(err)
		}
		if got := before(); got != "" {
			t.Errorf("%s, and gone: %q", tc.name, got)
		}
	}
}

// Without the capabilities nothing is said of what is there: looking is an error, and so is removing.
func TestRights(t *testing.T) {
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have, less [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		t.Fatal(err)
	}
	less = have
	less[unix.CAP_BPF/32].Effective &^= 1 << (unix.CAP_BPF % 32)
	less[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	err := l.s.Do(func() error { // on a thread of its own
		if err := unix.Capset(&header, &less[0]); err != nil {
			t.Fatal(err)
		}
		_, err := attached(int(l.index))
		return errors.Join(err, unix.Capset(&header, &have[0]))
	})
	if !errors.Is(err, errNoRights) || !errors.Is(err, os.ErrPermission) || errors.Is(err, errNoBPF) || !strings.Contains(err.Error(), "run csig as root") {
		t.Errorf("%v", err)
	}
}
