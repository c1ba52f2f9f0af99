package qualify_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// TestOpenCardWithoutRights: what an ordinary user is told to do.
func TestOpenCardWithoutRights(t *testing.T) {
	lab := qualifytest.NewLab(t, memory.Config{}, 1)
	var message string
	err := lab.Bench.Do(func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread
		var have, less [2]unix.CapUserData
		if err := unix.Capget(&header, &have[0]); err != nil {
			return err
		}
		less = have
		less[0].Effective &^= 1 << unix.CAP_NET_RAW
		if err := unix.Capset(&header, &less[0]); err != nil {
			return err
		}
		if p, err := qualify.OpenCard("p1", lab.Cards[0].Name); err != nil {
			message = err.Error()
		} else {
			b := qualify.Bench{Ports: []*qualify.Port{p}}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		return unix.Capset(&header, &have[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "run csig as root, or give it CAP_NET_RAW"; !strings.Contains(message, want) {
		t.Errorf("%q, want %q", message, want)
	}
}
