package sonic

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRowsFarBehind: where the thread that writes rows is behind for longer than
// csig waits for it, the answers are what csig goes by: a row that is missing is no
// entry that is gone, and one that is still there none that has come back.
func TestRowsFarBehind(t *testing.T) {
	t.Parallel()
	for _, release := range []sonictest.Release{sonictest.R202405, sonictest.R202511} {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		var thread sync.RWMutex
		l.sw.Late = func(string) { thread.RLock(); thread.RUnlock() } //nolint:staticcheck // it waits
		held := false
		t.Cleanup(func() {
			if held { // or the switch does not stop
				thread.Unlock()
			}
		})
		l.settle = 20 * time.Millisecond
		l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		rnd := rand.New(rand.NewPCG(4, uint64(release)))
		one := func(port string) vendors.PortUpdate {
			return vendors.PortUpdate{Port: port, Intents: intents(uint16(1+rnd.IntN(9)), uint8(rnd.IntN(32)), uint8(rnd.IntN(32)), uint8(rnd.IntN(32)))}
		}
		random := func() { l.update(one("Ethernet0"), one("Ethernet4")) }
		for range sized(t, 2, 6) {
			l.sw.Settle()
			random()
			thread.Lock()
			held = true
			random()
			l.elapse(recheck)
			random()
			random()
			l.elapse(recheck)
			random()
			thread.Unlock()
			held = false
		}
		l.sw.Settle()
		l.elapse(recheck)
		random()
		l.clean()
		l.elapse(recheck)
		if res := l.update(one("Ethernet0")); res.Repaired != nil {
			t.Errorf("the rows have come, and it repaired %q", res.Repaired)
		}
		l.didAll()
		for _, p := range l.ports {
			var have vlanrules.Table
			have = append(have, p.have...)
			if _, n := l.sw.Entries(p.name); n != len(have) {
				t.Errorf("%s: %d entries, and csig knows of %d", p.name, n, len(have))
			}
		}
	}
}
