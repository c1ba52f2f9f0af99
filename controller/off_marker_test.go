package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/controller/owner/kv/kvtest"
)

// kept is what an owner of leaf1 keeps in a store of its own, in memory: it runs in a bubble.
func kept(t *testing.T) *keeper {
	t.Helper()
	l := logrus.New()
	l.SetOutput(io.Discard)
	log := logrus.NewEntry(l)
	conn := kvtest.New().Connect(time.Second)
	store, err := owner.OpenOn(conn, owner.Config{Name: "c1", Term: owner.MinTerm, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	lease, _, err := store.Own(t.Context(), "leaf1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lease.Close(context.Background(), false); err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	dir := t.TempDir()
	return &keeper{lease: lease, file: filepath.Join(dir, "leaf1.yaml"), marker: filepath.Join(dir, "leaf1.off"), log: log}
}

// TestMarkerOfBefore: an off-marker of this machine ends with a later csig apply through another
// owner, and not with an earlier one.
func TestMarkerOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kept(t)
		if err := k.lease.KeepConfig(t.Context(), []byte("applied")); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			off  time.Duration // when, from now
			gone bool
		}{{time.Hour, false}, {-time.Hour, true}} {
			at := time.Now().Add(tc.off)
			if err := errors.Join(api.WriteOffMarker(k.marker, at), os.Chtimes(k.marker, at, at), k.fetch(t.Context())); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(k.marker); errors.Is(err, fs.ErrNotExist) != tc.gone {
				t.Errorf("csig off %v from the apply: %v", tc.off, err)
			}
		}
	})
}

// TestGoesBackAtATakeOver: what csig apply did not confirm under an owner that is gone, its next one takes
// back, from the configurations of any machine; and what is on this one of an earlier apply is of no account.
func TestGoesBackAtATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kept(t)
		text := func(lm int) []byte {
			return fmt.Appendf(nil, agent.OwnMark+"\nformat: csig.fleet/v1\nprofile: {name: p, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}\ndevices: [{name: leaf1, platform: linux, local: true, ports: [{name: swp1, speed: 10G, lm: %d}]}]\n", lm)
		}
		hash := func(lm int) string {
			h, err := agent.HashOf(text(lm))
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		none, earlier, unknown := "", hash(5), hash(7)
		for _, row := range []struct {
			name string
			to   *string
			want string // of the file; "": there is none
		}{
			{"nothing is pending", nil, string(text(6))},
			{"another is pending", &earlier, string(text(5))},
			{"a removal is", &none, ""},
			{"one that nobody has", &unknown, string(text(6))},
		} {
			for _, lm := range []int{5, 6} {
				if err := errors.Join(os.WriteFile(k.file, text(lm), 0o600), k.KeepConfig(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			err := errors.Join(os.WriteFile(agent.RevertFile(k.file), []byte("of long ago"), 0o600), k.KeepRevert(t.Context(), row.to))
			for range 2 { // and once
				err = errors.Join(err, k.fetch(t.Context()))
			}
			got, there := os.ReadFile(k.file)
			if err != nil || string(got) != row.want || row.want == "" && !errors.Is(there, fs.ErrNotExist) {
				t.Errorf("%s: the file is %q (%v, %v), want %q", row.name, got, there, err, row.want)
			}
			removes, err := os.ReadFile(agent.RemovingFile(k.file))
			if want := map[bool]string{true: string(text(6))}[row.to == &none]; string(removes) != want || want == "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the agent is to remove %q (%v), want %q", row.name, removes, err, want)
			}
			_ = os.Remove(agent.RemovingFile(k.file))
			if _, err := os.Lstat(agent.RevertFile(k.file)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: what was pending on this machine: %v", row.name, err)
			}
		}
		// csig off on this machine was later than what nobody confirmed.
		err := errors.Join(api.WriteOffMarker(k.marker, time.Now()), os.Chtimes(k.marker, time.Now().Add(time.Hour), time.Now().Add(time.Hour)),
			k.KeepRevert(t.Context(), &earlier), k.fetch(t.Context()))
		if got, _ := os.ReadFile(k.file); err != nil || string(got) != string(text(6)) {
			t.Errorf("csig off was later: the file is %q (%v)", got, err)
		}
		if to, err := k.lease.Revert(t.Context()); err != nil || len(to) > 0 {
			t.Errorf("csig off was later, and %q is pending still (%v)", to, err)
		}
		for lm, want := range map[int]string{5: string(text(5)), 7: ""} {
			if got, err := k.Earlier(t.Context(), hash(lm)); err != nil || got != want {
				t.Errorf("the configuration with lm %d: %q, %v", lm, got, err)
			}
		}
	})
}
