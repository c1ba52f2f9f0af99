package owner

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep is how long the machine was suspended since it started: the clock of package time
// stands still meanwhile.
func asleep() time.Duration {
	for { // until nothing came between the two
		before := clock(unix.CLOCK_MONOTONIC)
		boot := clock(unix.CLOCK_BOOTTIME)
		if clock(unix.CLOCK_MONOTONIC)-before < time.Millisecond {
			return boot - before
		}
	}
}

func clock(which int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(which, &t); err != nil {
		panic(err) // every Linux has both
	}
	return time.Duration(t.Nano())
}
