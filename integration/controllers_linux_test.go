package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// controllersText is a switch that csig alone drives: its generations fence.
var controllersText = strings.Replace(openflowText, "plaintext: true,", "plaintext: true, role: master,", 1)

// controllers are three machines with a controller of one switch and its NATS server each, and
// a cable between any two. Each reaches the switch by a way of its own.
type controllers struct {
	*hardware
	term  time.Duration
	ops   []*operator
	where []*agent // the controllers, at the switch's socket

	program string // csig-controller

	bound  time.Duration // how old what a frame leaves with may be; 0: it is not looked at
	frames int           // that were looked at
}

func newControllers(t *testing.T, term time.Duration, text string) *controllers {
	t.Helper()
	sw := oftest.StartSwitch(t, 3)
	sw.Flow("add-flow", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=write_metadata:2/0xfff,goto_table:10")
	c := &controllers{term: term, where: make([]*agent, 3), program: csigController}
	f := newFabric(t)
	for i := range 3 {
		host, err := f.AddHost(fmt.Sprintf("c%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		_, port := proxyIn(t, host, oftest.Options{Bridge: sw.Path(), Port: 6653})
		c.ops = append(c.ops, newOperator(t, host, strings.ReplaceAll(text, "PORT", port)))
		for j := range i {
			if _, _, err := f.Connect(fabric.End{Node: c.ops[j].host, Port: cable(j, i)}, fabric.End{Node: host, Port: cable(i, j)}, 1500); err != nil {
				t.Fatal(err)
			}
			for _, end := range [][2]int{{i, j}, {j, i}} {
				at, port := c.ops[end[0]].host, cable(end[0], end[1])
				exits(t, 0, at.Command("ip", "link", "set", "dev", port, "arp", "on"))
				exits(t, 0, at.Command("ip", "address", "add", address(end[0], end[1])+"/24", "dev", port))
			}
		}
	}
	if err := f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.hardware = &hardware{operator: c.ops[0], sw: sw}
	c.traffic()
	return c
}

// cable is the port of i to j, address what it has there.
func cable(i, j int) string   { return fmt.Sprintf("c%dc%d", i+1, j+1) }
func address(i, j int) string { return fmt.Sprintf("10.%d.%d.%d", min(i, j)+1, max(i, j)+1, i+1) }

// start starts one, again with what it had.
func (c *controllers) start(i int) *agent {
	c.t.Helper()
	o := c.ops[i]
	args := []string{"-i", o.fleet, "--state", filepath.Join(o.dir, "state"), "--name", fmt.Sprintf("c%d", i+1), "--term", c.term.String(), "--insecure-cluster", "--cluster", "0.0.0.0:6222"}
	for _, j := range others(i) {
		args = append(args, "--peer", fmt.Sprintf("c%d=%s:6222", j+1, address(j, i)))
	}
	cmd := o.host.Command(c.program, args...)
	cmd.Env = append(os.Environ(), "CSIG_TEST_CLOCK="+c.clock(i))
	c.where[i] = launchIn(c.t, cmd, filepath.Join(o.dir, "hw1.sock"))
	return c.where[i]
}

// owner waits until one of them owns the switch: until it does not say that another does.
func (c *controllers) owner(among ...int) int {
	c.t.Helper()
	for end := time.Now().Add(patience + 4*c.term); time.Now().Before(end); {
		for _, i := range among {
			s, err := c.where[i].client.Status(c.t.Context())
			if err == nil && !standsBy(s) {
				return i
			}
		}
		select {
		case <-c.t.Context().Done():
		case <-time.After(20 * time.Millisecond): // between looks
		}
	}
	c.t.Fatalf("none of the controllers %v owns the switch", among)
	return 0
}

// standsBy reports whether a controller waits for another one to be gone.
func standsBy(s *api.Status) bool { return strings.Contains(s.Waiting, "this one takes over") }

// goesOn waits until one of them has driven the switch for 20 cycles with nothing to repair, and says which. It need
// not be the one that drives it now: NATS may elect a leader when a server comes back, which can take longer than the term.
func (c *controllers) goesOn() int {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		i := c.owner(0, 1, 2)
		was := c.where[i].await("that its port is live", func(s *api.Status) bool { return standsBy(s) || live(s) })
		now := c.where[i].await("that it goes on", func(s *api.Status) bool { return standsBy(s) || s.Cycle.Count > was.Cycle.Count+20 })
		if standsBy(was) || standsBy(now) || now.Started != was.Started {
			continue // another took over
		}
		if now.Cycle.Repairs != was.Cycle.Repairs || now.Cycle.Failed != was.Cycle.Failed {
			c.t.Errorf("beside one that continues: %d repairs and %d failures", now.Cycle.Repairs-was.Cycle.Repairs, now.Cycle.Failed-was.Cycle.Failed)
		}
		return i
	}
	c.t.Fatal("none of the controllers goes on")
	return 0
}

func others(i int) []int { return []int{(i + 1) % 3, (i + 2) % 3} }

// TestLongControllers has three controllers share a switch: the owner is killed, and then the next
// one stopped; another takes over each time with the configuration that was applied, and what
// continues after its term harms nothing. What csig off removed stays removed.
func TestLongControllers(t *testing.T) {
	t.Parallel()
	c := newControllers(t, 2*time.Second, controllersText)
	for i := range c.ops {
		c.start(i)
	}

	first := c.owner(0, 1, 2)
	up := filepath.Join(c.dir, "up.plan")
	elsewhere := c.ops[others(first)[0]] // what is asked there goes to the owner
	elsewhere.run(2, "plan", "-i", elsewhere.fleet, "-o", up)
	elsewhere.run(0, "apply", up, "--soak", "50ms")
	c.where[first].await("that its port is live", live)
	c.until("a controller owns it", 2, ofAgent)
	standby := c.where[others(first)[0]]
	s := standby.await("the owner's status by way of another", func(s *api.Status) bool {
		return s.Elsewhere != nil && len(s.Elsewhere.Ports) == 2 && s.Elsewhere.Ports[0].State == api.StateLive
	})
	if own := fmt.Sprintf(`controller "c%d" drives hw1`, first+1); !strings.Contains(s.Waiting, own) || s.Elsewhere.Device != "hw1" {
		t.Errorf("another controller's status: %+v", s)
	}
	c.ops[first].severalOperators()
	c.until("a change was undone", 2, ofAgent)

	// Killed: its lease ends, and another goes on with the same configuration.
	killed := time.Now()
	_ = c.where[first].signal(syscall.SIGKILL)
	c.until("its owner was killed", 2, fallsBack)
	second := c.owner(others(first)...)
	c.where[second].await("that its port is live", live)
	c.until("the next owner", 2, ofAgent)
	t.Logf("taken over %v after the kill", time.Since(killed).Round(10*time.Millisecond))
	c.start(first)

	// Stopped: as if killed. When it continues it may not write, and knows so before it does.
	stopped := c.where[second].cmd.Process
	if err := stopped.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	third := c.owner(others(second)...)
	c.where[third].await("that its port is live", live)
	continued := time.Now()
	if err := stopped.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.where[second].await("that it drives the switch no longer", func(s *api.Status) bool { return s.Started.After(continued) })
	third = c.goesOn()

	// What csig off removed the next owner does not bring back.
	elsewhere = c.ops[others(third)[0]]
	elsewhere.run(0, "off", "-i", elsewhere.fleet)
	c.until("csig off", 2, isBest)
	_ = c.where[third].signal(syscall.SIGTERM)
	last := c.owner(others(third)...)
	c.where[last].await("that it waits for csig apply", func(s *api.Status) bool { return strings.Contains(s.Waiting, "csig apply gives it one") })
	c.until("another owns it after csig off", 2, isBest)
	if left, err := os.ReadFile(filepath.Join(c.ops[last].dir, "state", "hw1.yaml")); err == nil {
		t.Errorf("a configuration is left behind:\n%s", left)
	}

	// With its owner and NATS dead csig off goes past the controller that is left.
	again := filepath.Join(c.dir, "again.plan")
	c.ops[last].run(2, "plan", "-i", c.ops[last].fleet, "-o", again)
	c.ops[last].run(0, "apply", again, "--soak", "50ms")
	c.until("it is set up again", 2, ofAgent)
	_ = c.where[last].signal(syscall.SIGKILL)
	left := 3 - third - last
	if out := c.ops[left].run(0, "off", "-i", c.ops[left].fleet); !strings.Contains(out, "its owner among the controllers does not answer") {
		t.Errorf("csig off past a controller that waits:\n%s", out)
	}
	c.until("csig off without NATS", 2, isBest)

	// Controllers that come back, and NATS with them, do not undo it: by the off-marker on the
	// machine of csig off, and elsewhere as the device has nothing of csig.
	c.start(third)
	c.start(last)
	back := c.owner(0, 1, 2)
	c.where[back].await("that it waits for csig apply", func(s *api.Status) bool { return strings.Contains(s.Waiting, "csig apply") })
	c.until("controllers came back after csig off", 2, isBest)
}
