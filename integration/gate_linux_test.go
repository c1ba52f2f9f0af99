package integration

import (
	"strings"
	"testing"
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

// The gate sends full-size frames with their tags over the links of each wave.
func TestGateProbesLinks(t *testing.T) {
	r := newRow(t, 3)
	if !r.mayStrip() {
		return
	}
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	out := r.want(0, "apply", r.path("plan"), "--soak", "0s")
	for _, want := range []string{
		"fence/rest  gate open: read back as planned, no new losses, full-size tagged frames cross 1 link both ways\n",
		"ready/canary  gate open: read back as planned, no new losses, full-size tagged frames cross 1 link both ways\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	r.want(0, "rollback", r.path("plan.journal"))
	r.wantRules(before, "after the rollback")

}

// What does not get through closes the gate, unless it did not before either.
func TestLongGateNamesTheLink(t *testing.T) {
	r := newRow(t, 3)
	if !r.mayStrip() {
		return
	}
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

	// A link that was dead before is nobody's fault, and is told once.
	r.filter(1, "east", "meta length > 0")
	out := r.want(0, "apply", r.path("plan"), "--soak", "0s", "--journal", r.path("dead"))
	if want := "no frame of any kind gets from s2:east to s3:west, and none did before the wave"; strings.Count(out, want) != 1 {
		t.Errorf("it does not say once %q:\n%s", want, out)
	}
}
