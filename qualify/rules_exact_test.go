package qualify

import (
	"strings"
	"testing"
)

// TestReversals: a fault names a flow cache only where the same tag was right before.
func TestReversals(t *testing.T) {
	var c reversals
	for _, right := range []bool{false, true, true} {
		if clear(c.wrong); c.saw(7, right) != right || c.saw(9, false) {
			t.Fatal("it returns another answer")
		}
	}
	if got := c.text(); got != "" {
		t.Errorf("what was always wrong, or became right, is a cache: %s", got)
	}
	clear(c.wrong)
	c.saw(7, false)
	c.saw(9, false)
	if got := c.text(); !strings.HasPrefix(got, "; 1 of them were treated right before") {
		t.Errorf("%q", got)
	}
}
