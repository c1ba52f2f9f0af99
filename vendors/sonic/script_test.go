package sonic

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// TestScript: what csig prints for people to carry out leaves the databases and
// the ASIC as Apply does.
func TestScript(t *testing.T) {
	t.Parallel()
	ports := []string{"Ethernet0", "Ethernet4"}
	byHand, byCsig := newLab(t, sonictest.R202311, ports...), newLab(t, sonictest.R202311, ports...)
	s := setupOf(quantize.UEC, ports...)
	text, err := Script(vendorsNone, s)
	if err != nil {
		t.Fatal(err)
	}
	byCsig.apply(s)
	byHand.loose, byHand.layout = true, s.Layout
	chosen := ""
	for _, block := range strings.SplitAfter(string(text), "EXEC\n") {
		lines := chosen
		for _, line := range strings.SplitAfter(block, "\n") {
			if strings.HasPrefix(line, "SELECT") {
				chosen = line
			}
			if !strings.HasPrefix(line, "#") {
				lines += line
			}
		}
		cli := exec.Command("redis-cli", "-s", byHand.sw.Redis.Socket)
		cli.Stdin = strings.NewReader(lines)
		if out, err := cli.CombinedOutput(); err != nil || strings.Contains(string(out), "ERR") {
			t.Fatalf("%v\n%s\n%s", err, out, lines)
		}
		sonictest.Await(t, "orchagent does not take it", func() bool { return len(byHand.sw.Redis.Keys(0, "_P4RT*")) == 0 })
	}
	if bad := byHand.sw.Refusals(); len(bad) > 0 {
		t.Fatalf("refused: %v", bad)
	}
	byCsig.sw.Redis.Do(6, "DEL", firstKey) // who writes rows by hand sees what comes of them
	for _, db := range []int{0, 4, 6, 14} {
		a, b := byHand.sw.Redis.Keys(db, "*"), byCsig.sw.Redis.Keys(db, "*")
		if len(a) != len(b) {
			t.Errorf("database %d: %d keys by hand, %d by csig", db, len(a), len(b))
		}
		for _, k := range a {
			if got, want := byHand.sw.Redis.Hash(db, k), byCsig.sw.Redis.Hash(db, k); !reflect.DeepEqual(got, want) {
				t.Errorf("database %d %s: %v by hand, %v by csig", db, k, got, want)
			}
		}
	}
	for _, p := range ports {
		byHand.now[p] = s.Fallback()
	}
	byHand.exact()
	if text, err := Script(s, s); err != nil || len(text) > 0 {
		t.Errorf("nothing to do: %v\n%s", err, text)
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"": `""`, "a": "a", "a b": `"a b"`, `a"b\`: `"a\"b\\"`, "a\nb": `"a\nb"`} {
		if got := quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
