package linux

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// armedPrefix begins the name of the empty table that marks a switch as armed;
// 16 hexadecimal digits follow, a hyphen, and the second, by the switch's clock,
// when it goes back. The table is what decides: the switch's own transaction that
// goes back deletes it, so that one fails which comes after a confirmation, and
// every way to the switch finds it, in the network namespace of the ports.
const armedPrefix = "csig-back-"

func isMark(table string) bool {
	_, err := armedUntil(table)
	return err == nil
}

// armedUntil reads a mark.
func armedUntil(mark string) (time.Time, error) {
	id, until, _ := strings.Cut(strings.TrimPrefix(mark, armedPrefix), "-")
	second, err := strconv.ParseUint(until, 10, 40)
	if err == nil {
		_, err = strconv.ParseUint(id, 16, 64)
	}
	if err != nil || len(id) != 16 || !strings.HasPrefix(mark, armedPrefix) {
		return time.Time{}, fmt.Errorf("%q is no mark of a switch that is armed", mark)
	}
	return time.Unix(int64(second), 0), nil
}

// armedError is the *vendors.ArmedError of the mark that is due last, nil for none.
func armedError(marks []string, now time.Time) error {
	var last time.Time
	for _, m := range marks {
		if until, err := armedUntil(m); err == nil && until.After(last) {
			last = until
		}
	}
	if last.IsZero() {
		return nil
	}
	return &vendors.ArmedError{Left: last.Sub(now).Round(time.Second)}
}
