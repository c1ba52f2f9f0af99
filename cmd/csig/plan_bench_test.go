package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

// bigFile is a fleet file of some 10,000 devices of 64 ports, 64 to a pod, each
// driven through its daemon: half the ports of each have hosts.
func bigFile() string {
	const pods = 157
	var b strings.Builder
	b.WriteString(`format: csig.fleet/v1
profile: {name: big, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}
defaults:
  platform: linux
  port: {speed: 100G}
  management: {ssh: {user: csig, agent: true}, daemon: {socket: /run/csig/agent.sock}}
devices:
`)
	for p := range pods {
		fmt.Fprintf(&b, "  - {name: \"p%d-leaf[1-32]\", address: \"10.0.%d.[1-32]\"}\n  - {name: \"p%d-spine[1-32]\", address: \"10.1.%d.[1-32]\"}\n", p, p, p, p)
	}
	b.WriteString("hosts:\n")
	for p := range pods {
		for l := 1; l <= 32; l++ {
			fmt.Fprintf(&b, "  - {name: \"p%d-h%d-[1-32]\", csig: true, mtu: 9000}\n  - {name: \"p%d-x%d-[1-32]\", csig: true, mtu: 9000}\n", p, l, p, l)
		}
	}
	b.WriteString("links: |\n")
	for p := range pods {
		for l := 1; l <= 32; l++ {
			fmt.Fprintf(&b, "  p%[1]d-leaf%[2]d:swp[1-32] - p%[1]d-h%[2]d-[1-32]\n  p%[1]d-leaf%[2]d:swp[33-64] - p%[1]d-spine[1-32]:swp%[2]d\n  p%[1]d-spine%[2]d:swp[33-64] - p%[1]d-x%[2]d-[1-32]\n", p, l)
		}
	}
	return b.String()
}

// BenchmarkPlan is csig plan --offline of 10,048 devices of 64 ports, all of
// them driven through their daemons, from the file to what is printed.
func BenchmarkPlan(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big.yaml")
	if err := os.WriteFile(path, []byte(bigFile()), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		planOptions
	}{{"text", planOptions{}}, {"markdown", planOptions{markdown: true}}, {"json", planOptions{json: true}}, {"commands", planOptions{commands: true}}} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cmd := newPlan()
				cmd.SetContext(b.Context())
				cmd.SetOut(io.Discard)
				cmd.SetErr(io.Discard)
				o := tc.planOptions
				o.fleet, o.offline = path, true
				var pending *exitError
				if err := runPlan(cmd, &o); !errors.As(err, &pending) || pending.code != 2 {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("load alone", func(b *testing.B) {
		for b.Loop() {
			if _, err := inventory.Load(path); err != nil {
				b.Fatal(err)
			}
		}
	})
}
