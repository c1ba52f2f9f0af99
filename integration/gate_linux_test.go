package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/fabric"
)

// filter drops frames of a switch that match, on their way out of a port.
func (r *row) filter(nth int, port, match string) {
	r.t.Helper()
	cmd := r.switches[nth].Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader("add table netdev other\n" +
		"add chain netdev other c { type filter hook egress device \"" + port + "\" priority 10; }\n" +
		"add rule netdev other c " + match + " drop\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
}

// The gate sends full-size frames with their tags over the links of each wave. A canary that loses frames
// stops the plan there; the rollback leaves nothing.
func TestLongGateProbesLinks(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	out := r.want(0, "apply", r.path("plan"), "--soak", "0s")
	for _, want := range []string{
		"fence/rest  gate open: read back as planned, no new losses\n", // s2 waits for its configuration
		"ready/rest  gate open: read back as planned, no new losses, full-size tagged frames cross 2 links both ways\n",
		"open/canary  gate open: read back as planned, no new losses, full-size tagged frames cross 1 link both ways\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	r.want(0, "rollback", r.path("plan.journal"))
	r.wantRules(before, "after the rollback")

	out, code := r.csig("apply", r.path("plan"), "--soak", "20ms", "--journal", r.path("bad"), "--check", `sh,-c,case $CSIG_WAVE in ready/canary) echo frames are lost; exit 1;; esac`)
	if code != 1 || !strings.Contains(out, "gate CLOSED") || !strings.Contains(out, "frames are lost") || !strings.Contains(out, "csig rollback") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	r.want(0, "rollback", r.path("bad"))
	r.wantRules(before, "after the rollback of a bad canary")
}

// Daemons send the gate's frames as well as csig itself does, over whatever
// connection they are reached, once they have a configuration.
func TestLongGateProbesThroughDaemons(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byDaemonTLS, byDaemonSSH, byDaemon)
	r.daemons()
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"), "--waves", "100%")
	out := r.want(0, "apply", r.path("plan"), "--soak", "0s")
	for _, want := range []string{
		"ready/100%  gate open: read back as planned, no new losses, full-size tagged frames cross 2 links both ways\n",
		"open/100%  gate open: read back as planned, no new losses, full-size tagged frames cross 2 links both ways\n",
	} {
		if !strings.Contains(out, want) || strings.Contains(out, "not probed") {
			t.Errorf("the output lacks %q, or another part:\n%s", want, out)
		}
	}
	r.want(0, "rollback", r.path("plan.journal"))
	r.wantRules(before, "after the rollback")
}

// What does not get through closes the gate, unless it did not before either.
func TestLongGateNamesTheLink(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byRow, byDaemon, byDaemonSSH)
	r.daemons()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	for _, c := range []struct{ name, match, want string }{
		{"short frames only", "meta length > 1400", "link s2:east to s3:west: a frame of 1618 bytes with its tag 99000ffe does not get through, a short one with a tag does: raise the MTU"},
		{"no such tag", "meta protocol 0x9900", "link s2:east to s3:west: a frame of 1618 bytes with its tag 99000ffe does not get through, nor does a short one, while one without a tag does"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.filter(1, "east", c.match)
			out, code := r.csig("apply", r.path("plan"), "--soak", "0s", "--journal", r.path(c.name))
			if code != 1 || !strings.Contains(out, "gate CLOSED") || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want 1 and %q\n%s", code, c.want, out)
			}
			r.want(0, "rollback", r.path(c.name))
			if out, err := r.switches[1].Command("nft", "delete table netdev other").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		})
	}

	// A link that was dead before does not fail the gate, and is reported once.
	r.filter(1, "east", "meta length > 0")
	out := r.want(0, "apply", r.path("plan"), "--soak", "0s", "--journal", r.path("dead"))
	if want := "no frame of any kind gets from s2:east to s3:west, and none did before the wave"; strings.Count(out, want) != 1 {
		t.Errorf("the output does not have exactly once %q:\n%s", want, out)
	}
}

