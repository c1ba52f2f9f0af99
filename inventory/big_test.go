package inventory

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// bigFleet is a fleet of three tiers: pods of 32 leaves and 32 spines with 32
// links each way, and 32 planes of cores. Leaves have 32 hosts, all devices 64
// ports. spelled writes each cable in a line of its own, else ranges do.
func bigFleet(pods int, spelled bool) fstest.MapFS {
	head := `format: csig.fleet/v1
include: "pods/*.yaml"
profile:
  name: big
  tpid: 0x9900
  interval: 1s
  signals:
    abw: {buckets: log-400G}
    abwc: {buckets: log}
defaults:
  platform: sonic
  management: {ssh: {user: csig, agent: true}}
  port: {speed: 100G, mtu: 9216}
groups:
  leaf: {tags: [tor], ports: [{name: "swp[1-64]"}]}
  spine: {ports: [{name: "swp[1-64]"}]}
`
	out := fstest.MapFS{"fleet.yaml": {Data: []byte(head)}}
	for pod := range pods {
		var b strings.Builder
		b.WriteString("format: csig.fleet/v1\ndevices:\n")
		for i := 1; i <= 32; i++ {
			fmt.Fprintf(&b, "  - {name: leaf-%d-%d, groups: leaf, address: 10.%d.1.%d}\n", pod, i, pod, i)
			fmt.Fprintf(&b, "  - {name: spine-%d-%d, groups: spine, address: 10.%d.2.%d}\n", pod, i, pod, i)
		}
		b.WriteString("links: |\n")
		for i := 1; i <= 32; i++ {
			if spelled {
				for j := 1; j <= 32; j++ {
					fmt.Fprintf(&b, "  leaf-%d-%d:swp%d - gpu-%d-%d-%d\n", pod, i, j, pod, i, j)
					fmt.Fprintf(&b, "  leaf-%d-%d:swp%d - spine-%d-%d:swp%d\n", pod, i, 32+j, pod, j, i)
					fmt.Fprintf(&b, "  spine-%d-%d:swp%d - core-%d-%d-%d:swp%d\n", pod, i, 32+j, pod/64, i, j, pod%64+1)
				}
			} else {
				fmt.Fprintf(&b, "  leaf-%d-%d:swp[1-32] - gpu-%d-%d-[1-32]\n", pod, i, pod, i)
				fmt.Fprintf(&b, "  leaf-%d-%d:swp[33-64] - spine-%d-[1-32]:swp%d\n", pod, i, pod, i)
				fmt.Fprintf(&b, "  spine-%d-%d:swp[33-64] - core-%d-%d-[1-32]:swp%d\n", pod, i, pod/64, i, pod%64+1)
			}
		}
		out[fmt.Sprintf("pods/%03d.yaml", pod)] = &fstest.MapFile{Data: []byte(b.String())}
	}
	var cores strings.Builder
	cores.WriteString("format: csig.fleet/v1\ndevices:\n")
	for n := range (pods + 63) / 64 { // each of them reaches 64 pods
		for i := 1; i <= 32; i++ {
			fmt.Fprintf(&cores, "  - {name: \"core-%d-%d-[1-32]\", groups: spine, address: \"10.%d.%d.[1-32]\"}\n", n, i, 200+n, i)
		}
	}
	out["pods/cores.yaml"] = &fstest.MapFile{Data: []byte(cores.String())}
	return out
}

func devices(pods int) int { return pods*64 + (pods+63)/64*1024 }

// BenchmarkLoad reads and resolves fleets of devices with 64 ports each; the
// locators are allocated.
func BenchmarkLoad(b *testing.B) {
	for _, pods := range []int{1, 16, 128} {
		for _, spelled := range []bool{false, true} {
			b.Run(fmt.Sprintf("devices=%d/spelled=%t", devices(pods), spelled), func(b *testing.B) {
				fsys := bigFleet(pods, spelled)
				b.ReportAllocs()
				for b.Loop() {
					f, err := loadFS(fsys, "fleet.yaml")
					if err != nil {
						b.Fatal(err.Error()[:min(len(err.Error()), 2000)])
					}
					if len(f.Devices) != devices(pods) {
						b.Fatal(len(f.Devices))
					}
				}
			})
		}
	}
}
