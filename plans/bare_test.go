package plans

import "testing"

// TestBare takes a port's name out of what is said of it, and leaves sentences
// that are about the name.
func TestBare(t *testing.T) {
	for reason, want := range map[string]string{
		"port p9: no counter":               "no counter",
		"reading: port p9: no counter":      "reading: no counter",
		"bridge br0 has no port p9: add it": "bridge br0 has no port p9: add it",
		"needs 9 entries for port p9/abw":   "needs 9 entries for abw",
		"port p99: no counter":              "port p99: no counter",
	} {
		if got := bare(reason, "p9"); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}
