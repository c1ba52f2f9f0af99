package openflow

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// agentAt is the variable that makes TestKilled an agent, with a switch's address.
const agentAt = "CSIG_TEST_AGENT_AT"

// agent renews the lease of p2 until it is killed.
func agent(t *testing.T, address string, in []vlanrules.Intent) {
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	d := openFlatAt(t, dial, func(*FlatConfig) {})
	for ; ; <-time.After(50 * time.Millisecond) { // its schedule
		if res, err := d.Update(t.Context(), []vendors.PortUpdate{given("p2", in...)}, time.Second); err == nil && res.Leased && res.Lease == 2*time.Second {
			fmt.Println("leased")
		} // else the machine had no time for it
	}
}

// TestKilled has an agent in a process of its own and a real Open vSwitch as OF-DPA: an agent that is
// killed leaves its last values, and then the stale ones, and no other tag for a moment.
func TestKilled(t *testing.T) {
	in := []vlanrules.Intent{intent(quantize.MinABW, 12, 5), intent(quantize.MaxPD, 9, 6)}
	if address := os.Getenv(agentAt); address != "" {
		agent(t, address, in)
	}
	t.Parallel()
	l := flatLabOf(t, oftest.StartSwitch(t, 3), true, nil)
	s := flatWant(inventory.Conservative, "p2")
	l.apply(t, s)
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.timeout=5m")
	child.Env = append(os.Environ(), agentAt+"="+l.proxy.Addr())
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it was killed before, unless the test failed
		_ = child.Wait()
	})
	lines := bufio.NewScanner(out)
	for range 3 {
		if !lines.Scan() || lines.Text() != "leased" {
			t.Fatalf("the agent: %q", lines.Text())
		}
	}
	if err := child.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.expires(t, in, s.Fallback(), 0)
	// Another comes: groups of before are there, flows are not.
	l.driver = l.open(t, nil)
	l.update(t, time.Minute, given("p2", intent(quantize.MinABW, 20, 8), intent(quantize.MaxPD, 9, 6)))
	l.Settled()
	if got := l.leave(t, 0x0fff); got[0] != 20<<7|8 {
		t.Errorf("%04x", got)
	}
}
