package inventory

import (
	"strings"
	"testing"
)

// BenchmarkAllocate gives the ports of a fabric their locators: numbers without fields, a number
// behind fields that csig derives, and fields that are all derived.
func BenchmarkAllocate(b *testing.B) {
	text := closText(64, 16, 48)
	for _, row := range []struct{ name, locator string }{
		{"numbers", ""},
		{"fields", "locator: [{name: level, bits: 2}, {name: port, bits: 5}], "},
		{"derived", "locator: [{name: stage, bits: 2}, {name: orientation, bits: 2}, {name: port, bits: 3}], "},
		{"all derived", "locator: [{name: capacity, bits: 4}, {name: orientation, bits: 2}], "},
	} {
		b.Run(row.name, func(b *testing.B) {
			whole := strings.Replace(text, "interval", row.locator+"interval", 1)
			whole = strings.Replace(whole, "platform: sonic", "platform: sonic, port: {speed: 100G}", 1)
			c, f, err := compile("bench.yaml", files{text: []byte(whole)})
			if err != nil || len(c.errs) > 0 {
				b.Fatal(err, c.errs)
			}
			for b.Loop() {
				b.StopTimer()
				for i := range c.specs {
					clear(c.specs[i]) // this file gives no lm: what is there was derived
				}
				b.StartTimer()
				c.locators(f)
			}
		})
	}
}
