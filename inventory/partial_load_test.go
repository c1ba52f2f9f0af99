package inventory

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const soundFleet = `format: csig.fleet/v1
profile:
  name: x
  tpid: 0x9900
  interval: 1s
  signals: {abw: {buckets: log-10G}}
defaults: {platform: linux, port: {speed: 10G}}
groups:
  far: {management: {ssh: {user: root, key: /k, known_hosts: /n}}}
hosts:
  - {name: h1, csig: true, mtu: 1504}
devices:
  - {name: s1, groups: [far], address: 192.0.2.1}
  - {name: s2, groups: [far], address: 192.0.2.2}
  - {name: s3, management: {netns: /run/netns/s3}}
links:
  - h1 - s1:a
  - s1:b - s2:a
  - s2:b - s3:a
`

// A mistake elsewhere does not hide a device; one in its name, its platform or its
// management does.
func TestLoadPartial(t *testing.T) {
	for name, tc := range map[string]struct {
		old, with string
		sound     string
		left      string
		whole     bool
	}{
		"no mistake":              {"", "", "s1 s2 s3", "", true},
		"an mtu":                  {"mtu: 1504", "mtu: x", "s1 s2 s3", "", true},
		"a speed":                 {"speed: 10G", "speed: fast", "s1 s2 s3", "", true},
		"an interval":             {"interval: 1s", "interval: never", "s1 s2 s3", "", true},
		"buckets":                 {"log-10G", "strange", "s1 s2 s3", "", true},
		"a TPID":                  {"0x9900", "0x0800", "s1 s2 s3", "", true},
		"no profile":              {"profile:\n  name: x\n  tpid: 0x9900\n  interval: 1s\n  signals: {abw: {buckets: log-10G}}\n", "", "s1 s2 s3", "", true},
		"a link":                  {"s1:b - s2:a", "s1:b - s9:a", "s1 s2 s3", "", true},
		"a link with a device":    {"s1:b - s2:a", "s1:b -", "s1 s2 s3", "", true},
		"an unknown key":          {"{name: s3,", "{name: s3, colour: red,", "s1 s2 s3", "", true},
		"level":                   {"{name: s3,", "{name: s3, level: high,", "s1 s2 s3", "", true},
		"a way in":                {"netns: /run/netns/s3", "netns: [s3]", "s1 s2", "s3", true},
		"another way in":          {"netns: /run/netns/s3", "netsn: /run/netns/s3", "s1 s2", "s3", true},
		"two ways in":             {"netns: /run/netns/s3", "netns: /run/netns/s3, ssh: {user: root, key: /k, known_hosts: /n}", "s1 s2", "s3", true},
		"a misspelt way in":       {"management: {netns", "managemen: {netns", "s1 s2", "s3", true},
		"of a group":              {"user: root,", "user: root, port: 70000,", "s3", "s1 s2", true},
		"an unknown group":        {"{name: s2, groups: [far]", "{name: s2, groups: [fra]", "s1 s3", "s2", true},
		"an address":              {"192.0.2.2", "192.0.2.", "s1 s3", "s2", true},
		"addresses":               {"192.0.2.2", "'192.0.2.[2-3]'", "s1 s3", "s2", true},
		"namespaces":              {"netns: /run/netns/s3", "netns: '/run/netns/s[3-4]'", "s1 s2", "s3", true},
		"a platform":              {"{name: s3,", "{name: s3, platform: [linux],", "s1 s2", "s3", true},
		"local":                   {"{name: s3,", "{name: s3, local: perhaps,", "s1 s2", "s3", true},
		"two of a name":           {"name: s2", "name: s1", "s3", "s1", false},
		"a name":                  {"name: s2", "name: '-'", "s1 s3", "", false},
		"a device that is none":   {"  - {name: s2,", "  - s2\n  - {name: s4,", "s1 s4 s3", "", false},
		"a file that is not here": {"devices:", "include: nowhere.yaml\ndevices:", "s1 s2 s3", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "fleet.yaml")
			text := strings.Replace(soundFleet, tc.old, tc.with, 1)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := LoadPartial(path)
			if _, want := Load(path); (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Errorf("it says %v, Load says %v", err, want)
			}
			if (err == nil) != (tc.old == "") {
				t.Errorf("mistakes: %v", err)
			}
			if s.Fleet == nil {
				t.Fatalf("nothing: %v", err)
			}
			if got := strings.Join(s.Usable, " "); got != tc.sound {
				t.Errorf("sound: %s, want %s (%v)", got, tc.sound, err)
			}
			if got := strings.Join(s.Skipped, " "); got != tc.left || s.Complete != tc.whole {
				t.Errorf("left: %q, whole %v, want %q, %v (%v)", got, s.Complete, tc.left, tc.whole, err)
			}
			for _, name := range s.Usable {
				if d, ok := s.Fleet.Device(name); !ok || d.Platform == "" || d.Management.SSH == nil && d.Management.NetNS == "" {
					t.Errorf("%s: %+v", name, d)
				}
			}
		})
	}
	for name, text := range map[string]string{"not YAML": "devices: [", "nothing": ""} {
		path := filepath.Join(t.TempDir(), "fleet.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := LoadPartial(path); err == nil || len(s.Usable) > 0 || slices.Contains(s.Skipped, "") {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if s, err := LoadPartial(filepath.Join(t.TempDir(), "none")); err == nil || s.Fleet != nil {
		t.Errorf("no file: %+v, %v", s, err)
	}
}
