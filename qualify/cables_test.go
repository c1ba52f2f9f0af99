package qualify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// TestCarrier: a card without a carrier is named before anything is sent, and one that
// loses it during an experiment makes that one not tested.
func TestCarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, changes := false, uint32(3)
		b, _ := cabled(t)
		b.Ports[1].Carrier = func() (bool, uint32, error) { return up, changes, nil }
		flaps := sends
		flaps.Run = func(ctx context.Context, t *Trial) error {
			changes += 2
			return sends.Run(ctx, t)
		}
		takes := sends
		takes.ID = "takes"
		takes.Run = func(ctx context.Context, t *Trial) error {
			t.Ports[1].taken = true
			return flaps.Run(ctx, t)
		}
		last := sends
		last.ID = "last"
		o := options(t, flaps, takes, last)
		if _, err := Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "card c2 has no carrier") {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(o.Folder); !os.IsNotExist(err) {
			t.Errorf("a refused start leaves a folder: %v", err)
		}
		up = true
		r, err := Run(t.Context(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Result("sends"); got.Outcome != NotTested || !strings.Contains(got.Found, "carrier of card c2, at port p2, changed 2 times") {
			t.Errorf("%s: %s", got.Outcome, got.Found)
		}
		if r.Count(Pass) != 2 {
			t.Errorf("%+v", r.Results)
		}
	})
}

// TestLinkedFolder: captures go to no folder that a link names.
func TestLinkedFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		o := options(t, sends)
		other := t.TempDir()
		if err := os.MkdirAll(o.Folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(o.Folder, "pcap")); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "link") {
			t.Errorf("%v", err)
		}
		if list, err := os.ReadDir(other); err != nil || len(list) > 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// TestDiffers: what differs is said in words.
func TestDiffers(t *testing.T) {
	was := Report{Switch: About{Device: "sw1", Model: "X"}, Ports: []ReportPort{{"p1", "c1", "02:00:00:00:00:01", 1500}}}
	now := was
	now.Switch.Version = "2"
	if got, want := was.differs(&now), "it is about sw1, model X, and this switch is sw1, model X, version 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	now = was
	now.Ports = []ReportPort{{"p1", "c2", "02:00:00:00:00:01", 1500}}
	if got, want := was.differs(&now), "its cables are [p1=c1 (02:00:00:00:00:01, MTU 1500)], and now they are [p1=c2 (02:00:00:00:00:01, MTU 1500)]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
