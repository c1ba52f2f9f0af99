package agent

import (
	"fmt"
	"time"
)

// repairs are those of a device's rules that come again and again.
type repairs struct {
	last  time.Time
	apart time.Duration // of the last two of the same
	what  string
	row   int // of the same, one after the other
}

// Repairs of the same belong to one row where they are less than repairRow apart; after the
// last one it takes as long as three of them, and at least repairRest, until rules count as
// what they were written to.
const (
	repairRow  = 2 * time.Minute
	repairRest = 15 * time.Second
)

const doesNotStay = "another process changes them, or the device confirms changes and does not carry them out"

// note takes in a repair.
func (r *repairs) note(now time.Time, what string) {
	r.apart = now.Sub(r.last)
	if r.row++; r.what != what || r.apart >= repairRow {
		r.row = 1
	}
	r.last, r.what = now, what
}

// recur says why rules may not be what was written, "" where nothing says so: a single repair
// is none of a device that does not do as it says.
func (r *repairs) recur(now time.Time) string {
	if r.row < 2 || now.Sub(r.last) >= max(repairRest, 3*r.apart) {
		return ""
	}
	return fmt.Sprintf("its rules were restored %d times in a row, %v ago at last: %s", r.row, now.Sub(r.last).Round(time.Second), doesNotStay)
}
