package sonic

import (
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// TestCheck: each thing that can be otherwise than csig left it is noticed by the looks
// of every 10 s, before the ASIC's entries are counted, and put right.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		release sonictest.Release
		harm    func(l *lab)
		looks   int // of so many, one notices
		right   func(l *lab) bool
	}{
		"record gone": {sonictest.R202405, func(l *lab) { l.sw.Redis.Do(6, "DEL", recordKey) }, 1,
			func(l *lab) bool { return len(l.sw.Redis.Hash(6, recordKey)) > 0 }},
		"definition gone": {sonictest.R202405, func(l *lab) { l.sw.Redis.Do(0, "DEL", rows+definedTable) }, 1,
			func(l *lab) bool { return len(l.sw.Redis.Hash(0, rows+definedTable)) > 0 }},
		"entry lost, first port": {sonictest.R202405, lose(0), 2, nil},
		"entry lost, last port":  {sonictest.R202405, lose(1), 2, nil},
		"field added": {sonictest.R202311, func(l *lab) {
			l.sw.Redis.Do(14, "HSET", rows+entryKey("Ethernet4", &l.ports[1].have[0]), "param/other", "0x001")
		}, 1, func(l *lab) bool {
			return len(l.sw.Redis.Hash(14, rows+entryKey("Ethernet4", &l.ports[1].have[0]))) == 2
		}},
		"row of another port": {sonictest.R202405, func(l *lab) {
			words := []any{rows + entryKey("Ethernet8", &l.ports[0].have[0])}
			for _, w := range entryRow(&l.ports[0].have[0]).words() {
				words = append(words, w)
			}
			l.sw.Redis.Do(0, "HSET", words...)
		}, 1, func(l *lab) bool { return len(l.sw.Redis.Keys(0, rows+aclTable+":*Ethernet8*")) == 0 }},
		"state flushed": {sonictest.R202311, func(l *lab) { l.sw.Redis.Do(14, "FLUSHDB") }, 1,
			func(l *lab) bool { return len(l.sw.Redis.Keys(14, rows+aclTable+":*")) > 0 }},
		"TPID changed": {sonictest.R202405, func(l *lab) { l.sw.Redis.Do(4, "HSET", "PORT|Ethernet4", "tpid", "0x9200") }, 1,
			func(l *lab) bool { return l.sw.Redis.Hash(4, "PORT|Ethernet4")["tpid"] == "0x88a8" }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, c.release, "Ethernet0", "Ethernet4")
			l.settle = settleTime / 20
			l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
			us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
			l.update(us...)
			l.sw.Settle()
			l.elapse(recheck)
			l.update(us...) // and it has counted
			l.loose = true
			c.harm(l)
			for range c.looks {
				l.elapse(recheck)
				if _, err := l.Update(t.Context(), us, time.Second); err != nil {
					t.Fatal(err)
				}
			}
			l.sw.Settle()
			l.sw.Kept("") // CONFIG_DB has come through
			l.exact()
			if c.right != nil && !c.right(l) {
				t.Error("it stays")
			}
		})
	}
}

// lose takes the first entry of a port from the ASIC and from orchagent.
func lose(port int) func(l *lab) {
	return func(l *lab) { l.sw.Lose(entryKey(l.ports[port].name, &l.ports[port].have[0])) }
}

// TestTableGrows: a table that is too small for the ports is rebuilt.
func TestTableGrows(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("Ethernet%d", 4*i))
	}
	l := newLab(t, sonictest.R202405, names...)
	for _, n := range []int{1, 20, 2} {
		s := setupOf(quantize.Draft00, names[:n]...)
		l.apply(s)
		l.sw.Settle()
		if d, ok := parseDefinition(l.sw.Redis.Hash(0, rows+definedTable)); !ok || d.size < tableSize(&s) {
			t.Errorf("%d ports: %+v, %v, want %d", n, d, ok, tableSize(&s))
		}
		l.clean()
	}
}
