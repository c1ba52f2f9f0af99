//go:build !linux

package rollout

import "golang.org/x/sys/unix"

const setLock = unix.F_SETLK
