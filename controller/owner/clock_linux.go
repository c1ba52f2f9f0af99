package owner

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot goes on while the machine is suspended, other than time.Now: an owner that
// sleeps must not find its term where it left it.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(t.Nano())
}
