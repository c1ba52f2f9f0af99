package owner

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestServerStartsAgain: a server that gave up JetStream starts again once its disk takes
// writes, and not before; clients of the process connect to it, and find what they kept.
func TestServerStartsAgain(t *testing.T) {
	t.Parallel()
	s := served(t)
	store := opened(t, connected(t, s), "c1", lasting)
	l, _ := own(t, store)
	if err := l.KeepConfig(t.Context(), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(s.options.StoreDir, "room") // a folder: no file of that name can be written
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	before := s.now()
	if err := before.ShutdownJetStream(); err != nil { // what the server does when a write fails
		t.Fatal(err)
	}
	if pause(t.Context(), 3*roomPause); s.now() != before {
		t.Error("the server started again though its disk takes no writes")
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; pause(t.Context(), 50*time.Millisecond) {
		text, err := read(t, store, "leaf1")
		if err == nil && string(text) == "kept" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after the start %q, %v", text, err)
		}
	}
}
