package api_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/agent/api"
)

// TestKeptWhyOfAFullFile: a file that has just become the older one, also while it is read, has its
// records.
func TestKeptWhyOfAFullFile(t *testing.T) {
	line := func(state string) []byte {
		return []byte(`{"format":"csig.record/v1","port":"p1","record":{"state":"` + state + `"}}` + "\n")
	}
	path := filepath.Join(t.TempDir(), "records")
	older := path + api.OlderRecords
	states := func() (got string) {
		t.Helper()
		w, err := api.KeptWhy(path, "p1")
		if err != nil {
			t.Fatal(err)
		}
		if w.Time.IsZero() {
			t.Error("it is not known when it was asked")
		}
		for _, r := range w.Records {
			got += r.State
		}
		return got
	}
	if _, err := api.KeptWhy(path, "p1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(older, line("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := states(); got != "a" {
		t.Errorf("the older one alone: %q", got)
	}
	if err := errors.Join(os.Rename(older, path), syscall.Mkfifo(older, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { // the reader waits at the older one meanwhile
		pipe, err := os.OpenFile(older, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(os.Rename(path, older), os.WriteFile(path, line("b"), 0o600), pipe.Close())
		}
		done <- err
	}()
	if got := states(); got != "ab" {
		t.Errorf("a file that becomes full while it is read: %q", got)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
