package process

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors/all"
)

// dropPrivileges has all threads of this process, and what it starts, give up what the
// daemon of devices of these platforms does not need; nil: they are not known yet. group
// reports whether its socket is to be given to one. It must come before anything
// takes capabilities from single threads.
func dropPrivileges(platforms []string, group bool) error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("giving up new privileges: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("reading this process's capabilities: %w", err)
	}
	registry, keep := all.Default(), []int(nil)
	if platforms == nil {
		platforms = registry.Drivers()
	}
	for _, name := range platforms {
		if p, err := registry.Platform(name); err == nil {
			keep = append(keep, p.Capabilities...)
		}
	}
	if group {
		keep = append(keep, unix.CAP_CHOWN)
	}
	var mask [2]uint32
	for _, c := range keep {
		mask[c/32] |= 1 << (c % 32)
	}
	for i := range have {
		have[i].Effective &= mask[i]
		have[i].Permitted &= mask[i]
		have[i].Inheritable = 0
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&have[0])), 0); errno != 0 {
		return fmt.Errorf("giving up capabilities: %w", errno)
	}
	return nil
}
