//go:build !linux

package plans

import "golang.org/x/sys/unix"

const setLock = unix.F_SETLK
