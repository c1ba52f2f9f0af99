package inventory

import (
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ofKernel reports whether a file is one of procfs or sysfs: they look like plain files,
// and reading one may wait for ever.
func ofKernel(file fs.File) bool {
	f, ok := file.(*os.File)
	if !ok {
		return false
	}
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	return err != nil || st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SYSFS_MAGIC
}

// unprivileged calls start, which starts a program, on a thread without
// capabilities, where this process has given up new privileges: csig agent has.
// Elsewhere a program that root starts would have them all again.
func unprivileged(start func() error) error {
	if given, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || given == 0 {
		return start()
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			result <- err
			return
		}
		result <- start()
	}()
	return <-result
}
