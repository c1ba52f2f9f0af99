package api

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOffMark(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]string{
		"/run/csig/agent.sock":           "/var/lib/csig/csig-agent.sock.off",
		"/var/run/csig/agent.sock":       "/var/lib/csig/csig-agent.sock.off", // a link to /run
		"/run//other/../csig/agent.sock": "/var/lib/csig/csig-agent.sock.off",
		"/run/user/7/csig/agent.sock":    "/run/user/7/csig/agent.sock.off",
		"/running/agent.sock":            "/running/agent.sock.off",
		"/var/lib/csig/agent.sock":       "/var/lib/csig/agent.sock.off",
		"agent.sock":                     filepath.Join(here, "agent.sock.off"),
	} {
		if got := OffMarker(socket); got != want {
			t.Errorf("%s: %s, want %s", socket, got, want)
		}
	}
}

// TestMarkOfOff: what csig left, or a user made empty, is removed; all else stays,
// and the error reports that.
func TestMarkOfOff(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		removed bool
	}{
		"csig's":        {OffMarkerText(time.Unix(1e9, 0)), true},
		"an empty one":  {"", true},
		"a user's":      {"keep out\n", false},
		"one like ours": {"csig off took", false},
	} {
		path := filepath.Join(t.TempDir(), "new", "mark")
		if err := RemoveOffMarker(path); err != nil {
			t.Errorf("%s: not there: %v", name, err)
		}
		if err := WriteOffMarker(path, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "csig off took this device off at 2001-09-09T01:46:40Z\n" {
			t.Errorf("%s: left %q, %v", name, text, err)
		}
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := WriteOffMarker(path, time.Unix(2e9, 0)); err != nil {
			t.Errorf("%s: left once more: %v", name, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != tc.text {
			t.Errorf("%s: it is %q, %v", name, text, err)
		}
		err := RemoveOffMarker(path)
		if _, there := os.Lstat(path); (err == nil) != tc.removed || errors.Is(there, fs.ErrNotExist) != tc.removed {
			t.Errorf("%s: %v, and then %v", name, err, there)
		}
	}
	if err := RemoveOffMarker(t.TempDir()); err == nil {
		t.Error("a directory is no mark")
	}
}
