package inventory

import (
	"fmt"
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

// TestSpeedOverride: a layer says either a speed or one that overrides the device's, and is
// written, shown and hashed as it is.
func TestSpeedOverride(t *testing.T) {
	text := `format: csig.fleet/v1
profile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}
defaults: {platform: linux, port: {speed: {override: 25Gbit/s}}}
devices:
  - {name: a, ports: [{name: p1}, {name: p2, speed: 10G}, {name: p3, speed: {override: 2.5G}}]}
`
	f := parse(t, text)
	want := []Port{{Speed: 25e9, SpeedOverride: true}, {Speed: 10e9}, {Speed: 2.5e9, SpeedOverride: true}}
	for i, p := range f.Devices[0].Ports {
		if p.Speed != want[i].Speed || p.SpeedOverride != want[i].SpeedOverride {
			t.Errorf("%s: %d, override %v; want %+v", p.Name, p.Speed, p.SpeedOverride, want[i])
		}
	}
	roundTrip(t, f)
	out, err := Marshal(f)
	if err != nil || !strings.Contains(string(out), "speed: {override: 25G}") || !strings.Contains(string(out), "speed: 10G") || !strings.Contains(string(out), "speed: {override: 2.5G}") {
		t.Errorf("%v\n%s", err, out)
	}
	if same := parse(t, strings.Replace(text, "{override: 25Gbit/s}", "25G", 1)); same.Hash() == f.Hash() {
		t.Error("the hash is the same without the override")
	}
	if o := f.PortOrigins(PortRef{"a", "p3"})["speed"]; o.Line != 5 || o.Layer == "" {
		t.Errorf("its origin is %+v", o)
	}
}

// TestLayersOfOneGroup: what one device says of its ports concerns no other of its
// group, and a range of one namespace is that one.
func TestLayersOfOneGroup(t *testing.T) {
	f := parse(t, `format: csig.fleet/v1
profile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}
defaults: {platform: linux}
groups:
  g: {ports: [{name: p1, speed: 25G}]}
devices:
  - {name: a, groups: g, management: {netns: "/run/netns/a[7]"}}
  - {name: b, groups: g, port: {action: passthrough, mtu: 9000}}
  - {name: c, groups: g, port: {speed: 10G}}
`)
	for name, want := range map[string]string{"a": "25G update 0 /run/netns/a7", "b": "25G passthrough 9000 ", "c": "10G update 0 "} {
		d, _ := f.Device(name)
		p, ok := d.Port("p1")
		if got := fmt.Sprint(FormatSpeed(p.Speed), " ", p.Action, " ", p.MTU, " ", d.Management.NetNS); !ok || got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
