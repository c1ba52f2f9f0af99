package inventory

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDefaultsAreRead writes fleet files that leave out what they may, at random: a file that is
// accepted is written with all that was filled in, and read again as the same fleet. So is each
// device's own part, which its agent starts from.
func TestDefaultsAreRead(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		f, err := Parse("fleet.yaml", []byte(text))
		if err != nil {
			return // with places and next steps: FuzzParse
		}
		accepted++
		roundTrip(t, f)
		for i := range f.Devices {
			view := f.DeviceView(&f.Devices[i])
			text, err := Marshal(view)
			if err != nil {
				t.Fatalf("%s: %v", f.Devices[i].Name, err)
			}
			if again, err := Parse(f.Path, text); err != nil || again.Hash() != view.Hash() {
				t.Fatalf("%s: read again: %v\n%s", f.Devices[i].Name, err, text)
			}
		}
	})
	if accepted == 0 { // of a hundred about ten are
		t.Error("no file was accepted: this test checks nothing")
	}
}

// TestMinimalFilesAreRead has the least that a fleet file may say, with every kind of interval.
func TestMinimalFilesAreRead(t *testing.T) {
	const minimal = `format: csig.fleet/v1
profile: {name: lab, tpid: 0x9900, interval: %s, signals: {abw: {buckets: log-10G}}}
devices:
  - {name: s1, platform: %s, local: true, ports: [{name: swp1}]}
`
	for _, platform := range []string{"linux", "linux-ebpf"} {
		for _, interval := range []string{"100us", "999us", "1ms", "1500us", "1s", "24h"} {
			t.Run(platform+" "+interval, func(t *testing.T) {
				text := fmt.Sprintf(minimal, interval, platform)
				f, err := Parse("fleet.yaml", []byte(text))
				if short := strings.HasPrefix(interval, "999us") || interval == "100us"; short && platform == "linux" {
					if err == nil || !strings.Contains(err.Error(), "fleet.yaml:2:46") || !strings.Contains(err.Error(), "hint: ") {
						t.Errorf("got %v, want the place of the interval and what to do", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				roundTrip(t, f)
			})
		}
	}
}

// drawText is a fleet file with any of its optional keys.
func drawText(t *rapid.T) string {
	var b strings.Builder
	maybe := func(indent, key string, values ...string) {
		if rapid.IntRange(0, 7).Draw(t, "has "+key) == 7 { // most files say little
			fmt.Fprintf(&b, "%s%s: %s\n", indent, key, rapid.SampledFrom(values).Draw(t, key))
		}
	}
	intervals := []string{"100us", "250us", "999us", "1ms", "1.5ms", "100ms", "1s", "1m", "24h"}
	schedules := []string{`"@every 1ms"`, `"@every 1s"`, `"* * * * *"`, `"@daily"`}
	b.WriteString("format: csig.fleet/v1\nprofile:\n  name: lab\n")
	fmt.Fprintf(&b, "  tpid: %s\n", rapid.SampledFrom([]string{"0x9900", "0x9900", "0x88a8"}).Draw(t, "tpid"))
	wide := rapid.Bool().Draw(t, "wide")
	quantum := ""
	if wide {
		b.WriteString("  wide_tpid: 0x9901\n")
		quantum = ", quantum: 1ppm"
	}
	fmt.Fprintf(&b, "  interval: %s\n", rapid.SampledFrom(intervals).Draw(t, "interval"))
	maybe("  ", "layout", "draft-00", "uec")
	maybe("  ", "retired_tpids", "[0x9abc]", "[0x88a8]")
	maybe("  ", "locator", "[{name: switch, bits: 3}, {name: port, bits: 4}]", "[{name: port, bits: 6}]")
	fmt.Fprintf(&b, "  signals: {abwc: {buckets: log%s}}\n", quantum)
	b.WriteString("policy:\n  on_stale: conservative\n")
	maybe("  ", "schedule", schedules...)
	maybe("  ", "drift_check", `"@every 1m"`, `"@every 1s"`)
	maybe("  ", "estimator", "{method: ewma}", "{method: ewma, time_constant: 1s}", "{method: dre}")
	maybe("  ", "damping", "{hold: 2}", "{margin: 1%}")
	maybe("", "vlan_tpids", "[0x8100]", "[0x88a8]", "[]")
	b.WriteString("devices:\n")
	platform := rapid.SampledFrom([]string{"linux", "linux-ebpf", "linux-ebpf", "sonic"}).Draw(t, "platform") // of most
	for i := range rapid.IntRange(1, 3).Draw(t, "devices") {
		fmt.Fprintf(&b, "  - name: d%d\n", i)
		fmt.Fprintf(&b, "    platform: %s\n", rapid.SampledFrom([]string{platform, platform, platform, "linux"}).Draw(t, "own platform"))
		maybe("    ", "level", "native", "discard", "{support: passthrough, reason: it is old}")
		if i == 0 {
			maybe("    ", "local", "true", "false")
		}
		maybe("    ", "address", fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("fe80::%d%%eth0", i+1))
		maybe("    ", "interval", intervals...)
		maybe("    ", "schedule", schedules...)
		maybe("    ", "lease", "none")
		maybe("    ", "updates", "cli")
		maybe("    ", "estimator", "{method: ewma}", "{method: raw}")
		maybe("    ", "management", "{netns: /run/netns/a}", "{ssh: {user: a}}", "{ovs: {bridge: br0}}", "{ssh: {user: a}, daemon: {socket: /run/a}}")
		maybe("    ", "counters", "{source: linux}", "{source: snmp, snmp: {version: 2c, community: {env: C}}}", "{source: gnmi, gnmi: {plaintext: true}}")
		lm := rapid.SampledFrom([]string{"", "", "", ", lm: {port: 1}", ", lm: {switch: 1}"}).Draw(t, "lm")
		action := rapid.SampledFrom([]string{"", "", ", action: strip", ", action: passthrough"}).Draw(t, "action")
		fmt.Fprintf(&b, "    ports: [{name: \"p[1-2]\"%s%s}]\n", lm, action)
	}
	return b.String()
}
