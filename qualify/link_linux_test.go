package qualify_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// TestLinkLeftDown: what has a run end while it has a link down, the next one brings it up.
func TestLinkLeftDown(t *testing.T) {
	b, lab := realLab(t, memory.Faults{}, 2)
	card, link := b.Ports[1].Card, b.Ports[1].Link
	folder := filepath.Join(t.TempDir(), "out")
	noted := func() string {
		r, err := qualify.Load(filepath.Join(folder, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		return r.LinkDown
	}
	b.Ports[1].Link = func(up bool) error {
		if noted() != card {
			t.Errorf("the link of %s changes, and noted is %q", card, noted())
		}
		if up {
			return errors.New("killed by the test")
		}
		return link(false)
	}
	run(t, b, qualify.Options{Experiments: only("link-flap"), Folder: folder})
	if noted() != card {
		t.Fatalf("%s is down, and noted is %q", card, noted())
	}
	other := b.Ports[0].Link
	if err := other(false); err != nil {
		t.Fatal(err)
	}
	// What nothing is noted about stays as it is.
	for i, want := range []bool{false, true} {
		name := b.Ports[i].Card
		var nic *net.Interface
		err := lab.Bench.Do(func() (err error) {
			if err := qualify.Restore(folder, name); err != nil {
				return err
			}
			nic, err = net.InterfaceByName(name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if up := nic.Flags&net.FlagUp != 0; up != want {
			t.Errorf("card %s is up: %v, want %v", name, up, want)
		}
	}
	b.Ports[1].Link = link
	if err := other(true); err != nil {
		t.Fatal(err)
	}
	if _, err := qualify.Run(context.Background(), b, qualify.Options{Experiments: only("link-flap"), Folder: folder, Resume: true, Quiet: 10 * time.Millisecond}); err != nil || noted() != "" {
		t.Errorf("resumed: %v, and noted is %q", err, noted())
	}
}
