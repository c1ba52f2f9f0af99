package sonicdb

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// TestScan: all keys of many pages, each once, sorted, and none that is no line.
func TestScan(t *testing.T) {
	r := sonictest.StartRedis(t)
	c := New(Options{Dial: sonictest.Dial, File: r.File, ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})
	defer c.Close()
	set := []string{Appl, "MSET", "a:line\n", "x", "other", "x"}
	for i := range 12_000 {
		set = append(set, fmt.Sprintf("a:%05d", i), "x")
	}
	if _, err := c.Do(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	keys, err := c.Scan(t.Context(), Appl, "a:")
	if err != nil || len(keys) != 12_000 || !slices.IsSorted(keys) || keys[0] != "a:00000" {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}
