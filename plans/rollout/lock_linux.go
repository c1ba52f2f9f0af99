package rollout

import "golang.org/x/sys/unix"

// setLock locks for an open file rather than for the process.
const setLock = unix.F_OFD_SETLK
