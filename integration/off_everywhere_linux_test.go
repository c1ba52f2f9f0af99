package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// TestLongOffEverywhere: csig off on one machine and then on another while all controllers are dead, and one apply
// when they are back, from another machine. Then owners are killed until the machine of csig off has driven
// the switch: its marker stops no owner, neither this one nor, in its turn, another.
func TestLongOffEverywhere(t *testing.T) {
	t.Parallel()
	c := newControllers(t, 2*time.Second, controllersText)
	startAll := func() {
		for i := range c.ops {
			c.start(i)
		}
	}
	up := func(n, at int) {
		plan := filepath.Join(c.dir, fmt.Sprintf("up%d.plan", n))
		c.ops[at].run(2, "plan", "-i", c.ops[at].fleet, "-o", plan)
		c.ops[at].run(0, "apply", plan, "--soak", "50ms")
	}
	startAll()
	c.owner(0, 1, 2)
	up(0, 0)
	for m := range 2 {
		for i := range c.where {
			_ = c.where[i].signal(syscall.SIGKILL)
		}
		c.ops[m].run(0, "off", "-i", c.ops[m].fleet)
		c.until("csig off with every controller dead", 2, isBest)
		startAll()
		waiting := c.owner(0, 1, 2)
		c.where[waiting].await("that it waits for csig apply", func(s *api.Status) bool { return strings.Contains(s.Waiting, "csig apply") })
		c.until("controllers came back after csig off", 2, isBest)
		up(1+m, others(m)[m%2])
		for kills := 0; ; kills++ {
			owner := c.owner(0, 1, 2)
			c.where[owner].await(fmt.Sprintf("off on c%d, then apply: that c%d drives the switch", m+1, owner+1), live)
			c.until("a controller owns it", 2, ofAgent)
			if owner == m {
				t.Logf("off on c%d: it has driven the switch after %d kills", m+1, kills)
				break
			}
			if kills > 20 { // the next one is any of two
				t.Fatalf("off on c%d: after %d kills it has not driven the switch", m+1, kills)
			}
			_ = c.where[owner].signal(syscall.SIGKILL)
			c.owner(others(owner)...)
			c.start(owner)
		}
	}
}
