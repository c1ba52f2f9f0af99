package integration

import (
	"fmt"
	"strings"
	"testing"
)

// A fleet file that is not the plan's neither continues nor undoes it, unless it
// leads to the same devices.
func TestLongRollOutWithAnotherFleetFile(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(3, "apply", r.path("plan"), "--soak", "0s", "--stop-after", "ready/canary")
	half := r.rulesets()
	for _, c := range []struct{ old, with, resume, rollback string }{
		{"tpid: 0x9900", "tpid: 0x9901", "has changed since it was made", "its profile is "},
		{r.reached(1, byRow), "local: true", "has changed since it was made", "device s2 is linux, local, and was linux, daemon "},
	} {
		restore := r.edit(c.old, c.with)
		if out := r.want(1, "apply", "--resume", r.path("plan.journal"), "--soak", "0s"); !strings.Contains(out, c.resume) {
			t.Errorf("resume with %s:\n%s", c.with, out)
		}
		if out := r.want(1, "rollback", r.path("plan.journal")); !strings.Contains(out, c.rollback) || !strings.Contains(out, "--fleet-changed") {
			t.Errorf("rollback with %s:\n%s", c.with, out)
		}
		r.wantRules(half, "after what was refused")
		restore()
	}
	r.edit("tpid: 0x9900", "tpid: 0x9901")
	r.want(0, "rollback", r.path("plan.journal"), "--fleet-changed")
	r.wantRules(before, "after the rollback")
	if out := r.want(0, "rollback", r.path("plan.journal")); !strings.Contains(out, "nothing to do: already rolled back") || strings.Contains(out, "goes on once") {
		t.Errorf("undone twice:\n%s", out)
	}
}

// Mistakes in the fleet file keep csig off from no device that they do not
// concern.
func TestLongOffInSpiteOfMistakes(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newRow(t, 3)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	r.want(0, "apply", r.path("plan"), "--soak", "0s")
	restore := r.edit(r.reached(1, byRow), "management: {netns: [s2]}")
	out := r.want(1, "off", "-i", r.fleet)
	if !strings.Contains(out, "not off: s2: repair") || !strings.Contains(out, "remove  s1 done") || !strings.Contains(out, "remove  s3 done") {
		t.Errorf("with a way in that is none:\n%s", out)
	}
	if out := r.want(1, "off", "-i", r.fleet, "--device", "s2"); !strings.Contains(out, "--device s2: repair its name, its platform and its management first") {
		t.Errorf("that device alone:\n%s", out)
	}
	restore()
	for i, mistakes := range [][][2]string{
		{{"speed: 50M", "speed: 50M, mtu: x"}, {"tpid: 0x9900", "tpid: never"}, {"h1 - s1:west", "s7:east - s1:west"}},
		{{"profile:", "profil:"}},
	} {
		if i > 0 {
			r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
			r.want(0, "apply", r.path("plan"), "--soak", "0s", "--journal", r.path("journal"))
		}
		restore := r.edit(mistakes[0][0], mistakes[0][1])
		for _, m := range mistakes[1:] {
			r.edit(m[0], m[1])
		}
		if out := r.want(0, "off", "-i", r.fleet); !strings.Contains(out, "the fleet file has mistakes") {
			t.Errorf("with %s:\n%s", mistakes, out)
		}
		r.wantRules(before, fmt.Sprint("after csig off with ", mistakes))
		restore()
	}
}
