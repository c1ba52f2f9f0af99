package inventory

import "testing"

// TestTakeBack: a device takes back what its group or the defaults allow, and is then as one
// that was never allowed it.
func TestTakeBack(t *testing.T) {
	text := func(defaults, group, device string) []byte {
		return []byte(`
format: csig.fleet/v1
profile: {name: p, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-1G}}}
defaults: {platform: comware` + defaults + `}
groups: {g: {tags: [t]` + group + `}}
devices:
  - {name: s1, groups: g, address: 192.0.2.1, management: {ssh: {user: u, agent: true}}` + device + `, ports: [{name: p1, speed: 1G, lm: 5}]}
`)
	}
	const both = ", updates: cli, lease: none"
	for name, tc := range map[string]struct {
		defaults, group, device string
		updates                 Updates
		lease                   Lease
	}{
		"nothing":                  {"", "", "", "", ""},
		"a group allows":           {"", both, "", UpdatesCLI, LeaseNone},
		"the device takes back":    {"", both, ", updates: never, lease: required", "", ""},
		"the group takes back":     {both, ", updates: never", "", "", LeaseNone},
		"the device allows again":  {both, ", updates: never, lease: required", both, UpdatesCLI, LeaseNone},
		"there is nothing to take": {"", "", ", updates: never, lease: required", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("fleet", text(tc.defaults, tc.group, tc.device))
			if err != nil {
				t.Fatal(err)
			}
			if d := &f.Devices[0]; d.Updates != tc.updates || d.Lease != tc.lease {
				t.Errorf("updates %q, lease %q, want %q and %q", d.Updates, d.Lease, tc.updates, tc.lease)
			}
		})
	}
}
