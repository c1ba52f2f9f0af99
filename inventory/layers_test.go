package inventory

import (
	"strings"
	"testing"
)

// TestLayersShareNoChange: devices share what their layers say, so that putting it
// together for one, or hiding arguments in a copy, changes no other.
func TestLayersShareNoChange(t *testing.T) {
	f := parse(t, strings.NewReplacer(
		"devices:\n", `defaults: {management: {ovs: {bridge: br0}}}
groups:
  g: {management: {redis: {password: {command: [pass, show, redis]}}, ssh: {user: u, password: {command: [pass, show, ssh]}}}}
devices:
`,
		"    platform: linux\n    local: true\n", "    platform: linux\n    local: true\n    address: 192.0.2.1\n    groups: g\n",
		"  - name: s2\n    platform: linux\n", "  - name: s2\n    platform: linux\n    address: 192.0.2.2\n    management: {redis: {password: {env: OWN}}}\n    groups: g\n").Replace(good))
	text := func(f *Fleet) string {
		out, err := Show(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before := text(f)
	for _, want := range []string{"command: [pass, show, redis]", "env: OWN"} {
		if strings.Count(before, want) != 1 {
			t.Errorf("not once %q in\n%s", want, before)
		}
	}
	if got := strings.Count(before, "bridge: br0"); got != 2 {
		t.Errorf("the defaults' bridge is there %d times", got)
	}
	if shown := text(f.WithoutArguments()); strings.Contains(shown, "show") || strings.Count(shown, hiddenArguments) != 3 {
		t.Errorf("arguments are shown:\n%s", shown)
	}
	if after := text(f); after != before {
		t.Errorf("the fleet itself has changed:\n%s", after)
	}
}
