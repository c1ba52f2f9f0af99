package qualify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedReport: what is wrong with a file, and what to do, in words of an operator.
func TestDamagedReport(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), reportJSON)
	for text, want := range map[string]string{
		"":                        "it is empty",
		`{"format": "`:            "it ends too early",
		"[]":                      "it is no report, but a JSON array",
		"{]":                      "it is no JSON from byte 2 on",
		`{"results": 7}`:          "results is a JSON number",
		`{"format": "x"}`:         `its format is "x"`,
		"{} {}":                   "something stands behind its end",
		strings.Repeat("[", 1e5):  "it is no JSON from byte",
		`{"\u001b[2J": 1}`:        "unknown field",
		strings.Repeat(" ", 17e6): "more than 16 MiB",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "begin in another folder") || strings.ContainsAny(err.Error(), "\x1b\n") || strings.Contains(err.Error(), "Go value") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
