package linux

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// depthsOfKernel is how many VLAN tags may stand in front of a CSIG tag. Where
// the outermost tag has been taken out of the frame into metadata (offloaded),
// older kernels count it when they read behind it and forget it when they
// write there, and so would write to the wrong place.
func depthsOfKernel() (depths int, why string) {
	var u unix.Utsname
	var major, minor int
	if err := unix.Uname(&u); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor) // 0.0 where it is not a number
	}
	if major > 6 || major == 6 && minor >= 8 {
		return maxDepth, ""
	}
	return 0, fmt.Sprintf("Linux %d.%d writes to the wrong place behind an offloaded VLAN tag: Linux 6.8 or newer is needed", major, minor)
}
