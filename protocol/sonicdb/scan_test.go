package sonicdb

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
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

// TestPage reads answers to SCAN of databases that are none, too.
func TestPage(t *testing.T) {
	digits := func(n int) string { return strings.Repeat("9", n) }
	keys := []any{[]byte("a:1"), []byte("a:2")}
	for _, tc := range []struct {
		name   string
		answer any
		next   string
	}{
		{"the last page", []any{[]byte("0"), keys}, "0"},
		{"a cursor of 64 bits", []any{[]byte(digits(20)), keys}, digits(20)},
		{"a longer one", []any{[]byte(digits(21)), keys}, ""},
		{"none", []any{[]byte(""), keys}, ""},
		{"no keys", []any{[]byte("0")}, ""},
		{"more than keys", []any{[]byte("0"), keys, keys}, ""},
		{"keys that are none", []any{[]byte("0"), []byte("a:1")}, ""},
		{"a cursor that is a list", []any{keys, keys}, ""},
		{"no list", []byte("0"), ""},
	} {
		next, got, err := page(tc.answer)
		if next != tc.next || (err == nil) != (tc.next != "") || err == nil && !slices.Equal(got, []string{"a:1", "a:2"}) {
			t.Errorf("%s: %q, %q, %v", tc.name, next, got, err)
		}
	}
}
