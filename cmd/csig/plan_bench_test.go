package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// bigFile is a fleet file of 10,000 switches of 64 ports, each driven through its
// daemon: 4,800 leaves with 32 hosts each (153,600 host links), 4,800 spines and
// 400 cores; 32 of each to a pod, and 12 or 13 cores to a plane of spines.
func bigFile() string {
	const pods, planes, uplinks = 150, 32, 5
	var b strings.Builder
	b.WriteString(`format: csig.fleet/v1
profile: {name: big, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}
defaults:
  platform: linux
  port: {speed: 100G}
  management: {ssh: {user: csig, agent: true}, daemon: {socket: /run/csig/agent.sock}}
groups:
  all: {ports: [{name: "swp[1-64]"}]}
devices:
`)
	for p := range pods {
		fmt.Fprintf(&b, "  - {name: \"p%[1]d-leaf[1-32]\", groups: all, tags: [leaf], address: \"10.0.%[1]d.[1-32]\"}\n  - {name: \"p%[1]d-spine[1-32]\", groups: all, tags: [spine], address: \"10.1.%[1]d.[1-32]\"}\n", p)
	}
	cores := func(plane int) int { return 12 + plane%2 } // 400 of 32 planes
	for s := range planes {
		fmt.Fprintf(&b, "  - {name: \"core%[1]d-[1-%[2]d]\", groups: all, tags: [core], address: \"10.2.%[1]d.[1-%[2]d]\"}\n", s, cores(s))
	}
	b.WriteString("hosts:\n")
	for p := range pods {
		for l := 1; l <= 32; l++ {
			fmt.Fprintf(&b, "  - {name: \"p%d-h%d-[1-32]\", csig: true, mtu: 9000}\n", p, l)
		}
	}
	b.WriteString("links: |\n")
	for p := range pods {
		for l := 1; l <= 32; l++ {
			fmt.Fprintf(&b, "  p%[1]d-leaf%[2]d:swp[1-32] - p%[1]d-h%[2]d-[1-32]\n  p%[1]d-leaf%[2]d:swp[33-64] - p%[1]d-spine[1-32]:swp%[2]d\n", p, l)
			for k := range uplinks {
				n := p*uplinks + k // of the plane's links
				fmt.Fprintf(&b, "  p%d-spine%d:swp%d - core%d-%d:swp%d\n", p, l, 33+k, l-1, 1+n/64, 1+n%64)
			}
		}
	}
	return b.String()
}

// BenchmarkProcess runs csig as people do, on that fleet, and reports the time, the
// processor time, and the largest resident memory of the process.
func BenchmarkProcess(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big.yaml")
	if err := os.WriteFile(path, []byte(bigFile()), 0o600); err != nil {
		b.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		exit int
	}{
		{"plan", []string{"plan", "--offline", "-i", path}, 2},
		{"plan -o", []string{"plan", "--offline", "-i", path, "-o", filepath.Join(b.TempDir(), "big.plan")}, 2},
		{"check", []string{"inventory", "check", "-i", path}, 0},
	} {
		b.Run(tc.name, func(b *testing.B) {
			var rss int64
			var cpu time.Duration
			for b.Loop() {
				cmd := exec.Command(exe, tc.args...)
				cmd.Args[0] = "csig" // testscript.Main takes the command's name from here
				if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != tc.exit {
					b.Fatalf("%v\n%.2000s", err, out)
				}
				rss = max(rss, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) // KiB
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(rss)/1024, "MiB-peak")
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// BenchmarkPlan is csig plan --offline of that fleet, from the file to what is
// printed.
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
