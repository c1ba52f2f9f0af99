package controller

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
)

// TestMarkerOfBefore: an off-marker of this machine ends with a later csig apply through another
// owner, and not with an earlier one.
func TestMarkerOfBefore(t *testing.T) {
	t.Parallel()
	l := logrus.New()
	l.SetOutput(io.Discard)
	log := logrus.NewEntry(l)
	server, err := owner.Serve(t.Context(), owner.ServerConfig{Name: "n1", Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	nc, err := server.Connect("test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	store, err := owner.Open(nc, owner.Config{Name: "c1", Term: 12 * owner.MinTerm, Replicas: 1, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	go store.Watch(t.Context())
	lease, _, err := store.Own(t.Context(), "leaf1")
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.KeepConfig(t.Context(), []byte("applied")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := &keeper{lease: lease, file: filepath.Join(dir, "leaf1.yaml"), marker: filepath.Join(dir, "leaf1.off")}
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
}
