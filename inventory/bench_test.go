package inventory

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse reads files of devices with 64 ports each. The largest is
// near MaxFileSize.
func BenchmarkParse(b *testing.B) {
	head, _, _ := strings.Cut(good, "devices:")
	head = strings.Replace(head, "bits: 2, values", "bits: 1, values", 1)
	head = strings.Replace(head, "{tor: 1, spine: 2}", "{tor: 0, spine: 1}", 1)
	head = strings.Replace(head, "name: port, bits: 5", "name: port, bits: 6", 1)
	for _, devices := range []int{1, 8, 600} {
		var text strings.Builder
		text.WriteString(head + "devices:\n")
		for d := range devices {
			fmt.Fprintf(&text, "  - name: s%d\n    platform: linux\n    ports:\n", d)
			for p := range 64 {
				stage, port := "tor", p
				if p == 0 {
					stage = "spine"
				}
				fmt.Fprintf(&text, "      - {name: swp%d, speed: 10G, action: update, lm: {stage: %s, port: %d}, peer: \"s2:swp1\"}\n", p, stage, port)
			}
		}
		b.Run(fmt.Sprintf("ports=%d", devices*64), func(b *testing.B) {
			data := []byte(text.String())
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse("bench.yaml", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