// withHosts adds to the fleet file how to reach the two hosts.
func (r *row) withHosts() {
	r.t.Helper()
	text := readFile(r.t, r.fleet)
	for _, h := range []*fabric.Port{r.h1, r.h2} {
		name := h.Node().Name()
		text = bytes.Replace(text, []byte("{name: "+name+", csig: true}"),
			fmt.Appendf(nil, "{name: %s, csig: true, interface: eth0, management: {netns: /proc/%d/fd/%d}}", name, os.Getpid(), h.Node().FD()), 1)
	}
	writeFile(r.t, r.fleet, text)
}

// Probes from host to host find their tags gone while the path is half rolled
// out, and there when it is open.
func TestLongProbeThroughTheNewHops(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	if out := r.want(1, "apply", r.path("plan"), "--probe", "h1:h2"); !strings.Contains(out, "csig cannot get at host h1: give it an interface") {
		t.Errorf("a host that cannot be reached:\n%s", out)
	}
	r.withHosts()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	out := r.want(0, "apply", r.path("plan"), "--soak", "0s", "--probe", "h1:h2", "--probe", "h2:h1")
	if n := strings.Count(out, "probe h1:h2: frames unaltered, no tag arrives\n"); n != 4 { // from the fence of s3 to its opening
		t.Errorf("the tag was gone %d times:\n%s", n, out)
	}
	for _, want := range []string{
		"probe h1:h2: frames unaltered, abw as it was sent, abwc as it was sent\n",
		"probe h1:h2: frames unaltered, abw S=", // 0 where no agent has written yet
	} {
		if n := strings.Count(out, want); n != 1 {
			t.Errorf("the output has %d times %q:\n%s", n, want, out)
		}
	}
	r.want(0, "rollback", r.path("plan.journal"))

	// Hosts that send more than fits wait for the ports: until then no probe is
	// longer than what the ports take.
	for _, h := range []*fabric.Port{r.h1, r.h2} {
		err := h.Node().Do(func() error {
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(l, 1700)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.edit("csig: true,", "csig: true, mtu: 1700,")
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("longer"))
	if out := r.want(0, "apply", r.path("longer"), "--soak", "0s", "--probe", "h1:h2"); !strings.Contains(out, "mtu/") {
		t.Errorf("no MTU was raised:\n%s", out)
	}
	r.want(0, "rollback", r.path("longer.journal"))
}

// A tag that reaches a receiver behind the fence closes the gate, and so do one
// that is lost and one that no switch of the path can have written.
func TestLongProbeClosesTheGate(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	r.withHosts()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	for _, c := range []struct{ name, rule, want string }{
		{"lost", "meta protocol 0x9900 drop", "probe h1:h2: a frame of 1614 bytes with the tag of abw does not arrive, one without does"},
		{"ordinary frames", "meta protocol 0x88b5 drop", "a frame of 1614 bytes without a tag does not arrive, before this wave"},
		{"a foreign locator", "meta protocol 0x9900 @ll,112,16 set 0x0155", "arrives with S=2 and locator 85, which no port on a path from h1 to h2 has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := r.h1.Node().Command("nft", "-f", "-")
			cmd.Stdin = strings.NewReader("add table netdev other\nadd chain netdev other c { type filter hook egress device \"eth0\" priority 10; }\nadd rule netdev other c " + c.rule + "\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, code := r.csig("apply", r.path("plan"), "--soak", "0s", "--probe", "h1:h2", "--journal", r.path(c.name))
			if code != 1 || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want 1 and %q\n%s", code, c.want, out)
			}
			if out, err := r.h1.Node().Command("nft", "delete table netdev other").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if c.name != "ordinary frames" { // those are refused before anything has begun
				r.want(0, "rollback", r.path(c.name))
			} else if _, err := os.Stat(r.path(c.name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the journal is left: %v", err)
			}
		})
	}
}
