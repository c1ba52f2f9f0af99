package linux

import (
	"strings"
	"testing"

	"github.com/csig-agent/csig/vlanrules"
)

// TestSelfTestWaitsForBothValues has the counts at which the self-test may end,
// and what it then says.
func TestSelfTestWaitsForBothValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		a, b, other int
		flips       int
		enough      bool
		says        string // "": full
	}{
		{"as it should be", 300, 300, 0, selfTestFlips, true, ""},
		{"too few changes", 300, 300, 0, selfTestFlips - 1, false, ""},
		{"too few frames", 100, 100, 0, selfTestFlips, false, ""},
		{"the second value not seen yet", 5000, 0, 0, 10 * selfTestFlips, false, "too busy to judge"},
		{"the first value not seen yet", 0, 5000, 0, 10 * selfTestFlips, false, "too busy to judge"},
		{"one frame of it is enough", 5000, 1, 0, selfTestFlips, true, ""},
		{"nothing arrives", 0, 0, 0, 10 * selfTestFlips, false, "too busy to judge"},
		{"a wrong value is a verdict by itself", 5000, 0, 1, selfTestFlips, true, "one with 0x1234"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c tally
			for data, n := range map[uint16]int{flipA: tc.a, flipB: tc.b, 0x1234: tc.other} {
				for range n {
					c.count(data)
				}
			}
			if got := c.enough(tc.flips); got != tc.enough {
				t.Errorf("enough: %v", got)
			}
			v := c.verdict(tc.flips)
			if (tc.says == "") != (v.Level == vlanrules.Full) || !strings.Contains(v.Reason, tc.says) {
				t.Errorf("%s: %s; want it to say %q", v.Level, v.Reason, tc.says)
			}
		})
	}
}
