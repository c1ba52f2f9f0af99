package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What somebody does to a switch while csig apply runs stops it before the
// fence is opened over it.
func TestRollOutChangedByHand(t *testing.T) {
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	for _, c := range []struct {
		wave         string
		hand         int
		change, want string
	}{
		{"ready/rest", 1, "flush chain netdev csig p_east", "before stage open: device s2: the plan is stale: somebody changed it while the plan was carried out"},
		{"ready/canary", 0, "flush ruleset", "device s1: the plan is stale"},
	} {
		journal := r.path(fmt.Sprint("journal-", c.hand))
		check := fmt.Sprintf("[ $CSIG_WAVE != %s ] || nsenter --net=/proc/%d/fd/%d nft %s", c.wave, os.Getpid(), r.switches[c.hand].FD(), c.change)
		out, code := r.csig("apply", r.path("plan"), "--soak", "0s", "--check", "sh,-c,"+check, "--journal", journal)
		if code != 1 || !strings.Contains(out, c.want) || strings.Contains(out, "open/") || !strings.Contains(out, "csig rollback") {
			t.Errorf("exit code %d, want %q and nothing opened:\n%s", code, c.want, out)
		}
		r.want(0, "rollback", journal)
		r.wantRules(before, "after the rollback")
	}
}

// A switch that accepts a connection and says nothing is given up after
// --timeout, also before the first step.
func TestRollOutTimeout(t *testing.T) {
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byNetNS, bySSH, byNetNS)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	if out, code := r.csig("apply", r.path("plan"), "--soak", "0s", "--stop-after", "fence"); code != 3 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	// The handshake of TCP passes, not a byte more.
	cut := r.switches[1].Command("nft", "-f", "-")
	cut.Stdin = strings.NewReader("add table ip mute\nadd chain ip mute out { type filter hook output priority 0; }\nadd rule ip mute out ip length > 60 drop\n")
	if text, err := cut.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	began := time.Now()
	out, code := r.csig("apply", "--resume", r.path("plan.journal"), "--soak", "0s", "--timeout", "300ms")
	if code != 1 || !strings.Contains(out, "device s2: ") || !strings.Contains(out, "not done within 300ms") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
