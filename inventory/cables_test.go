package inventory

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Cables name the ports of a device in any order, however many it has: each is
// found, and one that is not there is a mistake.
func TestCablesInAnyOrder(t *testing.T) {
	for _, ports := range []int{1, 16, 128, 129, 300} {
		var text strings.Builder
		fmt.Fprintf(&text, `format: csig.fleet/v1
profile: {name: p, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}
defaults: {platform: linux, port: {speed: 100G}}
devices:
  - {name: s1, ports: [{name: "p[1-%d]"}]}
links: |
`, ports)
		for _, n := range rand.New(rand.NewPCG(uint64(ports), 0)).Perm(ports) {
			fmt.Fprintf(&text, "  s1:p%d - h%d\n", n+1, n+1)
		}
		f, err := Parse("x", []byte(text.String()))
		if err != nil {
			t.Fatalf("%d ports: %v", ports, err)
		}
		for _, p := range f.Devices[0].Ports {
			if p.Peer.Device != "h"+p.Name[1:] {
				t.Errorf("%d ports: %s leads to %s", ports, p.Name, p.Peer)
			}
		}
		fmt.Fprintf(&text, "  s1:p%d - h0\n", ports+1)
		if _, err := Parse("x", []byte(text.String())); err == nil || !strings.Contains(err.Error(), "device s1 has no port p") {
			t.Errorf("%d ports, and one that is not there: %v", ports, err)
		}
	}
}
