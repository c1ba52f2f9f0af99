package digits_test

import (
	"testing"

	"github.com/csig-agent/csig/vlanrules/internal/digits"
)

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 65536: "65,536", 1234567: "1,234,567"} {
		if is := digits.Grouped(n); is != want {
			t.Errorf("%d is written %s, want %s", n, is, want)
		}
	}
}
