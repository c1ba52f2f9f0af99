package linux

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// Only names that Arm gives are marks: they go into commands as they are, and
// tables of others stay.
func TestMarks(t *testing.T) {
	const mark = "csig-back-00ff00ff00ff00ff-1000"
	got := marksIn([]byte("table netdev csig\n" +
		"table netdev csig-back\n" +
		"table netdev csig-back-mine\n" +
		"table netdev csig-back-00ff00ff00ff00ff-\n" +
		"table netdev csig-back-00ff00ff00ff00f-1000\n" +
		"table netdev csig-back-00ff00ff00ff00f;-1000\n" +
		"table netdev csig-back-00ff00ff00ff00ff-1000;x\n" +
		"table inet " + mark + "\n" +
		"table netdev " + mark + "\n"))
	if !slices.Equal(got, []string{mark}) {
		t.Errorf("marks: %q", got)
	}
	for now, left := range map[int64]time.Duration{990: 10 * time.Second, 1003: -3 * time.Second} {
		var armed *vendors.ArmedError
		if err := armedError(got, time.Unix(now, 0)); !errors.As(err, &armed) || armed.Left != left {
			t.Errorf("at %d: %v, want %v left", now, err, left)
		}
	}
	if err := armedError(nil, time.Unix(1, 0)); err != nil {
		t.Error(err)
	}
}
